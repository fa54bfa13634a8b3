"""The three exchanges of tensor parallelism, begun and waited for; autograd does not see them (``functional`` does).

Each function starts an exchange and returns what waits for its result. Between the two the caller computes:

    pending = all_reduce(product, group, background=True)
    other = …                                               under the transfer
    total = pending()

A ring always: "auto" would send more than the closed forms say for small tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch.distributed as dist
from torch import Tensor

import collectives

from ..wire import wait

Group: TypeAlias = dist.ProcessGroup | None
Pending: TypeAlias = Callable[[], Tensor]


def all_reduce(x: Tensor, group: Group, background: bool = False) -> Pending:
    """The sum over the ranks, in place: ``x`` must be contiguous, and the caller's own."""
    handle = collectives.all_reduce(x, group=group, async_op=background, algorithm="ring")

    def finish() -> Tensor:
        wait(handle)
        return x

    return finish


def all_gather(x: Tensor, dim: int, group: Group, background: bool = False) -> Pending:
    """All ranks' ``x`` one after another along ``dim``; all are of one shape."""
    dim, size, x = dim % x.dim(), dist.get_world_size(group), x.contiguous()
    blocks = x.new_empty((size, *x.shape))
    handle = collectives.all_gather_into_tensor(blocks, x, group, background, algorithm="ring")

    def finish() -> Tensor:
        wait(handle)
        joined: Tensor = blocks.movedim(0, dim).flatten(dim, dim + 1)
        return joined

    return finish


def reduce_scatter(x: Tensor, dim: int, group: Group, background: bool = False) -> Pending:
    """This rank's share along ``dim`` of the sum over the ranks, which must divide it."""
    dim, size = dim % x.dim(), dist.get_world_size(group)
    blocks = x.unflatten(dim, (size, -1)).movedim(dim, 0).contiguous()
    own: Tensor = blocks.new_empty(blocks.shape[1:])
    handle = collectives.reduce_scatter_tensor(own, blocks, group=group, async_op=background, algorithm="ring")

    def finish() -> Tensor:
        wait(handle)
        return own

    return finish
