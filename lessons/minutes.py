"""How long a lesson takes, counted in its English text and its code: ``minutes`` and ``further`` of the manifest.

``python -m lessons.minutes`` prints them beside those that are written down; a test holds the two together. The rates
are ours: nobody has timed learners yet.
"""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

from .catalogue import Catalogue
from .lesson import Lesson
from .manifest import COURSE
from .source import has_source

WORDS = 1 / 200  # minutes a word that is read
FORMULA = 8 / 60  # … a line of a formula
FIGURE = 1.0
QUESTION = 0.5
LINE = 1.5  # … of code that the learner writes, from what those noted who walked through the course
CHECK = 2.0
CALCULATION = 3.0
FAULT = 4.0  # … to find one and mend it
READ_LINE = 10 / 60  # … of code that somebody else has written

Lines = Counter[str]
_HEADING = re.compile(
    r"(def|class) .*|(else|try|finally):|@.*|import .*|from .*|raise NotImplementedError|return|[\])}]+[:,]?"
)


def counted(lesson: Lesson) -> tuple[int, int]:
    """Its ``minutes`` and ``further``, rounded to 5."""
    texts = Catalogue("en").table(lesson.table)

    def of(*names: str) -> str:
        return " ".join(text for key, text in texts.items() if key.split(".")[0] in names)

    text, quiz = of("problem", "picture", "formula", "task"), of("predict", "quiz")
    minutes = WORDS * _words(text + of("stub") + quiz) + FORMULA * _formula_lines(text) + FIGURE * len(lesson.figures)
    minutes += QUESTION * (lesson.questions if quiz else 0) + (1 if of("predict") else 0)
    further = WORDS * _words(of("real", "papers", "calculate", "twin"))
    further += CALCULATION * len({key.split(".")[1] for key in texts if key.startswith("calculate.")})
    if lesson.checks:
        needed, extra = written(lesson)
        minutes += LINE * needed + CHECK
        further += LINE * extra
    if lesson.twin:
        further += FAULT * len(lesson.twin.faults) + READ_LINE * _code(lesson, "broken").total()
    return _rounded(minutes), _rounded(further)


def _rounded(minutes: float) -> int:
    return 5 * round(minutes / 5)


def _words(text: str) -> int:
    prose = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", re.sub(r"```.*?```", " ", text, flags=re.DOTALL))
    return len(re.findall(r"\S*\w\S*", prose))


def _formula_lines(text: str) -> int:
    blocks = re.findall(r"```(.*?)```", text, flags=re.DOTALL)
    return sum(bool(line.strip()) for block in blocks for line in block.split("\n")[1:])


def written(lesson: Lesson) -> tuple[int, int]:
    """Lines that the learner writes: those that are needed, and those of extra functions.

    A line that stands in the stub is given, and one of a lesson that this one builds upon is there to be copied.
    """
    there = _code(lesson, "stub")
    for one in COURSE:
        if one.number in lesson.needs:
            there |= _code(one, "solution")
    needed, _, extra = _source(lesson, "solution").partition("# {{course.extra}}")
    first = _lines(needed) - there
    return first.total(), (_lines(needed + extra) - there).total() - first.total()


def _code(lesson: Lesson, name: str) -> Lines:
    return _lines(_source(lesson, name))


def _source(lesson: Lesson, name: str) -> str:
    if not has_source(lesson, name):
        return ""
    return (files(__package__) / "course" / lesson.folder / f"{name}.py").read_text("utf-8")


def _lines(code: str) -> Lines:
    """Those that say something: no comments, and nothing that only opens or closes."""
    stripped = (line.strip() for line in code.split("\n"))
    return Counter(
        line for line in stripped if line and not line.startswith(("#", '"""')) and not _HEADING.fullmatch(line)
    )


def main() -> None:
    total = 0
    for lesson in COURSE:
        minutes, further = counted(lesson)
        total += minutes * lesson.core
        star, manifest = " ★"[lesson.core], f"{lesson.minutes:3} + {lesson.further:2}"
        print(f"{lesson.number:2}{star} {minutes:3} + {further:2}   in the manifest {manifest}")
    print(f"core path {total / 60:.1f} h")


if __name__ == "__main__":
    main()
