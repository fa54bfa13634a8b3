"""Which plans of a space can be, and what kills the others.

Each constraint looks at a few axes, so every distinct combination of these is judged once (by
:func:`sim.planner.constraints.check`) and the verdict holds for all plans that share it. Plans that are another one by
a different name (sequence parallelism without TP, ZeRO without replicas, a schedule without a pipeline) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from .constraints import check
from .layout import LOOPED, VEE, Layout
from .space import Space
from .transformer import Transformer

Layouts: TypeAlias = Any  # a Layout whose numbers are arrays: many plans
AXES = ("dp", "pp", "tp", "cp", "ep", "vpp", "microbatch")  # of a layout, that are arrays here
WARM_UP = {"looped": "PP", "zb-h1": "PP", "zb-h2": "2 PP − 1", **dict.fromkeys(VEE, "2 PP")}
MOST = 4_000_000  # plans of a space that is searched whole
# What is given up first where there are more: values that are never the fastest, or seldom.
NARROWER: Sequence[tuple[str, Sequence[Any]]] = (
    ("overlap", (True,)),
    ("offload", ((),)),
    ("schedule", ("1f1b", "interleaved", "zb-h1", "zbv")),
    ("microbatch", (1, 2, 4, 8)),
)


@dataclass
class Rejected:
    """How many plans a constraint kills, and what it says of one of them."""

    constraint: str
    plans: int
    example: str


def take(layouts: Layouts, index: Any) -> Layouts:
    """These entries of a layout of arrays."""
    return replace(layouts, **{name: getattr(layouts, name)[index] for name in AXES})


def admitted(model: Transformer, space: Space) -> tuple[Space, list[Layouts], list[Rejected]]:
    """The space, without some values if it is larger than ``MOST``; its plans as layouts of arrays, one for each choice
    of what is not a number (overlap aside); and what was rejected."""
    for axis, values in (("", ()), *NARROWER):
        if axis and len(getattr(space, axis)) > 1:
            kept: Any = {axis: tuple(value for value in getattr(space, axis) if value in values)}
            space = replace(space, **kept)
        pipelines, rejected = _all_pipelines(model, space)
        if sum(len(layouts.pp) for layouts in pipelines) * _rest(space) <= MOST:
            break
    return space, [choice for layouts in pipelines for choice in _choices(space, layouts)], rejected


def _choices(space: Space, layouts: Layouts) -> Iterator[Layouts]:
    """With every choice that changes no number."""
    for recompute, zero, offload in product(space.recompute, space.zero, space.offload):
        if "parameters" in offload and zero < 3 and len(space.offload) > 1:
            continue
        many = (layouts.replicas > 1) | (zero == 0) | (space.zero == (zero,))
        if many.any():
            chosen = layouts if many.all() else take(layouts, many)
            yield replace(chosen, recompute=recompute, zero=zero, offload=offload)


def _all_pipelines(model: Transformer, space: Space) -> tuple[list[Layouts], list[Rejected]]:
    grid, rejected = _splits(model, space)
    return [
        _pipelines(model, space, grid, schedule, sp, rejected) for schedule, sp in product(space.schedule, space.sp)
    ], rejected


def _splits(model: Transformer, space: Space) -> tuple[Layouts, list[Rejected]]:
    """All splits of the GPUs that can be, whatever the schedule."""
    names = ("tp", "pp", "cp", "ep", "microbatch")
    columns = [column.ravel() for column in np.meshgrid(*(getattr(space, name) for name in names), indexing="ij")]
    tp, pp, cp, ep, microbatch = (column.astype(np.int64) for column in columns)
    whole = space.gpus % (tp * pp * cp) == 0
    if space.dp:
        whole &= np.isin(space.gpus // np.maximum(tp * pp * cp, 1), space.dp)
    others = np.minimum(tp * pp * cp, space.gpus)
    grid = replace(
        space.base, dp=space.gpus // others, pp=pp, tp=tp, cp=cp, ep=ep, vpp=1 + 0 * pp, microbatch=microbatch
    )
    rejected: list[Rejected] = []
    _count(rejected, "GPUs", _plans(model, space, grid, ~whole), f"TP × PP × CP does not divide {space.gpus} GPUs")
    grid = take(grid, whole)
    batch = space.base.global_batch
    for constraint, axes, fixed in (
        ("heads", ("tp",), {}),
        ("sequence", ("cp",), {}),
        ("layers", ("pp",), {}),
        ("global batch", ("dp", "microbatch"), {"global_batch": batch}),
        ("experts", ("dp", "cp", "tp", "ep"), {"etp": space.base.etp}),
    ):
        fine, example = _verdict(model, grid, axes, **fixed)
        _count(rejected, constraint, _plans(model, space, grid, ~fine), example)
        grid = take(grid, fine)
    return grid, rejected


def _pipelines(
    model: Transformer, space: Space, grid: Layouts, schedule: str, sp: bool, rejected: list[Rejected]
) -> Layouts:
    """The splits that this schedule can run, with their numbers of chunks."""
    fits = ((grid.pp > 1) | (schedule == space.schedule[0])) & ((grid.tp > 1) | (sp == space.sp[0]))
    grid, rest = replace(take(grid, fits), schedule=schedule, sp=sp), _rest(space)
    if schedule in LOOPED:
        grid = take(grid, grid.pp > 1)
        counts = {int(pp): space.chunks(model, int(pp)) for pp in np.unique(grid.pp)}
        rows = {pp: np.flatnonzero(grid.pp == pp) for pp in counts}
        every = [np.repeat(rows[pp], len(chunks)) for pp, chunks in counts.items()]
        vpp = [np.tile(np.array(chunks, dtype=np.int64), len(rows[pp])) for pp, chunks in counts.items()]
        grid = replace(take(grid, _joined(every)), vpp=_joined(vpp))
    fine, example = _verdict(model, grid, ("pp", "vpp"), schedule=schedule)
    _count(rejected, "layers", int((~fine).sum()) * rest, example)
    grid = take(grid, fine)
    if schedule in ("v-half", "v-min"):
        fine = (grid.pp >= 4) & ((schedule == "v-half") | (grid.pp % 3 > 0))
        why = (
            f"{schedule} holds less than zbv from PP 4 on; v-min's pattern of three slots does not suit multiples of 3"
        )
        _count(rejected, "pattern", int((~fine).sum()) * rest, why)
        grid = take(grid, fine)
    fine = grid.microbatches >= warm_up(schedule, grid.pp)
    why = f"{schedule} fills its pipeline with {WARM_UP.get(schedule, '')} microbatches: fewer leave holes in it"
    _count(rejected, "warm-up", int((~fine).sum()) * rest, why)
    grid = take(grid, fine)
    if schedule == "interleaved":
        fine = grid.microbatches % grid.pp == 0
        why = "interleaved: the microbatches are no multiple of PP, which Megatron-LM asks for"
        _count(rejected, "interleaving", int((~fine).sum()) * rest, why)
        grid = take(grid, fine)
    if sp:
        fine, example = _verdict(model, grid, ("tp", "cp"), sp=True)
        _count(rejected, "sequence parallelism", int((~fine).sum()) * rest, example)
        grid = take(grid, fine)
    return grid


def warm_up(schedule: str, pp: Any) -> Any:
    """The fewest microbatches that fill a pipeline of this schedule."""
    if schedule in ("looped", "zb-h1"):
        return pp
    return {"zb-h2": 2 * pp - 1, **dict.fromkeys(VEE, 2 * pp)}.get(schedule, 1)


def _verdict(model: Transformer, layouts: Layouts, axes: Sequence[str], **fixed: Any) -> tuple[Any, str]:
    """(Which of them can be, what is said of the first that cannot.) Other axes do not matter."""
    key = np.zeros(len(layouts.pp), dtype=np.int64)
    for name in axes:
        values, place = np.unique(getattr(layouts, name), return_inverse=True)
        key = key * len(values) + place
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    said = [_refusal(model, {name: int(getattr(layouts, name)[row]) for name in axes}, fixed) for row in first]
    return np.array([not text for text in said], dtype=bool)[index], next(filter(None, said), "")


def _joined(arrays: Sequence[Any]) -> Any:
    """One array of whole numbers; an empty one of none."""
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)


def _refusal(model: Transformer, numbers: dict[str, Any], fixed: dict[str, Any]) -> str:
    try:
        check(model, Layout(**numbers, **fixed))
    except ValueError as error:
        return str(error)
    return ""


def _rest(space: Space) -> int:
    """Plans of one split, schedule and choice of SP."""
    return len(space.recompute) * len(space.zero) * len(space.offload) * len(space.overlap)


def _plans(model: Transformer, space: Space, grid: Layouts, which: Any) -> int:
    """Plans of these splits."""
    looped = sum(schedule in LOOPED for schedule in space.schedule)
    plain, each = len(space.schedule) - looped, len(space.sp) * _rest(space)
    pps, counts = np.unique(grid.pp[which], return_counts=True)
    per = (1 if pp == 1 else plain + looped * len(space.chunks(model, int(pp))) for pp in pps)
    return each * sum(int(count) * schedules for count, schedules in zip(counts, per, strict=True))


def _count(rejected: list[Rejected], constraint: str, plans: int, example: str) -> None:
    if not plans:
        return
    for one in rejected:
        if one.constraint == constraint:
            one.plans += plans
            return
    rejected.append(Rejected(constraint, plans, example))


def layouts_of(layouts: Layouts, rows: Sequence[int]) -> Iterator[Layout]:
    """Single layouts out of arrays."""
    for row in rows:
        yield replace(layouts, **{name: int(getattr(layouts, name)[row]) for name in AXES})
