"""What ``plan`` searches: the space that its options leave, a progress bar, and the sentence if nothing fits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .planning import count_of, layout_of

if TYPE_CHECKING:
    from ..planner.constants import Software
    from ..planner.hardware import Hardware
    from ..planner.search import Found
    from ..planner.space import Space
    from ..planner.transformer import Transformer

FIXED = ("dp", "tp", "pp", "cp", "ep", "vpp", "zero", "microbatch")
BAR = 50  # steps of the progress bar


def asked_space(args: argparse.Namespace, model: Transformer) -> Space:
    """The space, with every axis that an option names kept to its value.

    Raises:
        ValueError: no GPUs, or a value that the model or the GPUs do not admit, with the nearest that they do.
    """
    from ..planner.constraints import check, filled
    from ..planner.emit import CAN
    from ..planner.layout import Layout
    from ..planner.space import space_of

    gpus = count_of(args, "gpus")
    if not gpus:
        raise ValueError("a plan needs to know how many GPUs: add --gpus 64")
    ep, etp = count_of(args, "ep"), count_of(args, "etp")
    lone = argparse.Namespace(**{**vars(args), "gpus": None, "global_batch": None, "ep": None, "etp": None})
    layout, _ = layout_of(lone, model)
    if ep is not None or etp is not None:  # experts are spread over all ranks of a stage
        layout = replace(layout, ep=1 if ep is None else ep, etp=etp or 0)
        check(model, Layout(dp=gpus, ep=layout.ep, etp=layout.etp or int(model.experts > 0)))
    fixed: dict[str, Any] = {name: getattr(layout, name) for name in FIXED if getattr(args, name) is not None}
    for name in ("sp", "recompute", "schedule"):
        if getattr(args, name) is not None:
            fixed[name] = getattr(layout, name)
    if args.offload is not None:
        fixed["offload"] = layout.offload
    if args.no_overlap:
        fixed["overlap"] = False
    filled(replace(layout, dp=0 if args.dp is None else layout.dp), gpus)
    if args.dp is not None and gpus % layout.dp:
        check(model, layout, gpus)
    base = replace(layout, global_batch=count_of(args, "global_batch") or 0, dp=1)
    space = space_of(model, gpus, base, fixed)
    if getattr(args, "emit", None):
        if args.emit not in CAN:
            raise ValueError(f"--emit {args.emit}: use {', '.join(CAN)}")
        able: dict[str, Any] = {
            axis: tuple(v for v in getattr(space, axis) if v in values) for axis, values in CAN[args.emit].items()
        }
        for axis, values in able.items():
            if not values:
                allowed = ", ".join(_text(value) or "none" for value in CAN[args.emit][axis])
                raise ValueError(f"{args.emit} does not run --{axis} {_text(fixed[axis])}: use {allowed}")
        space = replace(space, **able)
    return space


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def fitting(
    model: Transformer, space: Space, hardware: Hardware, software: Software, limit: float, quiet: bool = False
) -> Found:
    """The search.

    Raises:
        ValueError: no plan can be, or none fits, with a number of GPUs for which one does.
    """
    from ..planner.search import search
    from ..planner.space import narrow

    with Bar("searching", quiet) as bar:
        found = search(model, space, hardware, software, limit, bar)
    if found.evaluated and found.fits.any():
        return found
    more, larger = space.gpus, ""
    for _ in range(12):
        more *= 2
        wider = space_of_gpus(narrow(space), model, more)
        if search(model, wider, hardware, software, limit).fits.any():
            larger = f": use --gpus {more}"
            break
    if not found.evaluated:
        worst = max(found.rejected, key=lambda one: one.plans, default=None)
        why = f" ({worst.example})" if worst else ""
        raise ValueError(f"no plan splits {model.name} over {space.gpus} GPUs{why}{larger}")
    smallest = found.plan(int(found.sizes.argmin()))
    raise ValueError(
        f"none of {found.evaluated:,} plans for {model.name} fits into {found.limit / 1e9:.1f} GB on {space.gpus} "
        f"{hardware.chip.name}, the smallest needs {smallest.memory / 1e9:.1f} GB{larger or ': use a larger GPU'}"
    )


def space_of_gpus(space: Space, model: Transformer, gpus: int) -> Space:
    """The same for another number of GPUs."""
    from ..planner.space import space_of

    other = space_of(model, gpus, space.base)
    kept = ("schedule", "recompute", "zero", "sp", "offload", "overlap", "vpp")
    return replace(other, **{axis: getattr(space, axis) for axis in kept})


class Bar:
    """A progress bar on a terminal: told how many of how many are done."""

    def __init__(self, does: str, quiet: bool = False) -> None:
        self._does, self._quiet, self._reached = does, quiet, 0
        self._stack = ExitStack()
        self._step: Callable[[], None] | None = None

    def __enter__(self) -> Bar:
        return self

    def __call__(self, number: int, of: int) -> None:
        from collectives.progress import Progress

        if self._quiet or not sys.stderr.isatty():
            return
        if self._step is None:
            self._step = self._stack.enter_context(Progress(BAR, True, self._does)).step
        while self._reached < number * BAR // of:
            self._reached += 1
            self._step()

    def __exit__(self, *_: object) -> None:
        self._stack.close()
