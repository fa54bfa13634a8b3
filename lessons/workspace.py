"""Where a learner works: their folder, what they have done in it, their language, and the lesson that they mean."""

from __future__ import annotations

import argparse
import enum
import hashlib
import shlex
from pathlib import Path
from typing import TypeAlias

from rich.cells import cell_len

from .catalogue import LANGUAGES, Catalogue, usual_language
from .lesson import Lesson
from .lines import BOLD, colour, columns, pad, unbroken, wrap
from .manifest import COURSE, lesson_numbered, place
from .progress import FILE, Progress
from .refusal import Refusal

FOLDER = "my_lessons"
LEAST = 20  # columns for what a command is for, beside it
Suggestion: TypeAlias = tuple[str, tuple[object, ...]]  # the id of what it is for, the words of the command


class State(enum.StrEnum):
    """How far a lesson is; the words for it are ``runner.state.…``."""

    OPEN = "open"
    STARTED = "started"
    PASSED = "passed"
    CHANGED = "changed"  # since it passed
    SKIPPED = "skipped"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every command takes."""
    parser.add_argument(
        "--folder", metavar="DIR", help=f"your files (default: {FOLDER}, here or in a folder above this one)"
    )
    parser.add_argument("--lang", choices=LANGUAGES, help="language, remembered (default: as LANG says)")


class Workspace:
    """The learner's folder and all that is known in it. Nothing is written before there is something to keep.

    say: the catalogue in the learner's language. file names and states are for a lesson or its broken twin.
    """

    def __init__(self, folder: str | None = None, language: str | None = None) -> None:
        self._named = folder
        self.folder = Path(folder).absolute() if folder else find_folder(Path.cwd())
        self.progress = Progress(self.folder)
        chosen = self.progress.language
        self.say = Catalogue(language or (chosen if chosen in LANGUAGES else None) or usual_language())
        self._language = language
        if language and self.progress.exists and language != chosen:
            try:
                with self.progress.change():
                    self.progress.language = language
            except Refusal:  # it holds for this time
                pass

    @classmethod
    def of(cls, args: argparse.Namespace) -> Workspace:
        """As the options say."""
        return cls(args.folder, args.lang)

    def need_own_folder(self) -> None:
        """Refuse to write into the course itself.

        Raises:
            Refusal: the folder is the course's.
        """
        if self.folder.resolve().is_relative_to(Path(__file__).resolve().parent):
            raise Refusal("runner.folder.ours", folder=str(self.folder))

    def open(self) -> None:
        """Make the folder and the file of progress, where they are missing.

        Raises:
            Refusal: the folder is the course's own, or cannot be written to.
        """
        self.need_own_folder()
        if not self.progress.exists:
            with self.progress.change():
                if self._language:
                    self.progress.language = self._language

    @property
    def is_new(self) -> bool:
        """Whether no lesson has been begun, the tour included; a page may have been read, or a language chosen."""
        begun = any(self.state(lesson) is not State.OPEN for lesson in COURSE)
        return not begun and self.current.number == 0

    @property
    def current(self) -> Lesson:
        """The lesson at which the learner is; the tour at first."""
        return next((lesson for lesson in COURSE if lesson.name == self.progress.current), COURSE[0])

    def lesson(self, text: str | None) -> Lesson:
        """The lesson that is meant by a number, a name, or a part of one; without a text the current one.

        Raises:
            Refusal: there is none, or there are several.
        """
        return self.current if text is None else find_lesson(text)

    def file(self, lesson: Lesson, broken: bool = False) -> Path:
        return self.folder / f"{lesson.folder}{'_broken' if broken else ''}.py"

    def shown(self, path: Path) -> str:
        """A path as one would type it here."""
        try:
            return str(path.relative_to(Path.cwd()))
        except ValueError:
            return str(path)

    def state(self, lesson: Lesson, broken: bool = False) -> State:
        record, file = self.progress.lesson(lesson.name, broken), self.file(lesson, broken)
        passed = self.progress.passed(lesson.name, broken)
        if passed is not None and (not passed or not file.exists() or digest(file) == passed):
            return State.PASSED
        if record.get("state") == State.SKIPPED:
            return State.SKIPPED
        if passed is not None:
            return State.CHANGED
        return State.STARTED if record.get("state") == State.STARTED or file.exists() else State.OPEN

    def has_passed(self, number: int) -> bool:
        """Whether it has ever passed."""
        return self.progress.passed(lesson_numbered(number).name) is not None

    def next(self, after: Lesson) -> Lesson | None:
        """The first lesson behind ``after`` that is still to do, else the first one before it."""
        order = [*COURSE[place(after) + 1 :], *COURSE[: place(after)]]
        todo = [lesson for lesson in order if self.state(lesson) not in (State.PASSED, State.SKIPPED)]
        return next((lesson for lesson in todo if lesson.number), None)

    def title(self, lesson: Lesson) -> str:
        return self.say(f"course.{lesson.number:02}.title")

    def command(self, *words: object) -> str:
        """What to type for a command of the course, in this folder."""
        folder = []
        if self._named and find_folder(Path.cwd()) != self.folder:
            folder = ["--folder", shlex.quote(self._named)]
        return " ".join(["python -m lessons", *map(str, words), *folder])

    def tell(self, id: str, /, **fields: object) -> None:
        """Print a sentence, in lines that fit; a field ``command`` is something to type, which no line may break."""
        whole = {name: unbroken(str(one)) if name == "command" else one for name, one in fields.items()}
        print("\n".join(wrap(self.say(id, **whole), columns())))

    def suggest(self, *commands: Suggestion) -> None:
        """Print commands to type, each with what it is for."""
        typed = [(self.command(*words), self.say(id)) for id, words in commands]
        width = max(cell_len(command) for command, _ in typed)
        room = columns() - width - 4
        for command, reason in typed:
            if room < LEAST:  # below each other
                print("\n".join([f"  {colour(command, BOLD)}", *wrap(reason, columns() - 6, " " * 6)]))
                continue
            first, *more = wrap(reason, room)
            print(f"  {colour(pad(command, width), BOLD)}  {first}")
            for line in more:
                print(" " * (width + 4) + line)


def find_folder(start: Path) -> Path:
    """The folder with the learner's files: in ``start`` or above it; where there is none yet, in ``start``."""
    for folder in (start, *start.parents):
        if folder.name == FOLDER and (folder / FILE).exists():
            return folder
        if (folder / FOLDER / FILE).exists():
            return folder / FOLDER
    return start / FOLDER


def find_lesson(text: str) -> Lesson:
    """By number (``4``, ``04``), name, file, or a part of the name that no other has.

    Raises:
        Refusal: there is none, or there are several.
    """
    wanted = Path(text).name.lower().replace("-", "_").removesuffix(".py").removesuffix("_broken")
    if wanted.isdecimal():
        found = [lesson for lesson in COURSE if len(wanted) < 10 and lesson.number == int(wanted)]
    else:
        found = [lesson for lesson in COURSE if wanted in (lesson.name, lesson.folder)]
        letters = any(one.isalpha() for one in wanted)
        found = found or [lesson for lesson in COURSE if letters and wanted in lesson.name]
    if len(found) == 1:
        return found[0]
    names = [f"{lesson.number} {lesson.name}" for lesson in found or COURSE]
    if found:
        raise Refusal("runner.lesson.several", asked=text, lessons=names)
    raise Refusal("runner.lesson.unknown", asked=text, last=COURSE[-1].number, lessons=names)


def add_lesson(parser: argparse.ArgumentParser) -> None:
    """The argument that names a lesson."""
    parser.add_argument("lesson", nargs="?", metavar="n", help="number or name (default: the current lesson)")


def digest(path: Path) -> str:
    """The sha256 of a file; empty if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
