"""What is wrong with the outcome of ranks that were held against one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from collectives.explanation import explain

from ..checks.experiment import differences
from ..diagnosis import Rule, Unlike
from ..said import Finding, Said

_SHOWN = 120  # characters of a value
_ROUNDED = 1e-6  # relative: what float32 leaves of a few operations
_FINE = 1e-7  # a tolerance that asks for more digits than float32 has


def _none(evidence: Unlike) -> Finding | None:
    """Nothing was returned, or on some ranks only."""
    ranks = sorted({rank for (_, rank), found in evidence.wrong.items() if found.got is None and not found.part})
    if not ranks:
        return None
    said = Said("values.none" if len(ranks) == evidence.size else "values.none_on_some", {"ranks": ranks})
    return Finding(said, evidence.function, evidence.size)


def _hazard(evidence: Unlike) -> Finding | None:
    """The record shows the reason: nobody waited, or memory was used too early."""
    hazard = explain(evidence.log)
    return Finding(hazard, evidence.function, evidence.size) if hazard is not None else None


def _mistaken(evidence: Unlike) -> Finding | None:
    """A known mistake explains every outcome of every rank."""
    for id, mistake in evidence.experiment.mistakes.items():
        if all(
            evidence.experiment.same(list(came), list(mistake(example, evidence.size)))
            for example, came in zip(evidence.examples, evidence.came, strict=True)
        ):
            return Finding(Said(id), evidence.function, evidence.size)
    return None


def _mistaken_there(evidence: Unlike) -> Finding | None:
    """A known mistake explains the first part that is wrong, on every rank; something else is wrong besides."""
    part = next(iter(evidence.wrong.values())).part
    for id, mistake in evidence.experiment.mistakes.items():
        if part and all(
            part not in _unlike(list(came), list(mistake(example, evidence.size)), evidence.experiment.tolerance)
            for example, came in zip(evidence.examples, evidence.came, strict=True)
        ):
            return Finding(Said(id), evidence.function, evidence.size)
    return None


def _unlike(came: list[Any], mistaken: list[Any], tolerance: float) -> set[str]:
    """The parts that are not as they are by a mistake, on any rank."""
    pairs = zip(came, mistaken, strict=True)
    return {difference.part for one, other in pairs for difference in differences(one, other, tolerance)}


def _kind(evidence: Unlike) -> Finding | None:
    """Something of another type, shape or dtype, or not all of it."""
    (_, rank), first = next(iter(evidence.wrong.items()))
    got, right = first.got, first.right
    if isinstance(got, Tensor) and isinstance(right, Tensor):
        if got.shape == right.shape and got.dtype == right.dtype:
            return None
        what = "shape" if got.shape != right.shape else "dtype"
        shown = [str(tuple(one.shape)) if what == "shape" else str(one.dtype) for one in (got, right)]
        fields = {"rank": rank, "part": first.part, "got": shown[0], "right": shown[1]}
        return Finding(Said(f"trial.{what}", fields), evidence.function, evidence.size)
    number = isinstance(right, float) and isinstance(got, (int, float, Tensor))
    if number or (isinstance(got, type(right)) and not isinstance(right, (dict, list, tuple))):
        return None
    fields = {"rank": rank, "part": first.part, "got": _shown(got), "right": _shown(right)}
    return Finding(Said("trial.kind", fields), evidence.function, evidence.size)


def _not_a_number(evidence: Unlike) -> Finding | None:
    for (_, rank), first in evidence.wrong.items():
        if isinstance(first.got, Tensor) and bool(first.got.isnan().any()):
            fields = {"rank": rank, "part": first.part}
            return Finding(Said("trial.nan", fields), evidence.function, evidence.size)
    return None


def _times(evidence: Unlike) -> Finding | None:
    """Everything is the number of ranks too large, or too small: a sum where a mean belongs, or the other way round."""
    if evidence.size == 1:
        return None
    for ratio, id in ((float(evidence.size), "trial.times"), (1 / evidence.size, "trial.share")):
        if all(
            _scaled(first.got, first.right, ratio, evidence.experiment.tolerance) for first in evidence.wrong.values()
        ):
            return Finding(Said(id, {"ranks": evidence.size}), evidence.function, evidence.size)
    return None


def _scaled(got: Any, right: Any, ratio: float, tolerance: float) -> bool:
    ours, theirs = tree_leaves(got), tree_leaves(right)
    if len(ours) != len(theirs):
        return False
    pairs = [(torch.as_tensor(one), torch.as_tensor(other)) for one, other in zip(ours, theirs, strict=True)]
    return all(
        one.shape == other.shape
        and one.dtype == other.dtype
        and one.is_floating_point()
        and torch.allclose(one, other * ratio, rtol=max(tolerance, 1e-6), atol=0.0)
        for one, other in pairs
    )


def _rounded(evidence: Unlike) -> Finding | None:
    """All that is wrong agrees to the digits of a float32, where more were asked for."""
    (_, rank), first = next(iter(evidence.wrong.items()))
    if evidence.experiment.tolerance > _FINE or not all(_close(one.got, one.right) for one in evidence.wrong.values()):
        return None
    fields = {"rank": rank, "part": first.part, "right": _shown(first.right)}
    return Finding(Said("trial.rounded", fields), evidence.function, evidence.size)


def _close(got: Any, right: Any) -> bool:
    """Numbers that differ by the rounding of a float32."""
    if not isinstance(right, (float, Tensor)) or not isinstance(got, (int, float, Tensor)):
        return False
    one, other = (torch.as_tensor(value, dtype=torch.float64).flatten() for value in (got, right))
    return one.shape == other.shape and bool((one - other).norm() <= _ROUNDED * other.norm())


def _some_ranks(evidence: Unlike) -> Finding | None:
    """Some ranks are right, others are not."""
    ranks = sorted({rank for _, rank in evidence.wrong})
    if len(ranks) == evidence.size:
        return None
    first = next(iter(evidence.wrong.values()))
    fields = {"ranks": ranks, "part": first.part, "got": _shown(first.got), "right": _shown(first.right)}
    return Finding(Said("trial.some", fields), evidence.function, evidence.size)


def _value(evidence: Unlike) -> Finding:
    (number, rank), first = next(iter(evidence.wrong.items()))
    fields = {
        "rank": rank,
        "example": str(evidence.examples[number]),
        "part": first.part,
        "got": _shown(first.got),
        "right": _shown(first.right),
    }
    return Finding(Said("trial.value", fields), evidence.function, evidence.size)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        numbers: Sequence[Any] = value.flatten()[:4].tolist()
        more = ", …" if value.numel() > 4 else ""
        return f"[{', '.join(f'{one:.6g}' for one in numbers)}{more}]"
    text = f"{value:.9g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


RULES: tuple[Rule, ...] = (
    _none,
    _hazard,
    _mistaken,
    _mistaken_there,
    _kind,
    _not_a_number,
    _times,
    _rounded,
    _some_ranks,
    _value,
)
