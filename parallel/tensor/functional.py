"""Collectives that autograd can go through: the backward of each is its dual.

What a tensor is on the ranks of a group, and what its gradient then is::

    kind         on the ranks                                         its gradient is
    invariant    the same, and all of it is used alike                invariant: the same on all ranks
    replicated   the same, but each rank uses it in its own way       partial: to be added up
    varying      each rank has its own                                varying
    partial      each rank has a summand of what is meant             replicated

    forward                          backward
    copy            I → R            P → I    all-reduce         Megatron's f
    reduce          P → I            I → R    nothing to do      Megatron's g
    gather          V → I            I → V    the own slice
    scatter         I → V            V → I    all-gather
    all_gather      V → R            P → V    reduce-scatter     before a block, with sequence parallelism
    reduce_scatter  P → V            V → R    all-gather         behind it

``copy`` forgotten leaves the forward right and every input gradient a part of itself. No function writes its input, so
``y = reduce(x); z = x + y`` means what it says. Sources: Shoeybi et al., "Megatron-LM", 2019, and Korthikanti et al.,
"Reducing activation recomputation in large transformer models", 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..hooks import current_pass
from . import exchange
from .exchange import Group, Pending


def copy(x: Tensor, group: Group = None) -> Tensor:
    """``x`` itself, for ranks that each use it in their own way; backward: the gradients are added up.

    Input invariant, output replicated; gradient of the output partial, of the input invariant (all-reduce).
    """
    return _with_dual(_itself, reduce, x, group)


def reduce(x: Tensor, group: Group = None) -> Tensor:
    """The sum of all ranks' ``x``; backward: every summand has the sum's gradient.

    Input partial, output invariant; gradient of the output invariant, of the input replicated.
    """
    return _with_dual(_sum, copy, x, group)


def gather(x: Tensor, dim: int = -1, group: Group = None) -> Tensor:
    """All ranks' ``x`` (of one shape) along ``dim``, to be used by all ranks alike; backward: the own slice.

    Input varying, output invariant; gradient of the output invariant, of the input varying.
    """
    return _with_dual(_gathered, scatter, x, dim, group)


def scatter(x: Tensor, dim: int = -1, group: Group = None) -> Tensor:
    """This rank's slice of what all ranks have; backward: all ranks' slices of the gradient.

    Input invariant, output varying; gradient of the output varying, of the input invariant (all-gather).

    Raises:
        ValueError: the ranks do not divide the dimension.
    """
    _check_divided(x, dim, group)
    return _with_dual(own_slice, gather, x, dim, group)


def all_gather(x: Tensor, dim: int = -2, group: Group = None) -> Tensor:
    """All ranks' ``x`` (of one shape) along ``dim``, to be used by each in its own way; backward: reduce-scatter.

    Input varying, output replicated; gradient of the output partial, of the input varying.
    """
    return _with_dual(_gathered, reduce_scatter, x, dim, group)


def reduce_scatter(x: Tensor, dim: int = -2, group: Group = None) -> Tensor:
    """This rank's slice along ``dim`` of the sum of all ranks' ``x``; backward: all-gather.

    Input partial, output varying; gradient of the output varying, of the input replicated.

    Raises:
        ValueError: the ranks do not divide the dimension.
    """
    _check_divided(x, dim, group)
    return _with_dual(_summed_slice, all_gather, x, dim, group)


def own_slice(x: Tensor, dim: int, group: Group) -> Tensor:
    """This rank's share along ``dim``, in memory of its own."""
    return x.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)].clone(memory_format=torch.contiguous_format)


def _check_divided(x: Tensor, dim: int, group: Group) -> None:
    if x.shape[dim] % (size := dist.get_world_size(group)):
        raise ValueError(f"x has {x.shape[dim]} places along dim={dim}, which {size} ranks do not divide: pad it")


def _itself(x: Tensor, group: Group) -> Tensor:
    return x.view_as(x)


def _sum(x: Tensor, group: Group) -> Tensor:
    return _made(lambda: exchange.all_reduce(x.detach().clone(memory_format=torch.contiguous_format), group))


def _gathered(x: Tensor, dim: int, group: Group) -> Tensor:
    return _made(lambda: exchange.all_gather(x.detach(), dim, group))


def _summed_slice(x: Tensor, dim: int, group: Group) -> Tensor:
    return _made(lambda: exchange.reduce_scatter(x.detach(), dim, group))


def _made(begin: Callable[[], Pending]) -> Tensor:
    """What an exchange makes; outside of a backward it is an activation, which a ledger knows by autograd's mode."""
    with torch.set_grad_enabled(current_pass() < 0):
        return begin()()


def _with_dual(forward: Callable[..., Tensor], dual: Callable[..., Tensor], x: Tensor, *where: Any) -> Tensor:
    """``forward(x, *where)``, whose backward is ``dual(gradient, *where)``: that can be differentiated again."""
    out: Tensor = _WithDual.apply(forward, dual, x, *where)  # type: ignore[no-untyped-call]
    return out


class _WithDual(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, forward: Callable[..., Tensor], dual: Callable[..., Tensor], x: Tensor, *where: Any
    ) -> Tensor:
        ctx.dual, ctx.where = dual, where
        return forward(x, *where)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, ctx.dual(gradients[0], *ctx.where), *(None for _ in ctx.where)
