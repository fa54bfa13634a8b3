"""Text as people paste it: colours, Windows line ends, quote marks and launchers' labels taken off. Needs no torch."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# With the escape character itself, as a terminal shows it (^[), or lost on the way through a log.
_COLOUR = re.compile(r"(?:\x1b|\^\[|\u241b)?\[\d+(?:;\d+)*m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_LINE_END = re.compile(r"\r*\n|\r")
_QUOTE = re.compile(r"^(?:>\s?)+")
_TIMESTAMP = re.compile(r"^\s*\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*\s")
_LABEL = re.compile(
    r"^[^#<]{0,80}?\[(?P<mpi>[^\[\]\s]*\d)\]<std(?:out|err)>:\s?"  # mpirun --tag-output
    r"|^\s*(?P<slurm>\d{1,6}):\s"  # srun --label
    r"|^\[(?P<mpich>\d{1,6})\]\s"  # mpiexec -prepend-rank
    r"|^\[(?:default|rank)(?P<torch>\d{1,6})\]:\s?"  # torchrun
    r"|^\[(?P<pod>pod/[^\]\s]+)\]\s"  # kubectl logs --prefix
)
_NAME = re.compile(r"^(.*?)(\d+)$")


@dataclass(frozen=True, slots=True)
class Line:
    """One line. number: from 1 on, in the text as given; label: the launcher's name for the process, '' if none."""

    number: int
    label: str
    text: str


def lines_of(text: str) -> list[Line]:
    """The lines of a pasted text, cleaned; O(its length)."""
    lines = []
    for number, raw in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), 1):
        line = _QUOTE.sub("", _COLOUR.sub("", raw).replace("\u00a0", " ").replace("\0", " "))
        line = _TIMESTAMP.sub("", line)
        label = ""
        if match := _LABEL.match(line):
            label, line = next(group for group in match.groups() if group), line[match.end() :]
        lines.append(Line(number, label, line.rstrip()))
    return lines


def text_of(path: str | os.PathLike[str]) -> str:
    """What a text file says, in UTF-8 or, as PowerShell writes it, UTF-16; bytes that are neither become U+FFFD.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"file {str(path)!r} cannot be read ({reason}): name a text file") from None
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8-sig", errors="replace")


def listed(names: Iterable[str]) -> str:
    """``GPU4 to GPU15, mlx5_0 and mlx5_2``: neighbours that count up are drawn together; O(names)."""
    spans: list[list[str]] = []
    for name in names:
        if spans and _follows(spans[-1][-1], name):
            spans[-1].append(name)
        else:
            spans.append([name])
    parts: list[str] = []
    for span in spans:
        parts += [f"{span[0]} to {span[-1]}"] if len(span) > 2 else span
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def shortened(sentences: Sequence[str], most: int, things: str) -> list[str]:
    """The first ``most`` sentences and, if there are more, one that counts the others."""
    more = len(sentences) - most
    return [*sentences[:most], f"and {more} more {things} like these"] if more > 0 else list(sentences)


def _follows(before: str, after: str) -> bool:
    first, second = _NAME.match(before), _NAME.match(after)
    return bool(first and second and first[1] == second[1] and int(first[2]) + 1 == int(second[2]))
