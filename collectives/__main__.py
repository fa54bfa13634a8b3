"""``python -m collectives COMMAND``: everything that this package does from a command line."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__
from .installation import version_text

# A command is a module with HELP, add_arguments(parser) and main(args) -> exit status. It is imported when it is asked
# for, so it should import what is heavy (torch) in functions only.
SUBCOMMANDS = {
    "bench": "collectives.bench",
    "list": "collectives.commands.listing",
    "show": "collectives.commands.showing",
    "prove": "collectives.commands.proving",
    "doctor": "collectives.commands.doctor",
}


EXAMPLES = """examples:
  python -m collectives show ring --ranks 4
  python -m collectives prove --algorithm mine.py:ring --collective all_reduce --ranks 1-33
  python -m collectives bench --algorithm mine.py:ring,ring,auto"""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help shows all)\n")


def build(argv: Sequence[str]) -> Parser:
    """The parser that ``argv`` needs: with one command if it starts with one, else with all."""
    parser = Parser(
        prog="python -m collectives",
        description="Collectives written as schedules: list them, draw them, prove them right, run and time them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and where the packages come from")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=Parser, description="COMMAND --help tells more of each"
    )
    for name in argv[:1] if argv and argv[0] in SUBCOMMANDS else SUBCOMMANDS:
        module = importlib.import_module(SUBCOMMANDS[name])
        command = commands.add_parser(name, help=module.HELP, description=module.HELP, allow_abbrev=False)
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit status (2: a wrong argument)."""
    argv = sys.argv[1:] if argv is None else argv
    parser = build(argv)
    if argv and not argv[0].startswith("-") and argv[0] not in SUBCOMMANDS:
        near = difflib.get_close_matches(argv[0], SUBCOMMANDS, n=3) or list(SUBCOMMANDS)
        parser.error(f"there is no command {argv[0]!r}: use {' or '.join(near)}")
    args = parser.parse_args(argv)
    if args.version:
        print(version_text(__version__))
        return 0
    if not hasattr(args, "main"):
        parser.print_help()
        return 0
    try:
        return int(args.main(args))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
