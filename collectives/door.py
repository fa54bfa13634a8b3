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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from . import __version__
from .installation import version_text


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help shows all)\n")


@dataclass(frozen=True)
class Door:
    """What a package does from a command line; ``commands`` are modules by name.

    default: the command that runs if none is named; without one, the help is shown. options: adds what every command
    takes, before or after its name. helps: what a command does, by name, in place of its module's ``HELP``. parser: of
    the package and of each command.
    """

    package: str
    description: str
    commands: Mapping[str, str]
    examples: str
    default: str = ""
    options: Callable[[argparse.ArgumentParser], None] | None = None
    helps: Mapping[str, str] = field(default_factory=dict)
    parser: type[Parser] = Parser

    def build(self, argv: Sequence[str]) -> Parser:
        """The parser that ``argv`` needs: with one command if it starts with one, else with all."""
        parser = self.parser(
            prog=f"python -m {self.package}",
            description=self.description,
            epilog=self.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        parser.add_argument("--version", action="store_true", help="print the version and where the packages come from")
        if self.options:
            self.options(parser)
        commands = parser.add_subparsers(
            title="commands",
            metavar="COMMAND",
            parser_class=self.parser,
            description="COMMAND --help tells more of each",
        )
        chosen = argv[0] if argv and argv[0] in self.commands else None
        for name in [chosen] if chosen else self.commands:
            if name in self.helps and not chosen:  # listed, so that its module is not needed
                commands.add_parser(name, help=self.helps[name])
                continue
            module = importlib.import_module(self.commands[name])
            does = self.helps.get(name) or module.HELP
            command = commands.add_parser(
                name,
                help=does,
                description=does,
                epilog=getattr(module, "EXAMPLES", None),
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
            module.add_arguments(command)
            if self.options:
                self.options(command)
            command.set_defaults(main=module.main)
        return parser

    def split(self, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The options that every command takes, and the rest: the command and what it alone takes."""
        if self.options is None:
            return argparse.Namespace(), list(argv)
        parser = self.parser(prog=f"python -m {self.package}", add_help=False, allow_abbrev=False)
        self.options(parser)
        return parser.parse_known_args(argv)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command; its exit status (2: a wrong argument)."""
        common, argv = self.split(sys.argv[1:] if argv is None else argv)
        argv = argv or [self.default] * bool(self.default)
        parser = self.build(argv)
        if argv and not argv[0].startswith("-") and argv[0] not in self.commands:
            near = difflib.get_close_matches(argv[0], self.commands, n=3) or list(self.commands)
            parser.error(f"there is no command {argv[0]!r}: use {' or '.join(near)}")
        args = parser.parse_args(argv)
        vars(args).update(vars(common))
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
