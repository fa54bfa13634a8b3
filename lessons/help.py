"""What ``--help`` and argparse's errors look like: lines that fit the terminal, also where letters are wide."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from collectives.door import Parser as DoorParser

from .lines import columns, complain, unbroken, wrap

_PARTS = re.compile(r"\[[^]]*\]|\S+")  # of a usage: an option with its value, or a word


class Parser(DoorParser):
    """The parser of the door, in lines that end at blanks, with no command broken over two."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "formatter_class": Formatter})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args(list(_joined(sys.argv[1:] if args is None else args)), namespace)

    def error(self, message: str) -> NoReturn:
        complain(f"{unbroken(self.prog)}: error: {message} (--help shows all)")
        self.exit(2)


def _joined(words: Sequence[str]) -> Iterator[str]:
    """``--answers -1,a`` as ``--answers=-1,a``: argparse would take answers that begin with a minus for an option."""
    rest = iter(words)
    for word in rest:
        follows = next(rest, None) if word == "--answers" else None
        if follows is None:
            yield word
        elif re.match("-(?!-)", follows):
            yield f"{word}={follows}"
        else:
            yield from (word, follows)


class Formatter(argparse.HelpFormatter):
    """Keeps the line ends that a text has; a line of two columns that is too wide becomes two lines."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns())

    def _format_usage(self, *args: Any) -> str:
        width, self._width = self._width, 1 << 16
        usage = super()._format_usage(*args).strip()
        self._width = width
        head, parts = usage.partition(self._prog)[0] + unbroken(self._prog), usage.partition(self._prog)[2]
        line = " ".join([head, *map(unbroken, _PARTS.findall(parts))])
        return "\n".join(wrap(line, width - 2, rest="  ")) + "\n\n"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(part for line in text.split("\n") for part in _filled(indent + line, width))


def _filled(line: str, width: int) -> Iterator[str]:
    """A line of prose wrapped; one of a command and what it does below each other, if they do not fit side by side."""
    command, _, does = line.strip().partition("   ")
    if not does or len(wrap(line.strip(), width - 2)) == 1:
        blank = line[: len(line) - len(line.lstrip())]
        yield from [line] if does else wrap(line.strip(), width - len(blank), blank)
        return
    yield f"  {command}"
    yield from wrap(does.strip(), width - 6, " " * 6)
