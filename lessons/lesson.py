"""A lesson of the course: what it is called, how long it takes, what it needs, its files, checks and figures.

What it says is in the catalogue: its title in ``course.toml``, the text of lesson 4 in ``lesson04.toml``. Its code is
in ``course/NN_name/``: ``stub.py`` (what the learner starts from), ``solution.py``, ``broken.py`` (the "break it" twin,
if there is one) and ``facts.py`` (the numbers of the text, from the library).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .checks.bare import Bare
from .checks.formula import Formula
from .checks.launched import Launched
from .checks.measurement import Measurement
from .checks.program import Program
from .checks.timetable import Timetable
from .checks.trial import Trial
from .figures import Figure

Judged: TypeAlias = Bare | Program | Formula | Trial | Launched | Timetable  # each of one function
Check: TypeAlias = Judged | Measurement


@dataclass(frozen=True)
class Twin:
    """A file with planted faults. faults: ids of the sentences that name them; checks: what a mended file passes."""

    faults: tuple[str, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Lesson:
    """One lesson.

    checks: in the order of the learner's file, cheap ones first within each. extra: those of its functions that it is
    passed without, for whoever wants to go further; they come last. pieces: what later lessons and its own
    twin can use, name → (the learner's function, the library's, as ``module:name``). stub: the id of the sentence with
    which the stub fails. core: it belongs to the core path; ``manifest.py`` knows. minutes: for its text, code, check
    and questions; further: for what is beside the way, that is extra functions, its twin, what is to calculate, real
    systems and papers.
    """

    number: int
    name: str
    minutes: int
    further: int = 0
    needs: tuple[int, ...] = ()
    checks: tuple[Check, ...] = ()
    extra: tuple[str, ...] = ()
    twin: Twin | None = None
    pieces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    questions: int = 2
    stub: str = "file.todo"
    core: bool = False

    @property
    def functions(self) -> list[str]:
        """What the learner writes, with what is extra."""
        return [check.function for check in self.checks if not isinstance(check, Measurement)]

    @property
    def folder(self) -> str:
        return f"{self.number:02}_{self.name}"

    @property
    def table(self) -> str:
        """The file of the catalogue that holds its text."""
        return f"lesson{self.number:02}"
