"""How two values become one: the reductions of ``torch.distributed``, as torch functions with an ``out=``."""

from __future__ import annotations

from collections.abc import Callable, Hashable
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


_NAMES: dict[Any, str] = {getattr(ReduceOp, {"PROD": "PRODUCT"}.get(name, name)): name for name in _FUNCTIONS}
_NAMES |= {name: name for name in _FUNCTIONS} | {"PRODUCT": "PROD"}


def name_of(op: Any) -> str:
    """``"SUM"`` for ``ReduceOp.SUM``, ``"sum"`` or ``"SUM"``.

    Raises:
        ValueError: a reduction that is not supported (``PREMUL_SUM``: multiply first, then SUM).
    """
    kind = getattr(op, "op", op)  # a ReduceOp object says which kind it is
    name = _NAMES.get(kind.upper() if isinstance(kind, str) else kind) if isinstance(kind, Hashable) else None
    if name is not None:
        return name
    raise ValueError(f"op={op!r} is not supported: use one of {', '.join(_FUNCTIONS)}")


def working_dtype(name: str, dtype: torch.dtype, accumulate: torch.dtype | None) -> torch.dtype:
    """The dtype to combine in: the tensors' own, or ``accumulate``, if that holds every value of theirs.

    Raises:
        ValueError: ``accumulate`` is no dtype, or would lose something; AVG of integers.
    """
    if name == "AVG" and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"op=AVG of dtype {dtype}: an average of integers is no integer; use SUM, or a float tensor")
    if accumulate is None:
        return dtype
    if not isinstance(accumulate, torch.dtype):
        raise ValueError(f"accumulate={accumulate!r} is no dtype: give torch.float32, say")
    if torch.promote_types(dtype, accumulate) != accumulate:
        raise ValueError(f"accumulate={accumulate} cannot hold all values of {dtype}: give a wider dtype of its kind")
    return accumulate


@cache
def combiner(name: str, dtype: torch.dtype) -> Combine:
    """``combine(left, right, out=out)`` for a reduction and a dtype.

    Raises:
        ValueError: torch cannot combine this dtype in this way.
    """
    function = _FUNCTIONS[name]
    one = torch.zeros(1, dtype=dtype)
    try:
        function(one, one, out=torch.zeros(1, dtype=dtype))
    except (RuntimeError, NotImplementedError) as error:
        raise ValueError(f"op={name} of dtype {dtype}: torch cannot combine it; convert the tensor first") from error
    return function
