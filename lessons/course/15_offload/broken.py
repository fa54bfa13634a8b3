"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def offload(function: Callable[[Tensor], Tensor], x: Tensor, tier: Any, keep: Sequence[Tensor], least: int) -> Tensor:
    """{{broken.offload}}"""
    stays = {tensor.data_ptr() for tensor in keep}

    def pack(tensor: Tensor) -> tuple[Tensor, Any]:
        moves = tensor.data_ptr() not in stays and tensor.nbytes >= least
        return tensor, tier.put(tensor) if moves else None

    def unpack(packed: tuple[Tensor, Any]) -> Tensor:
        tensor, parcel = packed
        return tensor if parcel is None else parcel.get()

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return function(x)
