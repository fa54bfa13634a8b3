"""How much memory a function allocates in tensors, at the worst moment."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Ledger(TorchDispatchMode):
    """Counts the bytes of storages that appear while it is entered, for as long as they live; ``peak`` is the most."""

    def __init__(self, known: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._live = dict(_span(tensor.untyped_storage()) for tensor in known)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._note(leaf.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        first, last = _span(storage)
        # the same memory under another name, as numpy gives it, is no new memory
        if first == last or any(start <= first and last <= end for start, end in self._live.items()):
            return
        self._live[first] = last
        self.now += last - first
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, first, last)

    def _gone(self, first: int, last: int) -> None:
        self._live.pop(first, None)
        self.now -= last - first


class Passing(Ledger):
    """The bytes of what comes and goes: storages that have gone when it is left. ``most()``: at the worst moment."""

    def __init__(self) -> None:
        super().__init__([])
        self._changes: list[tuple[int, int]] = []  # an address, and the bytes that appear there, or go

    def _note(self, storage: torch.UntypedStorage) -> None:
        before = self.now
        super()._note(storage)
        if self.now > before:
            self._changes.append((storage.data_ptr(), self.now - before))

    def _gone(self, first: int, last: int) -> None:
        super()._gone(first, last)
        self._changes.append((first, first - last))

    def most(self) -> int:
        """What is still there stays, so it is left out from its first moment on."""
        now = most = 0
        last = {address: place for place, (address, _) in enumerate(self._changes)}
        for place, (address, change) in enumerate(self._changes):
            if change < 0 or last[address] != place:
                now += change
                most = max(most, now)
        return most


def _span(storage: torch.UntypedStorage) -> tuple[int, int]:
    """Its first address and the one behind its last."""
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


@functools.cache
def warm() -> None:
    """Enter a ledger once before ranks are forked: what torch imports for it then, it would import in each of them."""
    with Ledger([]):
        torch.empty(1)
