"""Activation checkpointing: keep a segment's inputs, forget what is inside, and compute it again for the backward.

    forward     x ──▶ [ f ] ──▶ y         autograd wants to save a, b, c from inside f: it gets a number for each
                      a b c               instead, and the tensors go as soon as f has ended
    backward    x ──▶ [ f ] again         the first number that is asked for runs f once more, which saves
                      a b c               a, b, c in the same order; each goes when it has been used

With n layers in one segment each, memory falls from n · (all of a layer) to n · (its input) + (all of one layer), for
one more forward. A segment's *graph* is that of the first run, so gradients flow as ever; the second run only refills
it. Source: Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost", 2016; keeping what is dear to
compute and cheap to keep: Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

T = TypeVar("T")
Operator = Any  # an overload of torch.ops.aten
Save = Callable[[Operator], bool]

_MATMULS = {"mm", "bmm", "addmm", "baddbmm", "linear", "_scaled_mm", "_int_mm"}


def matmuls(operator: Operator) -> bool:
    """A ``save`` for :func:`checkpoint`: the results of matrix products, and of nothing else."""
    return operator.overloadpacket.__name__ in _MATMULS


def checkpoint(function: Callable[..., T], *args: Any, save: Save | None = None, **kwargs: Any) -> T:
    """``function(*args, **kwargs)``, of which autograd keeps the inputs only.

    Args:
        function: a module or a function; it runs again during the backward, so it must do the same then. The state of
            the random generators, autocast, and a module's buffers are taken care of (a BatchNorm counts once).
        args, kwargs: anything; tensors may stand in tuples, lists and dicts.
        save: which operators' results to keep nevertheless (:func:`matmuls`); they are not computed again.

    Returns:
        What ``function`` returns: a tensor, a tuple, None, or what else.

    Raises:
        RuntimeError: in the backward, if the second run saves other tensors than the first, or if an input has been
            changed in place meanwhile.

    One more forward of ``function`` (less what was saved); segments may be nested.
    """
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    segment = _Segment(function, _Inputs.of(args, kwargs), _Surroundings.now(), save)
    kept = _Keep(save, segment.results) if save else contextlib.nullcontext()
    with saved_tensors_hooks(segment.forget, segment.recall), kept:
        return function(*args, **kwargs)


def in_segments(functions: Sequence[Callable[[Any], Any]], segments: int, value: Any, save: Save | None = None) -> Any:
    """One function after another, in ``segments`` checkpointed pieces of nearly equal length.

    With √n pieces of n equal layers, both what is kept and what is computed again stay at √n layers.

    Raises:
        ValueError: fewer than one segment, or more segments than functions.
    """
    if not 1 <= segments <= len(functions):
        raise ValueError(f"segments={segments}: give 1 to {len(functions)}, as there are {len(functions)} functions")
    bounds = [len(functions) * i // segments for i in range(segments + 1)]
    for first, end in pairwise(bounds):
        value = checkpoint(_chain(functions[first:end]), value, save=save)
    return value


def _chain(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run


@dataclass(frozen=True, slots=True)
class _Slot:
    """What autograd holds in a tensor's place: the number of the tensor, and what it must look like."""

    number: int
    shape: torch.Size
    dtype: torch.dtype

    @classmethod
    def of(cls, number: int, tensor: Tensor) -> _Slot:
        return cls(number, tensor.shape, tensor.dtype)


class _Enough(Exception):
    """Everything has been saved again; the rest of the function is not needed."""


