"""The table of a comparison: what was measured, and beside it the closed form. Needs no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from collectives.atomic import write_text
from collectives.span import Span

from .expectations import MEMORY, Job, Memory, layers
from .overlap import overlap

SAME = 1e-5  # losses of fp32 rows that are further apart are a fault


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy. loss: of the last step; step_s: of the slowest rank; bytes: of a rank, in a step."""

    strategy: str
    precision: str
    loss: float
    step_s: float
    bytes_sent: int | float
    expected_bytes_sent: float
    memory: Memory
    expected_memory: Memory


def heading(job: Job) -> list[str]:
    """The lines above the rows."""
    config, unit = job.config, _unit(job)[1]
    each = f"{job.batch} rows of {job.length} tokens"
    return [
        f"# GPT {job.model}: {config.layers} blocks of width {config.hidden}, {sum(layers(config)):,} parameters",
        f"# {job.ranks} ranks, gloo; {job.steps} steps of AdamW on one batch of {each}, seed {job.seed}",
        "# loss: of the last step, ~ where something is rounded; step: median without the first, slowest rank",
        f"# measured/closed form, {unit} of a rank: sent in a step (dp: moved by device 0); held before the",
        "# update; activations at their highest (offloaded ones: the closed form is the most there may be)",
        f"{'strategy':<19} {'loss':>9} {'step':>8} {'sent':>11} " + " ".join(f"{kind:>11}" for kind in MEMORY),
        f"{'':<19} {'':>9} {'ms':>8} " + " ".join(f"{unit:>11}" for _ in range(5)),
    ]


def line(row: Row, job: Job) -> str:
    """One row, at most 98 columns."""
    size = _unit(job)[0]
    pairs = [(row.bytes_sent, row.expected_bytes_sent), *((row.memory[k], row.expected_memory[k]) for k in MEMORY)]
    cells = [f"{_short(found, size)}/{_short(wanted, size)}" if found is not None else "–" for found, wanted in pairs]
    loss = f"{'' if row.precision == 'fp32' else '~'}{row.loss:.6f}"
    return f"{row.strategy:<19} {loss:>9} {_short(row.step_s, 1e-3):>8} " + " ".join(f"{cell:>11}" for cell in cells)


def closing(rows: Sequence[Row]) -> list[str]:
    """Whether the rows in which nothing is rounded have the same loss."""
    exact = [row for row in rows if row.precision == "fp32"]
    if len(exact) < 2:
        return []
    apart = spread(rows)
    if apart <= SAME:
        return [f"# loss of the {len(exact)} fp32 rows: the same to {apart:.1e} OK"]
    low, high = min(exact, key=lambda row: row.loss), max(exact, key=lambda row: row.loss)
    return [f"# loss of the fp32 rows: {low.strategy} and {high.strategy} are {apart:.1e} apart FAILED"]


def hidden(spans: Sequence[Span]) -> str:
    """How much of rank 0's communication the backward pass hides, in words."""
    under_way, under_backward = overlap(spans)
    share = under_backward / under_way if under_way else 0.0
    return f"# rank 0 had messages under way for {under_way * 1e3:.1f} ms, {share:.0%} of it under its backward pass"


def spread(rows: Sequence[Row]) -> float:
    """How far the losses of fp32 rows are apart; infinite if one is no number."""
    losses = [row.loss for row in rows if row.precision == "fp32"]
    if any(loss != loss for loss in losses):
        return float("inf")
    return max(losses) - min(losses) if losses else 0.0


def write_json(path: str | os.PathLike[str], environment: dict[str, Any], rows: Sequence[Row]) -> None:
    """``{"environment": …, "rows": […]}``, all or nothing."""
    content = {"environment": environment, "rows": [asdict(row) for row in rows]}
    write_text(path, json.dumps(content, indent=1) + "\n")


def _unit(job: Job) -> tuple[float, str]:
    small = sum(layers(job.config)) * 4 < 2**20
    return (2.0**10, "KiB") if small else (2.0**20, "MiB")


def _short(number: float | None, unit: float) -> str:
    """Four digits that count, in at most five characters up to 99,999."""
    value = (number or 0) / unit
    if not value:
        return "0"
    return f"{value:.{max(0, 3 - len(str(int(value))) + 1)}f}"
