"""How two values become one: the reductions of ``torch.distributed``, as torch functions with an ``out=``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.distributed import ReduceOp

Combine = Callable[..., torch.Tensor]

_FUNCTIONS: dict[str, Combine] = {
    "SUM": torch.add,
    "AVG": torch.add,  # divided once, at the end
    "PROD": torch.mul,
    "MIN": torch.minimum,  # NaN wins, as in torch
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


_TORCH_NAMES = {"PROD": "PRODUCT"}


def name_of(op: Any) -> str:
    """``"SUM"`` for ``ReduceOp.SUM``, ``"sum"`` or ``"SUM"``.

    Raises:
        ValueError: a reduction that is not supported (``PREMUL_SUM``: multiply first, then SUM).
    """
    for name in _FUNCTIONS:
        torch_name = _TORCH_NAMES.get(name, name)
        if op.upper() in (name, torch_name) if isinstance(op, str) else op == getattr(ReduceOp, torch_name):
            return name
    raise ValueError(f"op={op!r} is not supported: use one of {', '.join(_FUNCTIONS)}")


@cache
def combiner(name: str, dtype: torch.dtype) -> Combine:
    """``combine(left, right, out=out)`` for a reduction and a dtype.

    Raises:
        ValueError: torch cannot combine this dtype in this way (AVG of integers among them).
    """
    if name == "AVG" and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"op=AVG of dtype {dtype}: an average of integers is no integer; use SUM, or a float tensor")
    function = _FUNCTIONS[name]
    one = torch.zeros(1, dtype=dtype)
    try:
        function(one, one, out=torch.zeros(1, dtype=dtype))
    except (RuntimeError, NotImplementedError) as error:
        raise ValueError(f"op={name} of dtype {dtype}: torch cannot combine it; convert the tensor first") from error
    return function
