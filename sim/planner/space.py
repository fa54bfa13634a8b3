"""Which plans there are: the values of every axis for so many GPUs, and what is the same for all of them.

An axis that is not given has every value that can make sense:

    tp, pp, cp     divisors of the number of GPUs, up to the heads, the layers, and 256 tokens a rank
    ep             divisors of the experts
    microbatch     divisors of the global batch, up to 64 samples
    schedule       every schedule; interleaved and looped with every number of chunks that shares out a stage's layers
    recompute      none, full; without flash attention also selective
    zero, sp       0 to 3; on and off
    offload        nothing, optimizer, activations, both; with ZeRO-3 also parameters
    overlap        gradients are reduced under the backward, or after it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from .arithmetic import ceil_div
from .layout import LARGEST, LOOPED, RECOMPUTES, SCHEDULES, Layout
from .transformer import Transformer, divisors, nearest

FEWEST_TOKENS = 256  # of a sample on a rank of CP
MOST_SAMPLES = 64  # of a microbatch
TOKENS = 1 << 22  # of a step, where no batch is given
OFFLOADS: Sequence[tuple[str, ...]] = (
    (),
    ("optimizer",),
    ("activations",),
    ("optimizer", "activations"),
    ("optimizer", "parameters"),
    ("optimizer", "parameters", "activations"),
)


@dataclass(frozen=True)
class Space:
    """gpus: how many; base: what all plans share (precision, batch, flash attention, …). dp: empty for what the other
    axes leave; vpp: chunks of a rank for looped schedules (empty: all that share out a stage's layers). The rest: the
    values of each axis."""

    gpus: int
    base: Layout
    dp: tuple[int, ...]
    tp: tuple[int, ...]
    pp: tuple[int, ...]
    cp: tuple[int, ...]
    ep: tuple[int, ...]
    microbatch: tuple[int, ...]
    vpp: tuple[int, ...]
    schedule: tuple[str, ...]
    recompute: tuple[str, ...]
    zero: tuple[int, ...]
    sp: tuple[bool, ...]
    offload: tuple[tuple[str, ...], ...]
    overlap: tuple[bool, ...]

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """Name and values of each."""
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    def chunks(self, model: Transformer, pp: int) -> tuple[int, ...]:
        """Model chunks of a rank in looped schedules of so many stages: more than one."""
        return self.vpp or tuple(n for n in divisors(ceil_div(model.layers, pp)) if n > 1)


def space_of(model: Transformer, gpus: int, base: Layout, fixed: Mapping[str, Any] | None = None) -> Space:
    """Every value of every axis, but for those that are fixed.

    Args:
        fixed: axis → its only value.
        base: its global batch may be 0; then a step has about 4 million tokens.

    Raises:
        ValueError: numbers that no plan has.
    """
    if not 1 <= gpus <= LARGEST:
        raise ValueError(f"gpus={gpus}: use a number from 1 to 2**40")
    base = replace(
        base, global_batch=base.global_batch or batch_of(model, gpus), etp=base.etp or int(model.experts > 0)
    )
    parts = divisors(gpus)
    axes: dict[str, Sequence[Any]] = {
        "dp": (),
        "tp": [n for n in parts if n <= model.heads],
        "pp": [n for n in parts if n <= model.layers],
        "cp": [n for n in parts if model.sequence // n >= FEWEST_TOKENS or n == 1],
        "ep": divisors(model.experts) if model.experts else [1],
        "microbatch": [n for n in divisors(base.global_batch) if n <= MOST_SAMPLES],
        "vpp": (),
        "schedule": ("1f1b", *(schedule for schedule in SCHEDULES if schedule != "1f1b")),
        "recompute": [what for what in RECOMPUTES if not (base.flash and what == "selective")],
        "zero": (0, 1, 2, 3),
        "sp": (False, True),
        "offload": OFFLOADS,
        "overlap": (True, False),
    }
    axes |= {name: (value,) for name, value in (fixed or {}).items()}
    if fixed and "vpp" in fixed and "schedule" not in fixed:
        axes["schedule"] = ("interleaved",) if fixed["vpp"] > 1 else [s for s in SCHEDULES if s not in LOOPED]
        axes["vpp"] = (fixed["vpp"],) if fixed["vpp"] > 1 else ()
    return Space(gpus, base, **{name: tuple(values) for name, values in axes.items()})


def batch_of(model: Transformer, gpus: int) -> int:
    """Samples of a step: the number nearest to 4 million tokens that is a power of two times the odd part of the GPUs,
    so that data parallelism of any size divides it."""
    odd = gpus // (gpus & -gpus)
    return nearest(max(1, TOKENS // model.sequence), [odd << power for power in range(24)])


def narrow(space: Space) -> Space:
    """What most programs can run, of the space: 1F1B and interleaved, overlap, nothing offloaded."""
    kept = {"schedule": ("1f1b", "interleaved"), "overlap": (True,), "offload": ((),)}
    chosen: dict[str, Any] = {
        axis: tuple(value for value in getattr(space, axis) if value in values) for axis, values in kept.items()
    }
    left: dict[str, Any] = {axis: values for axis, values in chosen.items() if values}
    return replace(space, **left)
