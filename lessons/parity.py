"""Two proofs about texts: a language says what English says, and English says no number that the library does not know.

What is compared is what a translation must not change: ids, fields, structure, code, figures, numerals.
"""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from markdown_it.token import Token

from .catalogue import flat
from .lesson import Lesson
from .markdown import figures_of, parse

ROOT = Path(__file__).parent
# Words of English that other languages keep: names, and terms that their own texts write so.
KEPT = frozenset(
    [
        "algbw",
        "busbw",
        "gloo",
        "logit",
        "logits",
        "nccl",
        "null",
        "of",
        "out",
        "rank",
        "ranks",
        "ratio",
        "recv",
        "ring",
        "scr",
        "send",
        "torchrun",
        "wire",
    ]
)
Texts = Mapping[str, Mapping[str, str]]  # file → id in it → text


def problems(language: str, catalogue: Path = ROOT / "catalogue", spoken: Texts | None = None) -> list[str]:
    """What is wrong with a language's catalogue beside the English one.

    Args:
        spoken: English that is in the code and not in files, by the file that other languages have it in.
    """
    english = {**read(catalogue / "en"), **(spoken_in_code() if spoken is None else spoken)}
    other = read(catalogue / language)
    found = [f"{language}/{name}.toml is missing" for name in english.keys() - other.keys()]
    found += [f"{language}/{name}.toml has no English twin" for name in other.keys() - english.keys()]
    for name in english.keys() & other.keys():
        mine, theirs = english[name], other[name]
        found += [f"{language}: {name}.{id} is missing" for id in mine.keys() - theirs.keys()]
        found += [f"{language}: {name}.{id} is not in English" for id in theirs.keys() - mine.keys()]
        for id in mine.keys() & theirs.keys() - {"papers"}:  # titles stay in their own language
            found += [f"{language}: {name}.{id}: {what}" for what in _differences(mine[id], theirs[id])]
    return sorted(found)


def numbers(lesson: Lesson, catalogue: Path = ROOT / "catalogue") -> list[str]:
    """The numbers in a lesson's English prose that are written down, where they should be fields from ``facts.py``.

    Allowed are formulas, names, years, and counts below 10.
    """
    texts = read(catalogue / "en").get(lesson.table, {})
    return [
        f"{lesson.table}.{id}: {literal}"
        for id, text in texts.items()
        if not id.startswith(("stub.", "solution.", "broken.", "papers"))
        for literal in literals(text)
    ]


def literals(text: str) -> Iterator[str]:
    """Numbers in prose that stand for themselves."""
    for word in prose(text).split():
        for part in re.split(r"(?<=\d)[-–](?=\d|[a-z])", word.strip("([\"'“”)].,;:!?")):
            number = re.fullmatch(r"\d+(?:[.,]\d+)*(?:%|×|[KMGT]i?B?|B|[num]?s|GB/s)?", part)
            if number and not re.fullmatch(r"\d|(19|20)\d\d", part):
                yield part


def spoken_in_code() -> Texts:
    """The sentences of ``collectives``, and the words of ``sim``."""
    import collectives
    from sim.words import ENGLISH

    return {"collectives": dict(sentences(Path(collectives.__file__).parent)), "sim": ENGLISH}


def sentences(folder: Path) -> Iterator[tuple[str, str]]:
    """Every ``Sentence("id", "template", …)`` in the code of a folder."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Sentence":
                said = [str(one.value) for one in node.args[:2] if isinstance(one, ast.Constant)]
                if len(said) == 2:
                    yield said[0], said[1]


def read(folder: Path) -> dict[str, dict[str, str]]:
    return {path.stem: dict(flat(tomllib.loads(path.read_text("utf-8")))) for path in sorted(folder.glob("*.toml"))}


def fields(template: str) -> set[str]:
    return {re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(template) if name}


def prose(text: str) -> str:
    """What is left of Markdown without code; fields are dots, so that what they are part of stays one word."""
    words = []
    for token in _flat(parse(_without_fields(text))):
        if token.type in ("text", "softbreak", "image"):
            words.append(token.content or " ")
        elif token.type in ("code_inline", "inline", "fence"):
            words.append(" ")
    return "".join(words)


def _differences(english: str, other: str) -> Iterator[str]:
    try:
        mine, theirs = fields(english), fields(other)
    except ValueError as error:
        yield f"its braces cannot be read ({error})"
        return
    if mine != theirs:
        yield f"fields {_listed(theirs)} where English has {_listed(mine)}"
    for what, compare in (("structure", _structure), ("code", _code), ("figures", _figures), ("numerals", _numerals)):
        one, two = compare(english), compare(other)
        if one != two:
            yield f"{what} {_listed(two)} where English has {_listed(one)}"
    stars = re.search(r"\*\*\S.{0,19}", prose(other))
    if stars:
        yield f"stars that make nothing bold (a full stop before the closing ones?): {stars[0]!r}"
    left = list(_left(english, other))
    if left:
        yield f"still English: {left[0]!r}"


def _structure(text: str) -> list[str]:
    """Headings, and tables with the number of their rows and columns."""
    tokens = parse(_without_fields(text))
    kinds = Counter(token.type for token in tokens)
    found = [f"{kinds['heading_open']} headings"] * bool(kinds["heading_open"])
    if kinds["table_open"]:
        cells = kinds["th_open"] + kinds["td_open"]
        found.append(f"{kinds['table_open']} tables, {kinds['tr_open']} rows, {cells} cells")
    return found


def _code(text: str) -> list[str]:
    """Blocks in their order, without comments, then what is code inside of lines, in any order.

    Of a block of ``text``, a formula with words in it, only the symbols.
    """
    tokens = list(_flat(parse(text)))
    blocks = [token for token in tokens if token.type == "fence"]
    bare = [_symbols(block.content) if block.info == "text" else _uncommented(block.content) for block in blocks]
    return bare + sorted({token.content for token in tokens if token.type == "code_inline"})


def _symbols(formula: str) -> str:
    """Numbers, operators and variables of one letter, in any order: languages order words differently."""
    rest = re.sub(r"[\u3000-\u9fff\uff00-\uffef]|[^\W\d_]{2,}|\s|-(?=[^\W\d_]{2})", "", formula)
    return "".join(sorted(rest))


def _uncommented(block: str) -> str:
    return "\n".join(re.sub(r"(^|\s)#.*", "", line).rstrip() for line in block.split("\n"))


def _figures(text: str) -> list[str]:
    return figures_of(parse(text))


def _numerals(text: str) -> list[str]:
    return sorted(re.findall(r"[0-9]+(?:\.[0-9]+)*", prose(text)))


def _left(english: str, other: str) -> Iterator[str]:
    """Sentences of English that stand in the other language as they are."""
    text = prose(other)
    for sentence in re.split(r"(?<=[.:;?!])\s+|\n", prose(english)):
        words = re.findall(r"[A-Za-z]+(?:-[A-Za-z]+)*", sentence)
        words = [word for word in words if word.islower() and word not in KEPT]
        whole = prose(english).strip() == text.strip() and any(len(word) > 2 for word in words)  # a unit may be alike
        if words and not sentence.startswith("python -m ") and sentence.strip() in text and (whole or len(words) >= 3):
            yield sentence.strip()


def _without_fields(text: str) -> str:
    """``{name}`` is a dot, ``{{`` a brace."""
    return re.sub(r"\{\{|\}\}|\{[^{}]*\}", lambda match: match[0][0] if match[0] in ("{{", "}}") else "•", text)


def _flat(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _listed(items: Iterable[Any]) -> str:
    return ", ".join(map(repr, sorted(map(str, items)))) or "none"
