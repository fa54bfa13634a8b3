"""``python -m lessons``: the course, from where the learner is."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence

from collectives.door import Door

from .catalogue import Catalogue, usual_language
from .help import Parser
from .lines import complain
from .refusal import Refusal
from .workspace import Workspace, add_options

COMMANDS = {
    "resume": "lessons.commands.resume",
    "list": "lessons.commands.listing",
    "show": "lessons.commands.show",
    "open": "lessons.commands.open",
    "start": "lessons.commands.start",
    "check": "lessons.commands.check",
    "watch": "lessons.commands.watch",
    "hint": "lessons.commands.hint",
    "solution": "lessons.commands.solution",
    "reset": "lessons.commands.reset",
    "skip": "lessons.commands.skip",
    "goto": "lessons.commands.goto",
    "quiz": "lessons.commands.quiz",
    "report": "lessons.commands.report",
    "site": "lessons.commands.site",
    "doctor": "lessons.commands.doctor",
    "selftest": "lessons.commands.selftest",
}


def door(say: Catalogue) -> Door:
    """The door in a language: what commands do. What argparse says itself, and the options, stay English."""
    return Door(
        "lessons",
        say("runner.help.course"),
        COMMANDS,
        say("runner.help.examples"),
        default="resume",
        options=add_options,
        helps={name: say(f"runner.help.{name}") for name in COMMANDS},
        parser=Parser,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 if all is well, 1 if a check found something, 2 for what cannot be done."""
    _open_standard_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character shows ? for it
            stream.reconfigure(errors="replace")
    say = Catalogue(usual_language())
    try:
        common, words = door(say).split(sys.argv[1:] if argv is None else argv)
        say = Catalogue(common.lang) if common.lang else say
        workspace = Workspace.of(common)
        say = workspace.say
        for note in workspace.progress.notes:
            complain(say.say(note))
        if words and not words[0].startswith("-") and words[0] not in COMMANDS:
            near = difflib.get_close_matches(words[0], COMMANDS, n=3) or list(COMMANDS)
            raise Refusal("runner.no_command", asked=words[0], commands=near)
        return door(say).main(argv)
    except KeyboardInterrupt:
        return 130
    except Refusal as refusal:
        complain(say("runner.refused", reason=refusal.said))
        return 2
    except OSError as error:  # a folder that may not be looked into, or that is gone
        complain(say("runner.refused", reason=f"{error.filename or ''} {error.strerror or error}".strip()))
        return 2


def _open_standard_streams() -> None:
    """What the shell has closed is the null device: else the pipes of a child would get these numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdin = sys.stdin or os.fdopen(0, "r")
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


if __name__ == "__main__":
    sys.exit(main())
