"""Text in lines for a terminal, where Chinese characters are two columns wide and may be parted without a blank."""

from __future__ import annotations

import os
import re
import shutil
import sys

from rich.cells import cell_len

NARROWEST, IN_A_PIPE, WIDEST = 20, 80, 100  # longer lines than that are hard to read
BOLD, RED, GREEN, DIM = "1", "31", "32", "2"


def columns() -> int:
    """How wide lines of text may be: as the terminal, or 80 in a pipe."""
    return min(screen() or IN_A_PIPE, WIDEST)


def screen() -> int | None:
    """How wide the terminal is; None for a pipe, which has no edge."""
    return max(shutil.get_terminal_size().columns, NARROWEST) if sys.stdout.isatty() else None


def complain(text: str) -> None:
    """Print to stderr: in lines that fit a terminal, or in one line for a pipe."""
    try:
        width = max(os.get_terminal_size(sys.stderr.fileno()).columns, NARROWEST)
    except (OSError, ValueError):
        width = 1 << 16
    print("\n".join(wrap(text, width)), file=sys.stderr)


def unbroken(command: str) -> str:
    """Something to type, as ``wrap`` keeps it together: a line may be too long, but what is copied is whole."""
    return command.replace(" ", "\u00a0")


def wrap(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """``text`` in lines of at most ``width`` columns, ``first`` before the first one and ``rest`` before the others.

    Lines of the text that are indented are code and stay as they are.
    """
    from rich.text import Text

    from . import text as paper

    rest = " " * cell_len(first) if rest is None else rest
    lines: list[str] = []
    for line in text.split("\n"):
        code = line.startswith((" ", "\t"))
        lines += [line] if code else [one.plain for one in paper.wrap(Text(line), width - cell_len(rest))]
    return [((rest if number else first) + line).rstrip() for number, line in enumerate(lines)]


def pad(text: str, width: int) -> str:
    """``text`` with blanks behind it, ``width`` columns wide."""
    return text + " " * (width - cell_len(text))


def shorten(text: str, width: int) -> str:
    """``text``, or its beginning and ``…``, in at most ``width`` columns."""
    if cell_len(text) <= width:
        return text
    kept = ""
    for character in text:
        if cell_len(kept + character) >= width:
            break
        kept += character
    return kept.rstrip() + "…" if width > 0 else ""


def colour(text: str, code: str) -> str:
    """``text`` in a colour (``RED``, …) where there may be one. It reads the same without."""
    may = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if may else text


def without_controls(text: str) -> str:
    """``text`` of somebody else's program without what a terminal would obey."""
    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)?", "", text.replace("\r\n", "\n"))
    return "".join(one for one in text if one in "\n\t" or one.isprintable() or one == " ")
