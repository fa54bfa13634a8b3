"""One row of an nccl-tests table, from the words that its line was printed in. Needs no torch.

    size  count  type  [redop]  [root]  time  algbw  busbw  #wrong  [per iteration …]  time  algbw  busbw  #wrong  …
    └──────────── what ─────────────┘  └───────── out-of-place ─────────┘             └──────── in-place ────────┘

Versions differ in what they print before the two groups, never in the groups, so a row is read from the right.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from .measured_run import Row, Timing, itemsize_of

_START = re.compile(r"(?:^|[\s|])(\d{1,18})\s+(\d{1,18})\s+([A-Za-z]\w{0,15})(?=\s|$)(.*)$", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d{1,20}(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?|N/A|-?nan|-?inf", re.ASCII)
_REDOP = re.compile(r"[A-Za-z]\w{0,15}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,9}", re.ASCII)
# What nccl-tests prints in the place of the out-of-place group when it replays a trace: 32 blanks.
_BLANK_GROUP = re.compile(r"\s{30,}\S")


@dataclass(frozen=True, slots=True)
class Layout:
    """What a table's header says; the defaults are for a table without one.

    group: words in a group; redop, root: whether there is such a column, None where only the rows can tell; errors:
    largest errors stand in the place of wrong elements; cpu: CPU times stand in the place of times.
    """

    group: int = 4
    redop: bool | None = None
    root: bool | None = None
    errors: bool = False
    cpu: bool = False


def layout_of(text: str) -> Layout | None:
    """The layout that a header line announces; None if the line is none. Its ``#`` may be lost."""
    words = text.replace("#", " ").split()
    if not {"size", "count", "type", "algbw", "busbw"} <= set(words):
        return None
    starts = [at for at, word in enumerate(words) if word in ("time", "cputime")]
    group = starts[1] - starts[0] if len(starts) > 1 else 0
    return Layout(max(group, 4), "redop" in words, "root" in words, "error" in words, "cputime" in words)


@dataclass(frozen=True, slots=True)
class Printed:
    """A number and half a unit of its last printed digit: the truth lies between value − half and value + half."""

    value: float
    half: float

    @property
    def low(self) -> float:
        return self.value - self.half * 1.001

    @property
    def high(self) -> float:
        return self.value + self.half * 1.001


@dataclass(frozen=True, slots=True)
class Group:
    """The four numbers of one operation. checked: its result was, even where the wrong elements were not counted."""

    time: Printed
    algbw: Printed
    busbw: Printed
    wrong: int | None
    checked: bool

    @property
    def timing(self) -> Timing:
        return Timing(self.time.value, self.algbw.value, self.busbw.value, self.wrong)


@dataclass(frozen=True, slots=True)
class Reading:
    """One row and how exactly it was printed. where: ``line 12``."""

    where: str
    size: int
    count: int
    dtype: str
    redop: str | None
    root: int | None
    out_of_place: Group | None
    in_place: Group | None

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(group for group in (self.out_of_place, self.in_place) if group is not None)

    @property
    def blocks(self) -> int | None:
        """How many times the printed count makes up the size; None if unknown (no bytes, or an unknown type)."""
        width = itemsize_of(self.dtype)
        if not width or not self.size or not self.count or self.size % (self.count * width):
            return None
        return self.size // (self.count * width)

    @property
    def row(self) -> Row:
        out = self.out_of_place.timing if self.out_of_place else None
        within = self.in_place.timing if self.in_place else None
        return Row(self.size, self.count, self.dtype, self.redop, self.root, out, within)


class Draft:
    """A row that may go on: while NCCL logs, its messages break rows into several lines."""

    def __init__(self, line: int, what: re.Match[str]) -> None:
        self.line = line
        self._size, self._count, self._dtype = int(what[1]), int(what[2]), what[3]
        self._text = what[4]

    @classmethod
    def begin(cls, line: int, text: str) -> Draft | None:
        """A draft, if a line begins as a row does."""
        what = _START.search(text)
        return cls(line, what) if what else None

    def goes_on(self, text: str, layout: Layout) -> bool:
        """Take a line that holds nothing but numbers; False if it is none or the row is complete."""
        words = text.split()
        if not words or not all(map(_NUMBER.fullmatch, words)):
            return False
        _, _, mine, rest = self._split(layout)
        if rest or len(mine) >= 2 * layout.group:
            return False
        self._text += " " + text
        return True

    @property
    def is_a_row(self) -> bool:
        """Whether it is to be missed if it cannot be read: its type is one."""
        return itemsize_of(self._dtype) is not None

    def finish(self, layout: Layout) -> tuple[Reading | None, str | None]:
        """The row, as far as its groups are complete, and what is wrong with it."""
        redop, root, words, rest = self._split(layout)
        groups = [_group(words[at : at + layout.group], layout.errors) for at in range(0, len(words), layout.group)]
        left = "" if not rest else f" and {rest[0]!r} follows"
        if not words or len(groups) > 2 or groups[0] is None:
            return None, f"a row of {self._size} bytes that cannot be read: {len(words)} numbers{left}"
        out: Group | None = groups[0]
        within = groups[1] if len(groups) == 2 else None
        if len(words) == layout.group and _BLANK_GROUP.search(self._text):
            out, within = None, out
        problem = None
        if len(words) % layout.group or (len(groups) == 2 and groups[1] is None):
            problem = f"the row of {self._size} bytes is cut: its in-place numbers are left out"
        elif rest:
            problem = f"after the row of {self._size} bytes comes {rest[0]!r}"
        return Reading(f"line {self.line}", self._size, self._count, self._dtype, redop, root, out, within), problem

    def _split(self, layout: Layout) -> tuple[str | None, int | None, list[str], list[str]]:
        """redop, root, the words of the groups, and what comes after them."""
        words = self._text.split()
        redop = None
        if words and _REDOP.fullmatch(words[0]) and not _NUMBER.fullmatch(words[0]):
            redop = words.pop(0)
        end = next((at for at, word in enumerate(words) if not _NUMBER.fullmatch(word)), len(words))
        words, rest = words[:end], words[end:]
        if rest and _DATE.fullmatch(rest[0]):  # the time of day: -S
            rest = rest[2:]
        root = None
        expected = len(words) % layout.group == 1 if layout.root is None else layout.root
        if expected and words and _INTEGER.fullmatch(words[0]):
            root = int(words.pop(0))
        return (None if redop == "none" else redop), (None if root is None or root < 0 else root), words, rest


def _group(words: list[str], errors: bool) -> Group | None:
    """Time, bandwidths and wrong elements; None if a word is missing or is no finite number."""
    numbers = [printed(word) for word in words[:3]]
    if len(words) < 4 or not all(numbers):
        return None
    time, algbw, busbw = (number for number in numbers if number)
    if time.value <= 0 or algbw.value < 0 or busbw.value < 0:  # of a cut row: a root in the place of a time
        return None
    return Group(time, algbw, busbw, None if errors else _wrong(words[3]), words[3] != "N/A")


def _wrong(word: str) -> int | None:
    """A number of elements. 2e-07 and 0e+00 are the largest error, which versions before 2.11 printed instead."""
    number = printed(word)
    if number is None or number.value < 0 or number.value % 1 or word.startswith("0e"):
        return None
    return int(number.value)


def printed(word: str) -> Printed | None:
    """A printed number; None if it is none or not finite."""
    if not _NUMBER.fullmatch(word) or not math.isfinite(value := float("nan" if word == "N/A" else word)):
        return None
    mantissa, _, exponent = word.partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return Printed(value, half)
