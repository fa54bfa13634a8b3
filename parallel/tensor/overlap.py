"""Gather and multiply, or multiply and reduce, a chunk at a time: a chunk is multiplied while the next is on its way.

The steps are those of the ring in ``collectives.ring``, the same data that the executor runs and the simulator times;
here each step has a product under it. Rank 0 of 4; `·W` is the product of one chunk::

    all-gather → matmul                             matmul → reduce-scatter
    step    sends   receives   meanwhile            step    sends   receives   meanwhile
    0       x0      x3         x0·W                 0       p3      into p2    p3 before; own part of p2
    1       x3      x2         x3·W                 1       p2      into p1    own part of p1
    2       x2      x1         x2·W                 2       p1      into p0    own part of p0
                               x1·W

Source: Wang et al., "Overlap communication with dependent computation via decomposition", 2023.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from collectives import ring
from collectives.communicator import Communicator, communicator
from collectives.executor import Progress, StepFailure
from collectives.schedule import Recv, Reduce, Send

from ..deferred import Deferring, put_off
from .column import PLACES, wanted, weight_product
from .ranks import TensorParallel

TAG = 1 << 29  # of our messages: below those of the executor, above those of users


def gather_product(
    x: Tensor, weight: Tensor, bias: Tensor | None, tp: TensorParallel, layer: Deferring | None = None
) -> Tensor:
    """``column_product`` with sequence parallelism, a chunk at a time: (…, s/t, h) → (…, s, f/t)."""
    out: Tensor = _GatherProduct.apply(x, weight, bias, tp, layer)  # type: ignore[no-untyped-call]
    return out


def product_scatter(x: Tensor, weight: Tensor, tp: TensorParallel, layer: Deferring | None = None) -> Tensor:
    """x Wᵀ for the columns of W that this rank has, added up and cut: (…, s, f/t) → (…, s/t, h), varying."""
    out: Tensor = _ProductScatter.apply(x, weight, tp, layer)  # type: ignore[no-untyped-call]
    return out


def ring_gather(x: Tensor, tp: TensorParallel, use: Callable[[int, Tensor], object]) -> None:
    """Every rank's ``x`` passes by: ``use(rank, chunk)`` is called for each, while the next is on its way."""
    comm, here, chunk = communicator(tp.group), tp.rank, x.contiguous()
    for number, step in enumerate(ring.all_gather(tp.rank, tp.size)):
        send, receive = cast(tuple[Send, Recv], step)
        coming = torch.empty_like(chunk)
        message = _Message(comm, number, "all_gather → matmul", chunk, send.to, coming, receive.source)
        use(here, chunk)
        message.wait()
        here, chunk = cast(int, receive.chunk), coming
    use(here, chunk)


def ring_scatter(make: Callable[[int], Tensor], tp: TensorParallel) -> Tensor:
    """The sum of all ranks' ``make(this rank)``; each part is made while what it is added to is on its way."""
    comm, total = communicator(tp.group), make((tp.rank - 1) % tp.size).contiguous()
    for number, step in enumerate(ring.reduce_scatter(tp.rank, tp.size)):
        send, receive = cast(tuple[Send, Reduce], step)
        coming = torch.empty_like(total)
        message = _Message(comm, number, "matmul → reduce_scatter", total, send.to, coming, receive.source)
        part = make(cast(int, receive.chunk))
        message.wait()
        total = coming.add_(part)
    return total


class _Waitable(Protocol):
    def wait(self, timeout: timedelta) -> Any: ...


