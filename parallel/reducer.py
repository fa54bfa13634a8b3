"""Gradients reduced while the backward pass still runs: the machine behind ``DistributedDataParallel``.

    backward pass   │ g5 g4 │ g3 g2 │ g1 g0 │
                       hooks:   ▼       ▼       ▼ end of the pass
    bucket 0                 ├─ all-reduce ─┤
    bucket 1                        ├─ all-reduce ─┤            on the communicator's worker, one after the other
    bucket 2                                ├─ all-reduce ─┤
                                                           ▼ every gradient is the mean; optimizer

A bucket leaves when its last gradient has come *and* all before it have left: ranks that use their parameters in
different order, or use different ones, still issue the same operations in the same order. What has not come by the end
of the pass has not been used; it leaves then (see ``wire.NOTHING``). Gradients are views of their buckets from the
moment they arrive, so they are there once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable

from .buckets import assign
from .hooks import current_pass
from .wire import NOTHING, transfer_of


class Bucket:
    """Flat memory for the gradients of some parameters, and their way to the other ranks.

    views: each parameter's gradient in it; missing: those that have not come in this backward pass.
    """

    def __init__(
        self, names: list[str], parameters: list[nn.Parameter], group: dist.ProcessGroup | None, wire: str | None
    ) -> None:
        first = parameters[0]
        sizes = [parameter.numel() for parameter in parameters]
        self.names, self.parameters = names, parameters
        self.flat = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
        self.views = [v.view(p.shape) for v, p in zip(self.flat.split(sizes), parameters, strict=True)]
        self.starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self._starts = torch.tensor(self.starts, device=first.device)
        self._share = 1 / dist.get_world_size(group)
        self.transfer = transfer_of(self.flat, group, wire)
        self.missing: set[int] = set()
        self._unused: list[int] = []

    def begin(self) -> None:
        self.missing = set(range(len(self.parameters)))

    def adopt(self, index: int, factor: float) -> None:
        """The parameter's gradient times ``factor``, in the bucket: moved there, if it was not."""
        parameter, view = self.parameters[index], self.views[index]
        gradient = parameter.grad
        if gradient is None:
            return
        if gradient.data_ptr() != view.data_ptr():
            torch.mul(gradient.to_dense() if gradient.is_sparse else gradient, factor, out=view)
            parameter.grad = view
        elif factor != 1:
            view.mul_(factor)

    def arrived(self, index: int) -> None:
        if index not in self.missing:
            raise RuntimeError(
                f"the gradient of {self.names[index]!r} came twice in one backward pass: a reentrant checkpoint runs "
                "the pass in pieces; checkpoint without reentrance (use_reentrant=False, or parallel.checkpoint)"
            )
        self.adopt(index, self._share)
        self.missing.discard(index)

    def leave(self) -> None:
        """Send this rank's share of the mean. A parameter without a gradient here sends nothing, and no other does:
        its first element tells."""
        for index in self.missing:
            self.adopt(index, self._share)  # an earlier microbatch's
        self._unused = [index for index in self.missing if self.parameters[index].grad is None]
        self.flat[self._starts] += 0.0
        for index in self._unused:
            self.views[index].fill_(NOTHING)
        self.transfer.start()

    def arrive(self) -> None:
        """Wait for the mean. What this rank has not used has a gradient, too, if another has used it."""
        unused_by_all = self.transfer.finish([self.starts[index] for index in self._unused])
        for index, nobody in zip(self._unused, unused_by_all, strict=True):
            if not nobody:
                self.parameters[index].grad = self.views[index]


class Arrival:
    """The hook of one parameter. It holds the reducer weakly: the parameters may outlive the wrapper."""

    def __init__(self, reducer: Reducer, bucket: Bucket, index: int) -> None:
        self._reducer, self._bucket, self._index = weakref.ref(reducer), weakref.ref(bucket), index

    @property
    def alive(self) -> bool:
        return self._reducer() is not None

    def __call__(self, parameter: torch.Tensor) -> None:
        reducer, bucket = self._reducer(), self._bucket()
        if reducer is not None and bucket is not None:
            reducer.arrived(bucket, self._index)


