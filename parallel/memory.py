"""What is in memory, and what for: live bytes by kind, exactly, at any moment of a training step.

    kind          is
    parameters    what the module's parameters lie in, shards and gathered layers included
    gradients     what their ``.grad`` lie in, buckets included
    optimizer     the optimizer's state (its counters, which have no size, are under other)
    buffers       the module's buffers
    activations   what a forward has made and something still holds: autograd, mostly
    other         everything else that was made while the ledger watched: temporaries, messages, counters

Bytes are those of storages: a view costs nothing, two tensors in one storage count once (as the first kind above).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

KINDS = ("parameters", "gradients", "optimizer", "buffers", "activations", "other")

Bytes = dict[str, int]  # by kind, and the total


@runtime_checkable
class Holder(Protocol):
    """Who holds tensors that a module and its optimizer do not know: shards, buckets, master copies."""

    def holdings(self) -> Mapping[str, Iterable[Tensor]]:
        """Those tensors, by kind."""


class Ledger:
    """Live bytes of a model on this rank.

    Args:
        module: the model, or what wraps it (a :class:`Holder` is asked for its own tensors, too).
        optimizer: where its state is no :class:`Holder`'s, or one that is (mixed precision, states that are away).

    ``now()`` at rest needs no more. To see activations and peaks, let it watch::

        with Ledger(model, optimizer) as ledger:
            loss(model(x)).backward()
            print(ledger.peak)          # when the total was highest
            optimizer.step()
            print(ledger.now())

    It sees the operators of the thread that entered it (autograd's on a CPU among them), and what a :class:`Holder`
    names; an operator costs it O(live storages), so it is slow, and exact.

    Attributes:
        peak: all kinds at the moment when the total was highest; tops: each kind's own maximum.
    """

    def __init__(self, module: nn.Module | Holder, optimizer: torch.optim.Optimizer | Holder | None = None) -> None:
        self._module, self._optimizer = module, optimizer
        self._watch = _Watch(self)
        self.peak: Bytes = dict.fromkeys((*KINDS, "total"), 0)
        self.tops: Bytes = dict(self.peak)

    def __enter__(self) -> Ledger:
        self.reset_peak()
        self._watch.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        self._watch.__exit__(*raised)  # type: ignore[no-untyped-call]

    def reset_peak(self) -> None:
        """Look for a new peak, and new tops, from here on."""
        self.peak = self.now()
        self.tops = dict(self.peak)

    def now(self) -> Bytes:
        """Bytes of each kind, and their ``total``."""
        found = dict.fromkeys(KINDS, 0)
        seen = set[int]()
        for kind, tensor in self._known():
            storage = tensor.untyped_storage()
            if storage.data_ptr() and storage._cdata not in seen:
                seen.add(storage._cdata)
                found[kind] += storage.nbytes()
        for storage, kind in self._watch.living():
            if storage._cdata not in seen:
                found[kind] += storage.nbytes()
        return {**found, "total": sum(found.values())}

    def _known(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors that somebody names, in the order of the kinds."""
        module, optimizer = self._module, self._optimizer
        holdings = [one.holdings() for one in (module, optimizer) if isinstance(one, Holder)]
        parameters = list(module.parameters()) if isinstance(module, nn.Module) else []
        states = optimizer.state.values() if isinstance(optimizer, torch.optim.Optimizer) else ()
        state = [value for values in states for value in tree_leaves(values)]
        tensors = [value for value in state if isinstance(value, Tensor)]
        named: dict[str, Iterable[Tensor]] = {
            "parameters": parameters,
            "gradients": [parameter.grad for parameter in parameters if parameter.grad is not None],
            "optimizer": [tensor for tensor in tensors if tensor.dim()],
            "buffers": module.buffers() if isinstance(module, nn.Module) else (),
            "other": [tensor for tensor in tensors if not tensor.dim()],
        }
        for kind in KINDS:
            for tensor in (*(t for held in holdings for t in held.get(kind, ())), *named.get(kind, ())):
                yield kind, tensor

    def _look(self) -> None:
        """After an operator: is there more than ever?"""
        now = self.now()
        if now["total"] > self.peak["total"]:
            self.peak = now
        self.tops = {kind: max(nbytes, now[kind]) for kind, nbytes in self.tops.items()}


class _Watch(TorchDispatchMode):
    """Notes each storage that an operator makes, as long as it lives."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ledger = weakref.ref(ledger)
        self._made: weakref.WeakKeyDictionary[torch.UntypedStorage, str] = weakref.WeakKeyDictionary()

    def living(self) -> Iterable[tuple[torch.UntypedStorage, str]]:
        return self._made.items()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        given = {
            tensor.untyped_storage()._cdata for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, Tensor)
        }
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage())._cdata not in given:
                # a forward records; backward formulas, optimizers and messages do not
                self._made[storage] = "activations" if torch.is_grad_enabled() else "other"
        if (ledger := self._ledger()) is not None:
            ledger._look()
        return result