class _Message:
    """One step's send and receive, under way."""

    def __init__(
        self, comm: Communicator, step: int, what: str, chunk: Tensor, to: int, coming: Tensor, source: int
    ) -> None:
        self._comm, self._what = comm, what
        self._progress = Progress(time.monotonic(), step, "exchange with", source)
        self._held = (chunk, coming)  # until the transport has let go of them
        comm.raise_if_broken(lambda: what)
        self._works = list(self._guarded(lambda: self._post(chunk, to, coming, source)))

    def wait(self) -> None:
        """Raises:
        CollectiveError: the neighbour is gone, or has not come within the group's timeout.
        """
        for work in self._works:
            self._guarded(partial(work.wait, timedelta(seconds=self._comm.timeout)))

    def _post(self, chunk: Tensor, to: int, coming: Tensor, source: int) -> list[_Waitable]:
        if not self._comm.streaming:  # NCCL: one batch
            batch = [
                dist.P2POp(dist.irecv, coming, group=self._comm.group, group_peer=source),
                dist.P2POp(dist.isend, chunk, group=self._comm.group, group_peer=to),
            ]
            return cast(list[_Waitable], dist.batch_isend_irecv(batch))
        tracer, wire = self._comm.tracer, self._comm.link.wire
        wire = wire if tracer is None else tracer.wire(wire, 0)
        return [wire.recv([coming], source, TAG), wire.send([chunk], to, TAG)]

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except RuntimeError as error:
            stop = StepFailure(self._progress, error, self._held)
            raise self._comm.fail(lambda: self._what, "ring", stop) from error


def _slot(whole: Tensor, rank: int, size: int) -> Tensor:
    """The places of one rank, as a view."""
    slot: Tensor = whole.unflatten(PLACES, (size, -1)).select(PLACES - 1, rank)
    return slot


class _GatherProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, tp: TensorParallel, layer: Deferring | None
    ) -> Tensor:
        *front, places, width = x.shape
        with torch.enable_grad():  # see column
            out: Tensor = x.new_empty((*front, places * tp.size, weight.shape[0]))
            whole = None if tp.regather else x.new_empty((*front, places * tp.size, width))

        def use(rank: int, chunk: Tensor) -> None:
            _slot(out, rank, tp.size).copy_(F.linear(chunk, weight, bias))
            if whole is not None:
                _slot(whole, rank, tp.size).copy_(chunk)

        ring_gather(x, tp, use)
        ctx.tp, ctx.layer = tp, layer
        ctx.save_for_backward(x if whole is None else whole, weight)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,), (kept, weight), tp = gradients, ctx.saved_tensors, ctx.tp
        of_x, of_weight, of_bias = wanted(ctx, kept, gradient)
        x_gradient = ring_scatter(lambda r: _slot(gradient, r, tp.size) @ weight, tp) if of_x else None
        weight_gradient = None
        if of_weight and tp.regather:
            weight_gradient = torch.zeros_like(weight)
            into = weight_gradient
            ring_gather(kept, tp, lambda r, chunk: into.add_(weight_product(_slot(gradient, r, tp.size), chunk)))
        elif of_weight:
            weight_gradient = weight_product(gradient, kept)
        bias_gradient = gradient.flatten(0, -2).sum(0) if of_bias else None
        return x_gradient, weight_gradient, bias_gradient, None, None


class _ProductScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, tp: TensorParallel, layer: Deferring | None) -> Tensor:
        ctx.tp, ctx.layer = tp, layer
        ctx.save_for_backward(x, weight)
        own, matrix = x.detach(), weight.detach()
        with torch.enable_grad():  # see column
            return ring_scatter(lambda r: F.linear(_slot(own, r, tp.size), matrix), tp)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x, weight), tp = ctx.saved_tensors, ctx.tp
        of_x, of_weight, *_ = ctx.needs_input_grad
        later = of_weight and ctx.layer is not None and ctx.layer.owed is not None
        x_gradient = torch.empty_like(x) if of_x else None
        weight_gradient = torch.zeros_like(weight) if of_weight and not later else None
        whole = x.new_empty((*x.shape[:-1], weight.shape[0])) if later else None

        def use(rank: int, chunk: Tensor) -> None:
            if x_gradient is not None:
                _slot(x_gradient, rank, tp.size).copy_(chunk @ weight)
            if weight_gradient is not None:
                weight_gradient.add_(weight_product(chunk, _slot(x, rank, tp.size)))
            if whole is not None:
                _slot(whole, rank, tp.size).copy_(chunk)

        ring_gather(gradients[0], tp, use)
        if whole is not None:
            put_off(ctx.layer, x, whole)
        return x_gradient, weight_gradient, None, None