class Reducer:
    """Averages the gradients of some parameters over a group, in buckets, during the backward pass.

    Args:
        parameters: the trainable ones by name, in the order of the forward pass, each with at least one element.
        limit: bytes of a bucket.
        wire: None, or a name in ``wire.WIRES``.

    Attributes:
        buckets: in the order in which they leave; enabled: off while microbatches only add up.
    """

    def __init__(
        self,
        parameters: dict[str, nn.Parameter],
        limit: float,
        group: dist.ProcessGroup | None = None,
        wire: str | None = None,
    ) -> None:
        names, values = list(parameters), list(parameters.values())
        kinds = [(p.dtype, p.device) for p in values]
        self.buckets = [
            Bucket([names[i] for i in bucket], [values[i] for i in bucket], group, wire)
            for bucket in assign([p.nbytes for p in values], kinds, limit)
        ]
        self.enabled = True
        self._pass: int | None = None  # the backward pass under way, as autograd numbers them
        self._left = 0
        handles = [
            parameter.register_post_accumulate_grad_hook(Arrival(self, bucket, index))
            for bucket in self.buckets
            for index, parameter in enumerate(bucket.parameters)
        ]
        weakref.finalize(self, _remove, handles)

    def watch(self, outputs: Iterable[torch.Tensor]) -> None:
        """Take part in the backward pass through these outputs, even if no parameter of this rank gets a gradient.

        A forward outside of any backward pass ends one that has failed in the middle.
        """
        if self._pass is not None and current_pass() == -1:
            self._abandon()
        for output in outputs:
            if output.grad_fn is not None:
                output.register_hook(self._begin)

    def _begin(self, gradient: torch.Tensor | None = None) -> None:
        """The backward pass has reached the model: be called at its end."""
        current = current_pass()
        if not self.enabled or self._pass == current:
            return
        if self._pass is not None:
            self._abandon()
        for bucket in self.buckets:
            bucket.begin()
        self._pass, self._left = current, 0
        Variable._execution_engine.queue_callback(self._end)

    @torch.no_grad()
    def arrived(self, bucket: Bucket, index: int) -> None:
        """A parameter's gradient is complete; called by autograd.

        Raises:
            RuntimeError: it comes a second time in this backward pass.
        """
        if not self.enabled:
            bucket.adopt(index, 1)
            return
        if self._pass is None:  # outputs of a kind that is not known
            self._begin()
        bucket.arrived(index)
        while self._left < len(self.buckets) and not self.buckets[self._left].missing:
            self._leave()

    def _leave(self) -> None:
        """The next bucket leaves; the one before it goes on to its second exchange, if it has one."""
        self.buckets[self._left].leave()
        if self._left:
            self.buckets[self._left - 1].transfer.advance()
        self._left += 1

    @torch.no_grad()
    def _end(self) -> None:
        """The backward pass is over: send what has not left, wait for everything."""
        try:
            while self._left < len(self.buckets):
                self._leave()
            for bucket in self.buckets:
                bucket.arrive()
        finally:
            self._pass = None

    def _abandon(self) -> None:
        """Let what an earlier, failed backward pass has sent arrive before its memory is used again."""
        self._pass = None
        for bucket in self.buckets[: self._left]:
            bucket.transfer.finish([])


def _remove(handles: list[torch.utils.hooks.RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()


def reduced_elsewhere(parameter: nn.Parameter) -> bool:
    """Whether a living reducer has this parameter."""
    hooks: dict[int, Callable[..., None]] = getattr(parameter, "_post_accumulate_grad_hooks", None) or {}
    return any(isinstance(hook, Arrival) and hook.alive for hook in hooks.values())
