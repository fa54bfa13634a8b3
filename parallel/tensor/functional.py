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
    out: Tensor = _Copy.apply(x, group)  # type: ignore[no-untyped-call]
    return out


def reduce(x: Tensor, group: Group = None) -> Tensor:
    """The sum of all ranks' ``x``; backward: every summand has the sum's gradient.

    Input partial, output invariant; gradient of the output invariant, of the input replicated.
    """
    out: Tensor = _Reduce.apply(x, group)  # type: ignore[no-untyped-call]
    return out


def gather(x: Tensor, dim: int = -1, group: Group = None) -> Tensor:
    """All ranks' ``x`` (of one shape) along ``dim``, to be used by all ranks alike; backward: the own slice.

    Input varying, output invariant; gradient of the output invariant, of the input varying.
    """
    out: Tensor = _Gather.apply(x, dim, group)  # type: ignore[no-untyped-call]
    return out


def scatter(x: Tensor, dim: int = -1, group: Group = None) -> Tensor:
    """This rank's slice of what all ranks have; backward: all ranks' slices of the gradient.

    Input invariant, output varying; gradient of the output varying, of the input invariant (all-gather).

    Raises:
        ValueError: the ranks do not divide the dimension.
    """
    if x.shape[dim] % (size := dist.get_world_size(group)):
        raise ValueError(f"x has {x.shape[dim]} places along dim={dim}, which {size} ranks do not divide: pad it")
    out: Tensor = _Scatter.apply(x, dim, group)  # type: ignore[no-untyped-call]
    return out


def all_gather(x: Tensor, dim: int = -2, group: Group = None) -> Tensor:
    """All ranks' ``x`` (of one shape) along ``dim``, to be used by each in its own way; backward: reduce-scatter.

    Input varying, output replicated; gradient of the output partial, of the input varying.
    """
    out: Tensor = _AllGather.apply(x, dim, group)  # type: ignore[no-untyped-call]
    return out


def reduce_scatter(x: Tensor, dim: int = -2, group: Group = None) -> Tensor:
    """This rank's slice along ``dim`` of the sum of all ranks' ``x``; backward: all-gather.

    Input partial, output varying; gradient of the output varying, of the input replicated.

    Raises:
        ValueError: the ranks do not divide the dimension.
    """
    if x.shape[dim] % (size := dist.get_world_size(group)):
        raise ValueError(f"x has {x.shape[dim]} places along dim={dim}, which {size} ranks do not divide: pad it")
    out: Tensor = _ReduceScatter.apply(x, dim, group)  # type: ignore[no-untyped-call]
    return out


def own_slice(x: Tensor, dim: int, group: Group) -> Tensor:
    """This rank's share along ``dim``, in memory of its own."""
    return x.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)].clone(memory_format=torch.contiguous_format)


def _sum(x: Tensor, group: Group) -> Pending:
    return exchange.all_reduce(x.clone(memory_format=torch.contiguous_format), group)


def _made(exchange: Callable[..., Pending], *args: Any) -> Tensor:
    """What an exchange makes; outside of a backward it is an activation, which a ledger knows by autograd's mode."""
    with torch.set_grad_enabled(current_pass() < 0):
        return exchange(*args)()


# Each backward calls the function that is its dual, so these can be differentiated twice.


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return reduce(gradients[0], ctx.group), None


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return _made(_sum, x.detach(), group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return copy(gradients[0], ctx.group), None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: Group) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _made(exchange.all_gather, x.detach(), dim, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return scatter(gradients[0], ctx.dim, ctx.group), None, None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: Group) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return own_slice(x, dim, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gather(gradients[0], ctx.dim, ctx.group), None, None


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: Group) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _made(exchange.all_gather, x.detach(), dim, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return reduce_scatter(gradients[0], ctx.dim, ctx.group), None, None


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: Group) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _made(exchange.reduce_scatter, x.detach(), dim, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return all_gather(gradients[0], ctx.dim, ctx.group), None, None
