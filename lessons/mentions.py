"""Ids in the code of the course against the English catalogue: none is missing, none is dead, and fields fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from .lesson import Lesson
from .manifest import COURSE
from .parity import ROOT, fields, read
from .reading import CHOICES, GRADES, SECTIONS
from .source import SHARED

_SPEAKERS = ("say", "tell", "Said", "Refusal", "Sentence")
_FILES = ("py", "toml", "html", "css", "js", "json")  # what looks like an id, but is a file
_PLACEHOLDER = re.compile(r"\{\{([\w.]+)\}\}")


@dataclass
class Mentions:
    """What code says: ids as they stand, patterns of ids that are put together, and with which fields ids are said."""

    ids: dict[str, str] = field(default_factory=dict)  # id → where
    patterns: dict[str, str] = field(default_factory=dict)  # regular expression → where
    given: list[tuple[str, set[str], str]] = field(default_factory=list)  # id, fields, where


def problems(root: Path = ROOT, course: tuple[Lesson, ...] = COURSE) -> list[str]:
    """What is wrong between the code in ``root`` and the catalogue there."""
    texts = read(root / "catalogue" / "en")
    known = {f"{name}.{id}": text for name, table in texts.items() for id, text in table.items()}
    found = mentions(root, frozenset(known))
    wrong = [f"{where}: there is no sentence {id}" for id, where in found.ids.items() if id not in known]
    wrong += [
        f"{where}: no sentence is like {pattern}"
        for pattern, where in found.patterns.items()
        if not any(re.fullmatch(pattern, id) for id in known)
    ]
    wrong += [
        f"{where}: {id} has no value for {', '.join(sorted(fields(known[id]) - given))}"
        for id, given, where in found.given
        if id in known and not fields(known[id]) <= given
    ]
    lessons = {lesson.table: lesson for lesson in course}
    every = "|".join(found.patterns) or "(?!)"
    wrong += [
        f"{id} is never said"
        for id in known
        if id.partition(".")[0] not in lessons and id not in found.ids and not re.fullmatch(every, id)
    ]
    for name, lesson in lessons.items():
        if name in texts:
            wrong += [f"{name}: {what}" for what in _lesson(lesson, texts[name], root)]
    return sorted(wrong)


def mentions(root: Path, known: Set[str]) -> Mentions:
    """Of all code and markup in ``root``, save the lessons' own; ``known``: the ids that there are."""
    found = Mentions()
    for path in sorted(root.rglob("*.py")):
        where = str(path.relative_to(root))
        if not where.startswith("course/"):
            tree = ast.parse(path.read_text("utf-8"))
            parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in ast.walk(tree):
                if node not in parts:
                    _look(node, known, where, found)
    for path in sorted([*root.glob("*.html"), *root.glob("course/*/*.py")]):
        for id in _PLACEHOLDER.findall(path.read_text("utf-8")):
            if _is_id(id, known):
                found.ids.setdefault(id, path.name)
    return found


def _look(node: ast.AST, known: Set[str], where: str, found: Mentions) -> None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_id(node.value, known):
        found.ids.setdefault(node.value, f"{where}:{node.lineno}")
    elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        start = str(node.values[0].value)
        if "." in start and _is_file(start.partition(".")[0], known):
            parts = (re.escape(str(one.value)) if isinstance(one, ast.Constant) else r"[\w.]+" for one in node.values)
            found.patterns.setdefault("".join(parts), f"{where}:{node.lineno}")
    elif isinstance(node, ast.Call) and node.args and _name(node.func) in _SPEAKERS:
        id, given = node.args[0], _given(node)
        if given is not None and isinstance(id, ast.Constant) and isinstance(id.value, str):
            found.given.append((id.value, given, f"{where}:{node.lineno}"))


def _is_id(text: str, known: Set[str]) -> bool:
    """An id that there is, or one of a file that there is."""
    words = text.split(".")
    looks = len(words) > 1 and words[-1] not in _FILES and all(re.fullmatch(r"\w+", word) for word in words)
    return text in known or (looks and _is_file(words[0], known))


def _is_file(word: str, known: Set[str]) -> bool:
    return any(id.startswith(f"{word}.") for id in known)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _given(call: ast.Call) -> set[str] | None:
    """The names of the fields, if the call shows all of them."""
    names = {keyword.arg for keyword in call.keywords}
    if None in names or len(call.args) > 2:
        return None
    if len(call.args) == 2:
        keys = call.args[1].keys if isinstance(call.args[1], ast.Dict) else [None]
        if not all(isinstance(key, ast.Constant) for key in keys):
            return None
        names |= {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return {name for name in names if name}


def _lesson(lesson: Lesson, texts: Mapping[str, str], root: Path) -> Iterator[str]:
    """A lesson's file has what pages and commands read, what its code has placeholders for, and nothing else."""
    from .markdown import figures_of, parse
    from .reading import facts_of

    placeholders = {
        key
        for path in sorted((root / "course" / lesson.folder).glob("*.py"))
        for key in _PLACEHOLDER.findall(path.read_text("utf-8"))
        if not key.startswith(SHARED)
    }
    needed = {*SECTIONS, *placeholders, "predict.question", "predict.unit", "predict.why"}
    needed |= {"twin.task"} if lesson.twin else set()
    for number in range(1, lesson.questions + 1):
        needed |= {f"quiz.{number}.{key}" for key in ("question", "a", "b", "right", "why")}
    functions = {key.rpartition(".")[0] for key in texts if key.startswith("hints.")}
    functions |= {"hints"} if lesson.checks and not functions else set()
    needed |= {f"{function}.{grade}" for function in functions for grade in GRADES}
    choices = {f"quiz.{number}.{letter}" for number in range(1, lesson.questions + 1) for letter in CHOICES}
    asked = 0
    while f"calculate.{asked + 1}.question" in texts:
        asked += 1
        needed |= {f"calculate.{asked}.{key}" for key in ("question", "unit", "why")}
    yield from (f"{key} is missing" for key in needed - texts.keys())
    yield from (f"{key} is never said" for key in texts.keys() - needed - choices - {"papers"})
    for number in range(1, lesson.questions + 1):
        if texts.get(f"quiz.{number}.right") not in (*CHOICES, None):
            yield f"quiz.{number}.right is none of {', '.join(CHOICES)}"
        elif f"quiz.{number}.{texts.get(f'quiz.{number}.right')}" not in texts:
            yield f"quiz.{number}.right names a choice that is not there"
    facts = facts_of(lesson)
    for key, text in texts.items():
        lacking = fields(text) - facts.keys()
        if lacking:
            yield f"{key} has no fact {', '.join(sorted(lacking))}"
    used = {name for text in texts.values() for name in figures_of(parse(text))}
    yield from (f"figure {name} is not in the manifest" for name in used - lesson.figures.keys())
    yield from (f"figure {name} is never shown" for name in lesson.figures.keys() - used)
