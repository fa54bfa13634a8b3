"""``python -m lessons``: the course, from where the learner is."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from collectives.door import Door

from .catalogue import Catalogue, usual_language
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
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 if all is well, 1 if a check found something, 2 for what cannot be done."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character shows ? for it
            stream.reconfigure(errors="replace")
    say = Catalogue(usual_language())
    try:
        common, words = door(say).split(sys.argv[1:] if argv is None else argv)
        say = Catalogue(common.lang) if common.lang else say
        workspace = Workspace.of(common)
        say = workspace.say
        for note in workspace.progress.notes:
            print(say.say(note), file=sys.stderr)
        if words and not words[0].startswith("-") and words[0] not in COMMANDS:
            near = difflib.get_close_matches(words[0], COMMANDS, n=3) or list(COMMANDS)
            raise Refusal("runner.no_command", asked=words[0], commands=near)
        return door(say).main(argv)
    except KeyboardInterrupt:
        return 130
    except Refusal as refusal:
        print(say("runner.refused", reason=refusal.said), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
