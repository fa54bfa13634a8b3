"""Two benchmark runs, row by row: what has changed by more than the noise of both. Needs no torch.

    noise of a row = the larger of  iqr_us / time_us  (how far its own measurements lie apart)
                                and |null - 1|        (how far the backend lies apart from itself)
    a change counts if it is beyond the noise of both rows together, and beyond the tolerance

Times are those of one machine in one state. ``ratio`` instead compares ours / native, which a machine that was slower
for both does not change.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..readers.pasted import text_of
from ..readers.run_json import read_bench_json

MEASURES = {"time": "time_us", "ratio": "ratio"}
_KEY = ("collective", "algorithm", "bytes", "dtype", "redop", "ranks")
_ALIKE = ("backend", "ranks", "devices", "hosts", "torch", "nccl", "mode", "scheduler", "groups", "orders")


@dataclass(frozen=True)
class Change:
    """One row of both runs. change: after / before - 1; noise: what it must be beyond, as the same kind of number."""

    key: tuple[Any, ...]
    before: float
    after: float
    noise: float

    @property
    def change(self) -> float:
        return self.after / self.before - 1

    @property
    def verdict(self) -> str:
        """``slower``, ``faster`` or ``same``; by factors, so that exchanging the runs exchanges slower and faster."""
        far = abs(math.log(self.after / self.before)) > math.log1p(self.noise)
        return ("slower" if self.after > self.before else "faster") if far else "same"

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the row's key, before, after, change, noise, verdict."""
        measured = {"before": self.before, "after": self.after, "change": self.change, "noise": self.noise}
        return {**dict(zip(_KEY, self.key, strict=True)), **measured, "verdict": self.verdict}


@dataclass(frozen=True)
class Run:
    """The rows of a run by what they are of, and what it was made on."""

    environment: Mapping[str, Any]
    rows: Mapping[tuple[Any, ...], Mapping[str, Any]]


def read_run(path: str | os.PathLike[str]) -> Run:
    """A file that ``bench --json`` has written, baselines included.

    Raises:
        ValueError: it is none; names what is wrong.
    """
    text = text_of(path)
    read_bench_json(text, Path(path).name)  # which says in a sentence what is wrong
    data = json.loads(text.removeprefix("\ufeff"))
    rows = [*data["rows"], *data.get("baselines", ())]
    return Run(data["environment"], {tuple(row.get(name) for name in _KEY): row for row in rows})


def changes(before: Run, after: Run, measure: str = "time", tolerance: float = 0.05) -> list[Change]:
    """The rows that both have, in the order of the second.

    Args:
        measure: a key of ``MEASURES``; rows that lack it are left out.
        tolerance: changes up to this count as none, however quiet both runs were.
    """
    field, found = MEASURES[measure], []
    for key, new in after.rows.items():
        old = before.rows.get(key)
        if old is None or not old.get(field) or not new.get(field):
            continue
        noise = max(tolerance, noise_of(old) + noise_of(new))
        found.append(Change(key, old[field], new[field], noise))
    return found


def noise_of(row: Mapping[str, Any]) -> float:
    """How far a row's time may be off, as a part of it; files without ``iqr_us`` have only the backend's ``null``."""
    own = (row.get("iqr_us") or 0.0) / row["time_us"] if row.get("time_us") else 0.0
    null = row.get("null")
    return float(max(own, abs(null - 1) if null else 0.0))


def unlike(before: Run, after: Run) -> list[str]:
    """Sentences about what the runs were made on, where that differs."""
    pairs = ((name, before.environment.get(name), after.environment.get(name)) for name in _ALIKE)
    return [f"{name}: {old} before, {new} after" for name, old, new in pairs if (old or None) != (new or None)]
