"""A learner's file: read, loaded, and its functions called, with everything that can go wrong there as a finding."""

from __future__ import annotations

import ast
import codecs
import difflib
import importlib.util
import io
import linecache
import sys
import tokenize
import traceback
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from .said import Finding, Said


@dataclass(frozen=True)
class Answer:
    """A learner's file that has been loaded. source: its text as it was then; it may have been saved anew since."""

    path: Path
    source: str
    module: ModuleType

    def function(self, name: str, others: Collection[str] = ()) -> Callable[..., Any] | Finding:
        """The function of that name, or why there is none. others: names that are not meant to be this one."""
        found = getattr(self.module, name, None)
        if found is None:
            own = [key for key, value in vars(self.module).items() if self._is_own(value) and key not in others]
            near = difflib.get_close_matches(name, own, n=1)
            fields = {"function": name, "file": self.path.name}
            said = Said("file.misnamed", {**fields, "near": near[0]}) if near else Said("file.missing", fields)
            return Finding(said, name)
        if not callable(found):
            kind = type(found).__name__
            return Finding(Said("file.no_function", {"function": name, "file": self.path.name, "kind": kind}), name)
        return found  # type: ignore[no-any-return]

    def _is_own(self, value: object) -> bool:
        return isinstance(value, FunctionType) and value.__module__ == self.module.__name__


def read_answer(path: Path) -> str | Finding:
    """The text of the file at ``path``: read once, so that all of a check is about the same.

    As Python reads it: in UTF-8, or in what a comment in its first two lines names (PEP 263).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        return Finding(Said("file.unreadable", {"file": path.name, "error": str(error)}))
    try:
        source = importlib.util.decode_source(data)
    except (SyntaxError, UnicodeError, LookupError):
        return Finding(_undecoded(path, data))
    if "\0" in source:
        return Finding(Said("file.null", {"file": path.name, "line": _line_of(data, data.find(b"\0"))}))
    return source


def _undecoded(path: Path, data: bytes) -> Said:
    """Why these bytes are no text."""
    fields: dict[str, object] = {"file": path.name}
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # those of UTF-32 begin so too
        return Said("file.utf16", fields)
    encoding, reason = "utf-8", ""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:  # of the comment, or the first two lines are no UTF-8
        reason = error.msg
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        return Said("file.encoding", {**fields, "encoding": encoding, "line": _line_of(data, error.start)})
    except LookupError as error:
        reason = str(error)
    return Said("file.coding", {**fields, "error": reason})


def _line_of(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1


def load_answer(path: Path, source: str) -> Answer | Finding:
    """Load ``source``, the text of ``path``: its top level runs, and can import what lies beside it."""
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last, so that no file of the learner's stands in front of another module
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Finding(_syntax(path, error))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    linecache.cache[str(path)] = len(source), None, source.splitlines(keepends=True), str(path)  # for tracebacks
    try:
        exec(code, module.__dict__)
    except BaseException as error:  # SystemExit too
        return Finding(
            Said("file.load", {"file": path.name, "error": describe(error)}), details=(own_lines(error, path),)
        )
    return Answer(path, source, module)


def unwritten(source: str, functions: Iterable[str]) -> dict[str, int]:
    """Those of ``functions`` that still raise NotImplementedError or do nothing → the line to write at."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    todo: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            raises = [one.lineno for one in node.body if isinstance(one, ast.Raise) and _is_todo(one)]
            if raises or all(_is_nothing(one) for one in node.body):
                todo[node.name] = raises[0] if raises else node.lineno
    return {name: todo[name] for name in functions if name in todo}


def used_by(source: str, functions: Collection[str]) -> dict[str, set[str]]:
    """Function → those of ``functions`` that its body names, directly or through one another."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    uses = {
        node.name: {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in functions} - {node.name}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    return {name: used | {far for near in used for far in uses.get(near, set())} for name, used in uses.items()}


def describe(error: BaseException) -> str:
    """``ValueError: no such chunk``, in one line."""
    return " ".join("".join(traceback.format_exception_only(error)).split())[:400]


def own_lines(error: BaseException, path: Path) -> str:
    """The traceback from the first line of the learner's file to the last; the error alone if it never gets there."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [i for i, frame in enumerate(frames) if frame.filename == str(path)]
    shown = traceback.format_list(frames[own[0] : own[-1] + 1]) if own else []
    return "".join([*shown, *traceback.format_exception_only(error)]).rstrip()


def _is_todo(node: ast.Raise) -> bool:
    name = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(name, ast.Name) and name.id == "NotImplementedError"


def _is_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _syntax(path: Path, error: Exception) -> Said:
    if not isinstance(error, SyntaxError):
        return Said("file.unreadable", {"file": path.name, "error": describe(error)})
    if not error.lineno:  # it is about the whole
        return Said("file.unreadable", {"file": path.name, "error": error.msg})
    line = (error.text or "").strip()
    return Said("file.syntax", {"file": path.name, "line": error.lineno, "error": error.msg, "text": line[:120]})
