"""``show``: a lesson's text and figures in the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rich.text import Text

from ..lines import columns
from ..reading import Reading
from ..screen import is_plain, put, spell
from ..text import Terminal, wrap
from ..workspace import Workspace, add_lesson
from .resume import suggest_next

HELP = "a lesson's text and figures, here"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    put(_lines(Reading(lesson, workspace.say), workspace, columns()))
    suggest_next(workspace, lesson)
    return 0


def _lines(reading: Reading, workspace: Workspace, width: int) -> Iterator[Text]:
    say, lesson = reading.say, reading.lesson

    def figure(name: str, caption: str) -> list[Text]:
        head = wrap(Text(caption, "italic"), width)
        return [*head, Text(), *lesson.figures[name].lines(say, width)]

    terminal = Terminal(width, is_plain(), figure)

    def section(name: str, markdown: str) -> Iterator[Text]:
        heading = Text(reading.heading(name), "bold")
        yield from (Text(), heading, Text("─" * heading.cell_len, "dim"))
        yield from terminal.lines(spell(markdown))

    yield from wrap(Text(reading.where, "dim"), width)
    yield from wrap(Text(reading.title, "bold"), width)
    yield from wrap(Text(reading.proves), width)
    for name in reading.sections():
        yield from section(name, reading.text(name))
        if name == "problem" and reading.prediction:
            yield from section("predict", reading.prediction.question)
            later = say("page.predict.later", command=workspace.command("quiz", lesson.number))
            yield from (Text(), *terminal.lines(spell(later)))
        if name == "task" and lesson.twin:
            yield from section("twin", reading.text("twin.task"))
    if reading.calculations:
        questions = "\n\n".join(f"**{i}.** {one.question}" for i, one in enumerate(reading.calculations, 1))
        yield from section("calculate", questions)
        later = say("page.calculations.later", command=workspace.command("quiz", lesson.number))
        yield from (Text(), *terminal.lines(spell(later)))
    if reading.has("papers"):
        yield from section("papers", reading.text("papers"))
