"""Rich's lines on what is there: a terminal with colours, one without, or a pipe; with all letters, or with few."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_LETTERS = "αβγΣ−–—⌈⌉×·…≤≥≈→←↔₂²³ᵏ⁰⁹“”’"
_SPELLED = 'alpha beta gamma sum - - - ceil( ) x * ... <= >= ~ -> <- <-> 2 ^2 ^3 ^k 0 ^9 " " \''


def is_plain() -> bool:
    """No colours: in a pipe, on a dumb terminal, or because NO_COLOR says so."""
    return not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"


def spell(text: str) -> str:
    """A text in letters that the screen has, as well as it can."""
    if _has(text):
        return text
    pairs = zip(_LETTERS, _SPELLED.split(), strict=True)
    return text.translate({ord(letter): spelled for letter, spelled in pairs if not _has(letter)})


def put(lines: Iterable[Text]) -> None:
    """Print lines, each as it is: none is wrapped here."""
    from rich.console import Console

    from sim.draw.terminal import Screen

    screen = Screen.now(None)
    console = Console(file=sys.stdout, color_system=None if is_plain() else "auto", highlight=False, soft_wrap=True)
    for line in lines:
        if not _has(line.plain):
            line.plain = screen.spell(line.plain)
        console.print(line, markup=False, emoji=False)


def _has(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
