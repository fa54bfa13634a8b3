# expects: offload: weights are told by their object, not by their memory
# finding: offload memory.offload.weights
# says: The weights are moved as well. They are in memory anyway: what is in keep stays. A saved tensor may be another object with the same memory: compare data_ptr().
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def forward_seconds(layers: int, compute: float, transfer: float) -> float:
    return compute + (layers - 1) * max(compute, transfer) + transfer


def least_width(kept: float, bandwidth: float, peak: float) -> float:
    return kept / bandwidth * peak / 24


def least_tokens(moved: float, bandwidth: float, peak: float) -> float:
    return moved / bandwidth * peak / 6


def offload(function: Callable[[Tensor], Tensor], x: Tensor, tier: Any, keep: Sequence[Tensor], least: int) -> Tensor:

    def pack(tensor: Tensor) -> Any:
        if any(tensor is one for one in keep) or tensor.nbytes < least:
            return tensor
        return tier.put(tensor)

    def unpack(packed: Any) -> Tensor:
        return packed if isinstance(packed, Tensor) else packed.get()

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return function(x)
