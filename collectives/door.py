"""The front door of a package: ``python -m PACKAGE COMMAND``.

A command is a module with ``HELP``, ``add_arguments(parser)`` and ``main(args) -> exit status``. It is imported when it
is asked for, so it should import what is heavy (torch) in functions only.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from . import __version__
from .installation import version_text


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help shows all)\n")


@dataclass(frozen=True)
class Door:
    """What a package does from a command line; ``commands`` are modules by name."""

    package: str
    description: str
    commands: Mapping[str, str]
    examples: str

    def build(self, argv: Sequence[str]) -> Parser:
        """The parser that ``argv`` needs: with one command if it starts with one, else with all."""
        parser = Parser(
            prog=f"python -m {self.package}",
            description=self.description,
            epilog=self.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        parser.add_argument("--version", action="store_true", help="print the version and where the packages come from")
        commands = parser.add_subparsers(
            title="commands", metavar="COMMAND", parser_class=Parser, description="COMMAND --help tells more of each"
        )
        for name in argv[:1] if argv and argv[0] in self.commands else self.commands:
            module = importlib.import_module(self.commands[name])
            command = commands.add_parser(
                name,
                help=module.HELP,
                description=module.HELP,
                epilog=getattr(module, "EXAMPLES", None),
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
            module.add_arguments(command)
            command.set_defaults(main=module.main)
        return parser

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command; its exit status (2: a wrong argument)."""
        argv = sys.argv[1:] if argv is None else argv
        parser = self.build(argv)
        if argv and not argv[0].startswith("-") and argv[0] not in self.commands:
            near = difflib.get_close_matches(argv[0], self.commands, n=3) or list(self.commands)
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
