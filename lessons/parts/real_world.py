"""Lessons 28 to 32: what happens to a run, and the whole of it once more."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.hung import Hung
from ..checks.rehearsal import Rehearsal
from ..figures import Flights, Seats
from ..lesson import Lesson

REAL_WORLD: tuple[Lesson, ...] = (
    Lesson(
        29,
        "hangs",
        minutes=40,
        needs=(1, 5),
        checks=(Formula("waiting"), Formula("absent"), Formula("blame"), Formula("differing"), Hung()),
        figures={"skips": Flights("one rank skips a call"), "crosses": Flights("nobody is missing")},
        questions=3,
    ),
    Lesson(
        32,
        "capstone",
        minutes=75,
        needs=(25,),
        checks=(
            Formula("parameters"),
            Formula("state_bytes"),
            Formula("sent"),
            Formula("step_seconds"),
            Rehearsal(),
        ),
        figures={"seats": Seats(pp=2, dp=2, tp=2, marked=0)},
        questions=3,
    ),
)
