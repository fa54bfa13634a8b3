"""The formulas of lessons 25 to 27; those of lesson 26 are in ``plans.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parallel.formulas import elements_sent
from parallel.mesh import Mesh

from ..reference import Example, Reference
from .plans import PLANS


def _same_list(value: object, other: object, example: Example) -> bool:
    try:
        return not isinstance(value, str) and list(value) == list(other)  # type: ignore[call-overload]
    except (TypeError, ValueError, RuntimeError):
        return False


# Who sits where.


def _coordinates(rank: int, dp: int, tp: int) -> tuple[int, int, int]:
    pp = rank // (dp * tp) + 1  # as many stages as it takes
    place = Mesh(pp=pp, dp=dp, tp=tp).coordinates(rank)
    return place["pp"], place["dp"], place["tp"]


_COORDINATES = Reference(
    examples=((22, 2, 4), (5, 2, 4), (31, 2, 4), (7, 3, 2), (11, 2, 3), (0, 4, 8), (100, 8, 8), (9, 5, 1), (13, 1, 4)),
    answer=_coordinates,
    kind="list",
    same=_same_list,
    mistakes={
        "together.coordinates.backwards": lambda rank, dp, tp: _coordinates(rank, dp, tp)[::-1],
        "together.coordinates.tp_outermost": lambda rank, dp, tp: (rank % dp, rank // dp % tp, rank // (dp * tp)),
        "together.coordinates.dp_innermost": lambda rank, dp, tp: (rank // (dp * tp), rank % dp, rank // dp % tp),
        "together.coordinates.dp_outermost": lambda rank, dp, tp: (rank // tp % dp, rank // (dp * tp), rank % tp),
        "together.coordinates.dp_not_wrapped": lambda rank, dp, tp: (rank // (dp * tp), rank // tp, rank % tp),
        "together.coordinates.tp_not_wrapped": lambda rank, dp, tp: (rank // (dp * tp), rank // tp % dp, rank),
        "together.coordinates.remainder_of_stage": lambda rank, dp, tp: (
            rank // (dp * tp), rank // tp % dp, rank % (dp * tp)
        ),
        "together.coordinates.stage_by_tp": lambda rank, dp, tp: (rank // tp, rank // tp % dp, rank % tp),
        "together.coordinates.stage_by_dp": lambda rank, dp, tp: (rank // dp, rank // tp % dp, rank % tp),
        "together.coordinates.wrapped_by_tp": lambda rank, dp, tp: (rank // (dp * tp), rank // tp % tp, rank % tp),
        "together.coordinates.divided_by_dp": lambda rank, dp, tp: (rank // (dp * tp), rank // dp % dp, rank % tp),
        "together.coordinates.remainder_by_dp": lambda rank, dp, tp: (rank // (dp * tp), rank // tp % dp, rank % dp),
        "together.coordinates.from_one": lambda rank, dp, tp: tuple(one + 1 for one in _coordinates(rank, dp, tp)),
    },
)  # fmt: skip


# Groups.


def _groups(axis: str, pp: int, dp: int, tp: int) -> list[list[int]]:
    return Mesh(pp=pp, dp=dp, tp=tp).all_ranks(axis)


def _sets(value: object) -> list[list[int]] | None:
    """Groups in an order of their own; None for what is none."""
    try:
        return sorted(sorted(int(rank) for rank in group) for group in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _same_groups(value: object, other: object, example: Example) -> bool:
    mine = _sets(value)
    return mine is not None and not isinstance(value, (str, dict)) and mine == _sets(other)


def _cut(ranks: Sequence[int], length: int) -> list[list[int]]:
    return [list(ranks[at : at + length]) for at in range(0, len(ranks), length)]


def _neighbours(axis: str, pp: int, dp: int, tp: int) -> list[list[int]]:
    return _cut(range(pp * dp * tp), {"pp": pp, "dp": dp, "tp": tp}[axis])


def _alike(axis: str, pp: int, dp: int, tp: int) -> list[list[int]]:
    """The ranks with one coordinate on the axis: the others' groups, all in one."""
    mesh = Mesh(pp=pp, dp=dp, tp=tp)
    ranks = range(mesh.size)
    return [[rank for rank in ranks if mesh.coordinates(rank)[axis] == at] for at in range(mesh.axes[axis])]


