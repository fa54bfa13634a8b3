"""What the learner has done: ``progress.json`` beside their files, readable, and safe from two commands at once."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from collectives.atomic import write_text

from .manifest import COURSE
from .refusal import Refusal
from .said import Said

VERSION = 1
FILE = "progress.json"
_PATIENCE = (
    5.0  # seconds for another command to write; then we write without its leave, and whole files at least stay whole
)


class Progress:
    """The file of one folder. What other versions of the course wrote there is kept.

    notes: what happened when it was read, to be said to the learner. exists: there was one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / FILE
        self.notes: list[Said] = []
        self.exists = False
        self._data: dict[str, Any] = {}
        self._newer = False
        if not self._read():
            self._mend()

    @property
    def language(self) -> str | None:
        """The language that the learner has chosen."""
        return self._data.get("language")

    @language.setter
    def language(self, language: str) -> None:
        self._data["language"] = language

    @property
    def current(self) -> str | None:
        """The name of the current lesson."""
        return self._data.get("current")

    @current.setter
    def current(self, name: str) -> None:
        self._data["current"] = name

    def lesson(self, name: str, broken: bool = False) -> dict[str, Any]:
        """What is known of a lesson (or of its broken twin). To write to it, be in ``change``.

        ``state``; ``passed``: ``sha256`` and ``when``; ``hints``: how many were given; ``solution_seen``; ``quiz``,
        with the ``answers``; ``measured``: what the check has shown.
        """
        found: dict[str, Any] = self._data.setdefault("lessons", {}).setdefault(name, {})
        return found.setdefault("broken", {}) if broken else found

    def passed(self, name: str, broken: bool = False) -> str | None:
        """The sha256 of the file that passed; empty for a lesson that has no file."""
        found = self.lesson(name, broken).get("passed")
        return found.get("sha256", "") if found else None

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Write what is changed inside, upon what another command may have written meanwhile.

        Raises:
            Refusal: the folder cannot be written to, or the file is of a newer version of the course.
        """
        if self.folder.resolve().is_relative_to(Path(__file__).resolve().parent):
            raise Refusal("runner.folder.ours", folder=str(self.folder))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with _alone(self.folder):
                if not self._read():
                    self._set_aside()
                if self._newer:
                    raise Refusal("runner.progress.newer", file=str(self.path), version=self._data["version"])
                yield
                self._write()
        except OSError as error:
            reason = error.strerror or str(error)
            raise Refusal("runner.folder.unwritable", folder=str(self.folder), error=reason) from None

    def _write(self) -> None:
        for record in self._data.get("lessons", {}).values():
            if not record.get("broken", True):
                del record["broken"]
        self._data["lessons"] = {name: record for name, record in self._data.get("lessons", {}).items() if record}
        self._data = {"version": VERSION, **self._data}
        write_text(self.path, json.dumps(self._data, indent=1, ensure_ascii=False) + "\n")
        self.exists = True

    def _read(self) -> bool:
        """Take over what the file says; False if it is damaged."""
        if self.path.exists() and not self.path.is_file():  # a folder, or a pipe that would never end
            return False
        try:
            text = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError as error:
            reason = error.strerror or str(error)
            raise Refusal("runner.progress.unreadable", file=str(self.path), error=reason) from None
        self.exists = True
        try:
            data = json.loads(text.decode("utf-8-sig"))
            _examine(data)
        except (ValueError, RecursionError):
            return False
        self._data, self._newer = data, data["version"] > VERSION
        if self._newer and not self.notes:
            self.notes.append(Said("runner.progress.newer", {"file": str(self.path), "version": data["version"]}))
        return True

    def _mend(self) -> None:
        try:
            with _alone(self.folder):
                if not self._read():  # another command may have been faster
                    self._set_aside()
        except OSError as error:  # a folder that can only be read: go on with what it shows
            reason = error.strerror or str(error)
            self.notes.append(Said("runner.progress.damaged_stays", {"file": str(self.path), "error": reason}))

    def _set_aside(self) -> None:
        """The damaged file gets another name, and a new one says what the folder shows."""
        here = [lesson for lesson in COURSE if (self.folder / f"{lesson.folder}.py").exists()]
        if not self._data.get("lessons"):  # else it was whole when it was read first, and is written again
            self._data = {"lessons": {lesson.name: {"state": "started"} for lesson in here}}
            if here:
                self.current = here[-1].name
        stem = f"progress.damaged-{datetime.now():%Y%m%d-%H%M%S}"
        aside = next(
            path
            for number in range(1000)
            if not (path := self.folder / f"{stem}{f'-{number}' if number else ''}.json").exists()
        )
        self.path.rename(aside)
        self._write()
        fields = {"file": str(self.path), "aside": aside.name, "lessons": [str(lesson.number) for lesson in here]}
        self.notes.append(Said("runner.progress.damaged_files" if here else "runner.progress.damaged", fields))


def now() -> str:
    """The time as the file has it: of this place, to the second."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _examine(data: Any) -> None:
    """Refuse what we would stumble over later.

    Raises:
        ValueError: something that we read has another type than we write.
    """

    def need(value: object, kind: type | tuple[type, ...]) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise ValueError(f"{value!r} is no {kind}")
        return value

    need(data, dict)
    json.dumps(data, ensure_ascii=False).encode()  # could be written again
    if need(data.get("version"), int) < 1:
        raise ValueError("version")
    for name in ("language", "current"):
        need(data.get(name), (str, type(None)))
    for record in need(data.get("lessons", {}), dict).values():
        for half in (need(record, dict), need(record.get("broken", {}), dict)):
            need(half.get("state", ""), str)
            if need(half.get("hints", 0), int) < 0:
                raise ValueError("hints")
            need(half.get("solution_seen", False), bool)
            for answer in need(need(half.get("quiz", {}), dict).get("answers", {}), dict).values():
                need(need(answer, dict).get("answer"), str), need(answer.get("right"), bool)
            for shown in need(half.get("measured", []), list):
                need(need(shown, dict).get("text"), str), need(shown.get("numbers"), dict)
                for line in need(shown.get("lines"), list):
                    need(line, str)
            need(need(half.get("passed", {}), dict).get("sha256", ""), str)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One command at a time; the system lets go of a lock whose holder has died."""
    with open(folder / ".progress.lock", "a") as file:
        until = time.monotonic() + _PATIENCE
        while not _lock(file.fileno()) and time.monotonic() < until:
            time.sleep(0.02)
        yield


def _lock(number: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
