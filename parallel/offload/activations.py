"""Activations that leave as soon as they are saved, and come back one ahead of the backward.

forward     a₀ ──▶ a₁ ──▶ a₂ ──▶ loss
            ↓      ↓      ↓
tier       [a₀]   [a₁]   [a₂]
                   ↑      ↓ get
backward         fetch   a₂ ◀── loss        while a₂ is used, a₁ is on its way
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from .tiers import Form, Parcel, Tier, tier_for

Key = tuple[int, int, Form, int]


class Activations:
    """A forward inside ``with Activations():`` keeps what it saves on a tier.

    Args:
        tier: where; by default what lies below the device of the first tensor.
        keep: tensors that stay, such as ``module.parameters()``: they are in memory anyway, or gathered again.
        least: bytes; smaller tensors stay.
        ahead: how many tensors are on their way back while the backward uses one.

    What several operators save of one tensor moves once. O(1) an operator; every byte is moved out and back.
    """

    def __init__(
        self, tier: Tier | None = None, keep: Iterable[Tensor] = (), least: int = 4096, ahead: int = 2
    ) -> None:
        self.tier, self._least, self._ahead = tier, least, ahead
        self._keep = list(keep)
        self._leaves: list[weakref.ref[_Leaf]] = []
        self._of: dict[Key, tuple[weakref.ref[torch.UntypedStorage], weakref.ref[_Leaf]]] = {}

    def __enter__(self) -> Activations:
        self._leaves.clear()
        self._of.clear()
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)
        self._hooks.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._hooks.__exit__(*raised)
        del self._hooks  # they hold this object, and it the tier's files
        self._of.clear()  # what is saved from now on is none of ours

    def _pack(self, tensor: Tensor) -> Tensor | _Leaf:
        # asked anew: a sharded layer has other memory each time it is gathered, and it goes before the tier has read it
        if tensor.untyped_storage()._cdata in {kept.untyped_storage()._cdata for kept in self._keep}:
            return tensor
        if tensor.nbytes < self._least:
            return tensor.detach()  # itself, it would hold the graph that holds it
        storage = tensor.untyped_storage()
        key = (storage._cdata, int(tensor.storage_offset()), Form.of(tensor), tensor._version)
        if key in self._of:
            alive, known = self._of[key]
            if alive() is storage and (leaf := known()) is not None:
                return leaf.shared()
        self.tier = self.tier or tier_for(tensor.device)
        leaf = _Leaf(self.tier.put(tensor), len(self._leaves))
        self._leaves.append(weakref.ref(leaf))
        self._of[key] = weakref.ref(storage), weakref.ref(leaf)
        return leaf

    def _unpack(self, packed: Any) -> Tensor:
        if not isinstance(packed, _Leaf):
            assert isinstance(packed, Tensor)
            return packed
        with torch.enable_grad():  # so that a ledger takes them for what they are, though this is a backward
            tensor = packed.get()
            for number in range(packed.number - 1, max(-1, packed.number - 1 - self._ahead), -1):
                if (before := self._leaves[number]()) is not None:
                    before.parcel.fetch()
        return tensor


class _Leaf:
    """One tensor that has been put away, for all that saved it; back, it is there until each of them has had it."""

    def __init__(self, parcel: Parcel, number: int) -> None:
        self.parcel, self.number = parcel, number
        self._savers = self._waiting = 1
        self._back: Tensor | None = None

    def shared(self) -> _Leaf:
        """One more operator has saved it."""
        self._savers += 1
        self._waiting += 1
        return self

    def get(self) -> Tensor:
        tensor = self.parcel.get() if self._back is None else self._back
        self._waiting = self._waiting - 1 or self._savers
        self._back = None if self._waiting == self._savers else tensor
        return tensor
