"""Whether all ranks wrap the same module in the same way: asked once, before anything else is sent."""

from __future__ import annotations

import zlib

import torch
import torch.distributed as dist
from torch import nn

import collectives


def check_alike(module: nn.Module, settings: str, group: dist.ProcessGroup | None) -> None:
    """All ranks of the group wrap the same module with the same settings, or all raise.

    Args:
        module: with at least one parameter; settings: in words, the same if they are.

    Raises:
        ValueError: another number of tensors, other names, shapes, dtypes, frozen parameters or settings.
    """
    tensors = [*module.named_parameters(), *module.named_buffers()]
    words = [settings, *(f"{name} {tuple(t.shape)} {t.dtype} {t.requires_grad}" for name, t in tensors)]
    mine = [len(tensors), sum(t.numel() for _, t in tensors), zlib.crc32("\n".join(words).encode())]
    device = next(module.parameters()).device
    everyone = torch.empty(dist.get_world_size(group) * len(mine), dtype=torch.int64, device=device)
    collectives.all_gather_into_tensor(everyone, torch.tensor(mine, device=device), group)
    ranks = everyone.view(-1, len(mine)).tolist()
    if any(rank != ranks[0] for rank in ranks):
        each = "; ".join(f"rank {i}: {count} tensors, {size} elements" for i, (count, size, _) in enumerate(ranks))
        raise ValueError(
            f"module or settings differ between ranks ({each}): every rank must wrap a module with the same names, "
            f"shapes, dtypes and frozen parameters, with the same settings; this one has {settings}"
        )
