"""Collectives in 8 bits, for those who call them; :mod:`parallel.wire` does the same to gradients, with error feedback.

all_reduce    x ── encode ── all-to-all ──▶ decode, add in fp32 ── encode ── all-gather ──▶ decode
all_gather    x ── encode ── all-gather ──▶ decode
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

import collectives

from ..wire import Blocks, Rounded


def all_reduce(tensor: Tensor, group: dist.ProcessGroup | None = None, block: int = 128) -> None:
    """The sum over ranks, in place; bitwise the same on all of them.

    A part of 1/N travels as codes, is added up in fp32, and travels on as codes: 2 (N − 1)/N · (1 + 4/block) bytes an
    element instead of 4 times 2 (N − 1)/N.

    Error: at most (Σ over ranks of max|their block| + max|sum's block|) / 254 an element; exact on one rank.
    """
    if dist.get_world_size(group) == 1:
        return
    flat = tensor.detach().contiguous().view(-1)
    transfer = Rounded(flat, group, Blocks(block))
    transfer.start()
    transfer.finish([])
    if flat.data_ptr() != tensor.data_ptr():
        tensor.copy_(flat.view_as(tensor))


def all_gather(tensor: Tensor, group: dist.ProcessGroup | None = None, block: int = 128) -> list[Tensor]:
    """Every rank's tensor (of one shape), by rank: its own as codes made it, so that all ranks have the same.

    Error: at most max|block| / 254 an element.
    """
    codec = Blocks(block)
    message = codec.encode(tensor.detach().contiguous().view(-1))
    gathered = [torch.empty_like(message) for _ in range(dist.get_world_size(group))]
    collectives.all_gather(gathered, message, group=group)
    return [codec.decode(one, tensor.detach().view(-1)).view(tensor.shape) for one in gathered]
