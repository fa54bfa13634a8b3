"""A whole run, as every rank lives it: resume, step, save, report; rank 0 prints."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # any optimizer imports it, which takes a second: here, before ranks are forked
import torch.distributed as dist

from collectives.bench import report
from collectives.progress import Progress
from collectives.span import Span

from .. import checkpoints
from ..checkpoints.folder import find
from ..checkpoints.together import together
from ..memory import KINDS
from ..pipeline.record import bubble_fraction
from ..pipeline.schedule import counted
from .models import MODELS
from .recipe import Recipe
from .text import Text
from .training import Step, Training


@dataclass(frozen=True, slots=True)
class Plan:
    """steps: of the whole run, those before a resume among them. folder: where to save, ``every`` so many steps and at
    the end; None: nowhere. keep: how many checkpoints stay. resume: a checkpoint, or a folder of them; None: begin
    anew. demand: whether there must be one. trace: record the last step.
    """

    recipe: Recipe
    steps: int = 20
    folder: str | None = None
    every: int = 10
    keep: int = 2
    resume: str | None = None
    demand: bool = True
    trace: bool = False


@dataclass(slots=True)
class Outcome:
    """What is known after a run; empty on all ranks but 0.

    steps: a dictionary each. memory: bytes at rest by kind; sent: bytes a step by axis of the mesh; both of the rank
    with most. bubble: of the last step, in a pipeline; spans: of it, all ranks'. saved: the newest checkpoint.
    error: why the run ended early, in a sentence; wrong: whether an argument was the reason.
    """

    environment: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)
    bubble: float | None = None
    spans: list[Span] = field(default_factory=list)
    saved: str | None = None
    error: str = ""
    wrong: bool = False


def run(plan: Plan) -> Outcome:
    """Train; every rank calls it. What all ranks see go wrong is an outcome: a full disk, say, or a loss of NaN."""
    try:
        return _run(plan)
    except (ValueError, OSError, FloatingPointError) as error:
        return Outcome(error=str(error), wrong=isinstance(error, ValueError))


def _run(plan: Plan) -> Outcome:
    recipe, first = plan.recipe, dist.get_rank() == 0
    say: Callable[[str], None] = report.say if first else (lambda line: None)
    text = Text(recipe.text)
    training = Training(recipe)
    outcome = Outcome(_environment(plan) if first else {})
    folder = _prepared(plan)
    for line in _heading(training):
        say(line)
    _resume(plan, training, say)
    begun, tokens = training.steps, recipe.batch * recipe.sequence
    with Progress(max(0, plan.steps - begun), first, "training") as progress, training.counted() as sent:
        while training.steps < plan.steps:
            rows = text.rows(training.steps, recipe.batch, recipe.sequence, recipe.seed)
            start = time.perf_counter()
            if training.steps == plan.steps - 1 and (plan.trace or recipe.pp > 1):
                step, spans = training.traced(rows)
            else:
                step, spans = training.step(rows), []
            norm = training.norms.get(training.steps)
            outcome.steps.append(_row(training.steps, step, norm, time.perf_counter() - start, tokens))
            progress.step()
            with progress.aside():
                say(_line(outcome.steps[-1], plan.steps))
            if folder is not None and (training.steps % plan.every == 0 or training.steps == plan.steps):
                outcome.saved = str(training.save(folder))
            if spans:
                outcome.spans = [span for each in together(partial(list, spans)) for span in each]
    training.settle()
    for row in outcome.steps:
        row["grad_norm"] = training.norms.get(row["step"])
    held, counts = together(training.memory), together(lambda: sent)
    outcome.memory = {kind: max(each[kind] for each in held) for kind in (*KINDS, "total")}
    outcome.sent = {axis: max(each[axis] for each in counts) / max(1, training.steps - begun) for axis in sent}
    outcome.bubble = bubble_fraction(outcome.spans) if recipe.pp > 1 and outcome.spans else None
    for line in _closing(outcome):
        say(line)
    return outcome if first else Outcome()


def _heading(training: Training) -> list[str]:
    """What is trained, and how."""
    recipe, config, count = training.recipe, MODELS[training.recipe.model], training.parameters()
    axes = " × ".join(f"{axis} {size}" for axis, size in training.mesh.axes.items() if size > 1) or "one rank"
    extras = [f"ZeRO {recipe.zero}"] * bool(recipe.zero) + [recipe.schedule] * (recipe.pp > 1) + ["SP"] * recipe.sp
    extras += [recipe.precision, *["recompute"] * (recipe.recompute == "full")]
    return [
        f"# {recipe.model}: {config.layers} blocks of width {config.hidden}, {count:,} parameters",
        f"# {axes}; {', '.join(extras)}; a step: {recipe.batch} rows of {recipe.sequence} bytes, "
        f"{counted(recipe.microbatches, 'microbatch')} a replica; seed {recipe.seed}",
    ]


def _prepared(plan: Plan) -> checkpoints.Folder | None:
    if plan.folder is None:
        return None
    folder = checkpoints.Folder(plan.folder, plan.keep)
    together(folder.prepare if dist.get_rank() == 0 else None)
    return folder


def _resume(plan: Plan, training: Training, say: Callable[[str], None]) -> None:
    """Go on where a checkpoint ends, if one is wanted and there."""
    if plan.resume is None:
        return
    path = together(partial(_found, plan) if dist.get_rank() == 0 else None)[0]
    if path is None:
        say(f"# {plan.resume}: nothing saved yet, so this is the beginning")
        return
    before = training.load(path)
    say(f"# resumed from {path}, after step {training.steps}")
    for name, (was, now) in plan.recipe.differences(before).items():
        say(f"#   {name}: was {was}, is {now}")


def _found(plan: Plan) -> Path | None:
    assert plan.resume is not None
    try:
        return find(plan.resume)
    except ValueError:
        if plan.demand:
            raise
        return None


def _row(number: int, step: Step, norm: float | None, seconds: float, tokens: int) -> dict[str, Any]:
    return {
        "step": number,
        "loss": step.loss,
        "grad_norm": norm,
        "step_s": seconds,
        "tokens_per_s": tokens / seconds,
        "taken": step.taken,
    }


def _line(row: dict[str, Any], steps: int) -> str:
    norm = "norm later " if row["grad_norm"] is None else f"norm {row['grad_norm']:.4f}"
    skipped = "" if row["taken"] else "   left out: an overflow, the loss scale is halved"
    return (
        f"step {row['step']:>{len(str(steps))}}   loss {row['loss']:.6f}   {norm}   "
        f"{row['step_s'] * 1e3:7.1f} ms   {row['tokens_per_s']:,.0f} tokens/s{skipped}"
    )


def _closing(outcome: Outcome) -> list[str]:
    held = ", ".join(f"{kind} {_mib(n)}" for kind, n in outcome.memory.items() if n and kind not in ("other", "total"))
    sent = ", ".join(f"{axis} {_mib(n)}" for axis, n in outcome.sent.items() if n)
    waits = [f"# bubble of the last step: {outcome.bubble:.1%}"] if outcome.bubble is not None else []
    lines = [f"# held at rest: {held}", f"# sent a step: {sent or 'nothing'}", *waits]
    return lines + ([f"# saved: {outcome.saved}"] if outcome.saved else [])


def _mib(nbytes: float) -> str:
    return f"{nbytes / 2**20:.2f} MiB"


def _environment(plan: Plan) -> dict[str, Any]:
    return {
        **plan.recipe.to_json(),
        "ranks": plan.recipe.ranks,
        "length": plan.recipe.sequence,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