def _strided(stride: Callable[[int, int, int, int], int]) -> Callable[..., list[list[int]]]:
    """Every axis with a stride of its own: groups of ranks that are that far apart."""

    def groups(axis: str, pp: int, dp: int, tp: int) -> list[list[int]]:
        count, step = {"pp": pp, "dp": dp, "tp": tp}[axis], stride(("pp", "dp", "tp").index(axis), pp, dp, tp)
        size = pp * dp * tp
        starts = [rank for rank in range(size) if rank // step % count == 0]
        return [[start + i * step for i in range(count)] for start in starts]

    return groups


_GROUPS = Reference(
    examples=(
        ("dp", 4, 2, 4),
        ("pp", 4, 2, 4),
        ("tp", 4, 2, 4),
        ("dp", 2, 3, 2),
        ("pp", 3, 2, 1),
        ("tp", 1, 2, 3),
        ("dp", 1, 4, 1),
        ("pp", 2, 2, 3),
    ),
    answer=_groups,
    kind="list",
    same=_same_groups,
    mistakes={
        "together.groups.neighbours": _neighbours,
        "together.groups.alike": _alike,
        "together.groups.one": lambda axis, pp, dp, tp: [list(range(pp * dp * tp))],
        "together.groups.first": lambda axis, pp, dp, tp: _groups(axis, pp, dp, tp)[:1],
        "together.groups.first_flat": lambda axis, pp, dp, tp: _groups(axis, pp, dp, tp)[0],
        "together.groups.pp_by_dp": _strided(lambda place, pp, dp, tp: (dp, tp, 1)[place]),
        "together.groups.pp_by_tp": _strided(lambda place, pp, dp, tp: (tp, tp, 1)[place]),
        "together.groups.dp_outermost": _strided(lambda place, pp, dp, tp: (tp, pp * tp, 1)[place]),
        "together.groups.tp_outermost": _strided(lambda place, pp, dp, tp: (1, pp, pp * dp)[place]),
        "together.groups.dp_innermost": _strided(lambda place, pp, dp, tp: (dp * tp, 1, dp)[place]),
        "together.groups.exchanged": lambda axis, pp, dp, tp: _groups(
            {"pp": "dp", "dp": "pp", "tp": "tp"}[axis], pp, dp, tp
        ),
        "together.groups.from_one": lambda axis, pp, dp, tp: [
            [rank + 1 for rank in group] for group in _groups(axis, pp, dp, tp)
        ],
    },
)


# Random streams.


def _seeds(base: int, pp: int, dp: int, tp: int, sharded: bool) -> list[int]:
    mesh = Mesh(pp=pp, dp=dp, tp=tp)
    return [base + (rank if sharded else min(mesh.ranks("tp", rank))) for rank in range(mesh.size)]


def _sharing(value: object) -> list[int] | None:
    """Who shares a seed with whom: for each rank the first that has its seed."""
    try:
        seeds = [int(one) for one in value]  # type: ignore[attr-defined]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return [seeds.index(one) for one in seeds]


def _same_sharing(value: object, other: object, example: Example) -> bool:
    mine = _sharing(value)
    return mine is not None and not isinstance(value, (str, dict)) and mine == _sharing(other)


def _by(*axes: str, sharded: Sequence[str] = ()) -> Callable[..., list[int]]:
    """A seed for each place on these axes; on others where activations are sharded."""

    def seeds(base: int, pp: int, dp: int, tp: int, split: bool) -> list[int]:
        mesh = Mesh(pp=pp, dp=dp, tp=tp)
        chosen = sharded if split and sharded else axes
        return [
            mesh.rank_at(**{axis: at for axis, at in mesh.coordinates(rank).items() if axis in chosen})
            for rank in range(mesh.size)
        ]

    return seeds


_ALL = ("pp", "dp", "tp")
_SEEDS = Reference(
    examples=(
        (1, 2, 2, 2, False),
        (1, 2, 2, 2, True),
        (1234, 4, 2, 4, False),
        (1234, 4, 2, 4, True),
        (7, 1, 3, 2, False),
        (7, 3, 1, 2, True),
        (0, 2, 5, 3, False),
        (0, 12, 12, 1, False),
    ),
    answer=_seeds,
    kind="list",
    same=_same_sharing,
    mistakes={
        "together.seeds.one": _by(),
        "together.seeds.by_rank": _by(*_ALL),
        "together.seeds.sharded_alike": _by("pp", "dp"),
        "together.seeds.exchanged": _by(*_ALL, sharded=("pp", "dp")),
        "together.seeds.replicas_alike": _by("pp", sharded=("pp", "tp")),
        "together.seeds.replicas_alike_whole": _by("pp", sharded=_ALL),
        "together.seeds.stages_alike": _by("dp", sharded=("dp", "tp")),
        "together.seeds.only_tp": _by("tp", sharded=("tp",)),
        "together.seeds.one_unless_sharded": lambda base, pp, dp, tp, sharded: (
            list(range(pp * dp * tp)) if sharded else [base] * (pp * dp * tp)
        ),
        "together.seeds.collide": lambda base, pp, dp, tp, sharded: [
            sum(at for axis, at in Mesh(pp=pp, dp=dp, tp=tp).coordinates(rank).items() if sharded or axis != "tp")
            for rank in range(pp * dp * tp)
        ],
        "together.seeds.tens": lambda base, pp, dp, tp, sharded: [
            10 * (rank // (dp * tp)) + rank // tp % dp + (100 * (rank % tp) if sharded else 0)
            for rank in range(pp * dp * tp)
        ],
    },
)


# ZeRO beside a pipeline.


def _zero_elements(stage: int, elements: int, dp: int, microbatches: int) -> float:
    return elements_sent(elements, dp, stage, microbatches).total


def _zero(stages: Sequence[Callable[[int], float]], share: Callable[[int], float] | None = None) -> Callable[..., Any]:
    """Passes over the elements as a function of microbatches, for each stage."""

    def sent(stage: int, elements: int, dp: int, microbatches: int) -> float:
        return stages[stage](microbatches) * elements * (share(dp) if share else (dp - 1) / dp)

    return sent


_PASSES: tuple[Callable[[int], float], ...] = (lambda m: 2, lambda m: 2, lambda m: m + 1, lambda m: 3 * m)
_ZERO = Reference(
    examples=tuple(
        (stage, elements, dp, microbatches)
        for elements, dp, microbatches in ((1000, 2, 8), (786_432_000, 8, 32), (77, 4, 1))
        for stage in range(4)
    ),
    answer=_zero_elements,
    mistakes={
        "together.zero_elements.no_share": _zero(_PASSES, lambda dp: 1),
        "together.zero_elements.all_ranks": _zero(_PASSES, lambda dp: dp - 1),
        "together.zero_elements.once": _zero((lambda m: 2, lambda m: 2, lambda m: 2, lambda m: 3)),
        "together.zero_elements.all_times_m": _zero(
            (lambda m: 2 * m, lambda m: 2 * m, lambda m: 2 * m, lambda m: 3 * m)
        ),
        "together.zero_elements.zero_0_times_m": _zero((lambda m: 2 * m, *_PASSES[1:])),
        "together.zero_elements.gather_times_m": _zero((*_PASSES[:2], lambda m: 2 * m, _PASSES[3])),
        "together.zero_elements.no_parameters": _zero((*_PASSES[:2], lambda m: m, _PASSES[3])),
        "together.zero_elements.one_gather": _zero((*_PASSES[:3], lambda m: 2 * m)),
        "together.zero_elements.reduced_once": _zero((*_PASSES[:3], lambda m: 2 * m + 1)),
        "together.zero_elements.gathered_once": _zero((*_PASSES[:3], lambda m: m + 2)),
        "together.zero_elements.half": _zero((lambda m: 1, lambda m: 1, lambda m: m, lambda m: 3 * m)),
        "together.zero_elements.three_for_one": _zero((lambda m: 2, lambda m: 3, *_PASSES[2:])),
        "together.zero_elements.stage_2_not": _zero((*_PASSES[:2], lambda m: 2, _PASSES[3])),
    },
)

TOGETHER: Mapping[str, Reference] = {
    "coordinates": _COORDINATES,
    "groups": _GROUPS,
    "seeds": _SEEDS,
    "zero_elements": _ZERO,
    **PLANS,
}