@dataclass(slots=True)
class _Segment:
    """One call of :func:`checkpoint`; it lives as long as the graph does."""

    function: Callable[..., Any]
    inputs: _Inputs
    surroundings: _Surroundings
    save: Save | None
    results: list[Any] = field(default_factory=list)
    slots: list[_Slot] = field(default_factory=list)
    again: dict[int, Tensor] = field(default_factory=dict)

    def forget(self, tensor: Tensor) -> _Slot:
        self.slots.append(_Slot.of(len(self.slots), tensor))
        return self.slots[-1]

    def recall(self, slot: _Slot) -> Tensor:
        if slot.number not in self.again:
            self.again = self._rerun()
        return self.again.pop(slot.number)

    def _rerun(self) -> dict[int, Tensor]:
        """What the function saves in another run, by number; each as it was the first time."""
        again: dict[int, Tensor] = {}

        def collect(tensor: Tensor) -> None:
            number = len(again)
            if number < len(self.slots) and _Slot.of(number, tensor) != self.slots[number]:
                now = f"{tuple(tensor.shape)} of {tensor.dtype}"
                before = f"{tuple(self.slots[number].shape)} of {self.slots[number].dtype}"
                raise RuntimeError(f"{self._differs()}: tensor {number} is {now}, and was {before}")
            again[number] = tensor.detach()
            if len(again) == len(self.slots):
                raise _Enough
            # the tensor itself would hold the graph that holds it, for ever

        given = _Give(self.save, self.results) if self.save else contextlib.nullcontext()
        args, kwargs = self.inputs.back()
        hooks = saved_tensors_hooks(collect, _no_backward)
        with contextlib.suppress(_Enough), self.surroundings, _unchanged(), torch.enable_grad(), hooks, given:
            self.function(*args, **kwargs)
        if len(again) < len(self.slots):
            raise RuntimeError(f"{self._differs()}: {len(again)} tensors instead of {len(self.slots)}")
        return again

    def _differs(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"checkpoint({name}): it saved other tensors for the backward than in the forward; it must do the same"


def _no_backward(packed: object) -> Tensor:
    raise AssertionError("nobody goes backward through a second run")


class _Saved(torch.autograd.Function):
    """Holds tensors as autograd does: noticed when they are changed in place, and forgotten by a segment around."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return anchor.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise AssertionError("nothing depends on it")


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The arguments of a call, with its tensors in autograd's care."""

    values: list[Any]
    places: list[int]
    shape: Any
    holder: Tensor

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Inputs:
        values, shape = tree_flatten((args, kwargs))
        places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        anchor = torch.empty(0, requires_grad=True)
        holder: Tensor = _Saved.apply(anchor, *(values[i] for i in places))  # type: ignore[no-untyped-call]
        return cls([None if i in places else value for i, value in enumerate(values)], places, shape, holder)

    def back(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values, node = list(self.values), self.holder.grad_fn
        for i, tensor in zip(self.places, node.saved_tensors, strict=True):  # type: ignore[union-attr]
            values[i] = tensor
        args, kwargs = tree_unflatten(values, self.shape)
        return args, kwargs


@dataclass(slots=True)
class _Surroundings:
    """What else a run depends on: random generators and autocast. Entered, it is as it was."""

    generator: Tensor
    devices: list[Tensor]  # of each CUDA device
    autocast: list[tuple[str, torch.dtype, bool]]
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @classmethod
    def now(cls) -> _Surroundings:
        cuda = torch.cuda.is_initialized()
        kinds = ["cpu", *["cuda"] * cuda]
        return cls(
            torch.get_rng_state(),
            torch.cuda.get_rng_state_all() if cuda else [],
            [(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) for kind in kinds],
        )

    def __enter__(self) -> None:
        self._stack.enter_context(torch.random.fork_rng(range(len(self.devices))))
        torch.set_rng_state(self.generator)
        if self.devices:
            torch.cuda.set_rng_state_all(self.devices)
        for kind, dtype, enabled in self.autocast:
            self._stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled))

    def __exit__(self, *raised: Any) -> None:
        self._stack.close()


@contextlib.contextmanager
def _unchanged() -> Iterator[None]:
    """Buffers of the modules that run are afterwards what they were: a running mean has seen the batch already."""
    here, before = threading.get_ident(), dict[Tensor, Tensor]()

    def remember(module: nn.Module, inputs: object) -> None:
        if threading.get_ident() == here:
            for buffer in module.buffers(recurse=False):
                before.setdefault(buffer, buffer.clone())

    hook = register_module_forward_pre_hook(remember)
    try:
        yield
    finally:
        hook.remove()
        with torch.no_grad():
            for buffer, value in before.items():
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


class _Keep(TorchDispatchMode):
    """Keeps the results of some operators, in order."""

    def __init__(self, save: Save, results: list[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._save, self._results = save, results

    def __torch_dispatch__(self, operator: Operator, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        if self._save(operator):
            self._results.append(result)
        return result


class _Give(TorchDispatchMode):
    """Gives the results that were kept, in the same order, instead of running the operators."""

    def __init__(self, save: Save, results: list[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._save, self._results = save, iter(results)

    def __torch_dispatch__(self, operator: Operator, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._save(operator):
            return next(self._results)
        return operator(*args, **(kwargs or {}))
