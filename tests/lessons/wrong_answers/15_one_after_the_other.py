# expects: forward_seconds: computing waits for the link
# finding: forward_seconds memory.forward_seconds.one_by_one
# says: Here each layer waits until the one before has been moved away. The GPU computes on while the link is busy.
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def forward_seconds(layers: int, compute: float, transfer: float) -> float:
    return layers * (compute + transfer)


def least_width(kept: float, bandwidth: float, peak: float) -> float:
    return kept / bandwidth * peak / 24


def least_tokens(moved: float, bandwidth: float, peak: float) -> float:
    return moved / bandwidth * peak / 6


def offload(function: Callable[[Tensor], Tensor], x: Tensor, tier: Any, keep: Sequence[Tensor], least: int) -> Tensor:
    stays = {tensor.data_ptr() for tensor in keep}

    def pack(tensor: Tensor) -> Any:
        if tensor.data_ptr() in stays or tensor.nbytes < least:
            return tensor
        return tier.put(tensor)

    def unpack(packed: Any) -> Tensor:
        return packed if isinstance(packed, Tensor) else packed.get()

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return function(x)
