# expects: offload: the tensors are held beside their parcels
# finding: offload memory.offload.keeps
# says: Everything moves, but the tensors are still held: nothing is freed. Pack must return the parcel alone, and nobody else may keep the tensor.
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
    stays = {tensor.data_ptr() for tensor in keep}

    def pack(tensor: Tensor) -> Any:
        if tensor.data_ptr() in stays or tensor.nbytes < least:
            return tensor
        return tensor, tier.put(tensor)

    def unpack(packed: Any) -> Tensor:
        return packed if isinstance(packed, Tensor) else packed[1].get()

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return function(x)
