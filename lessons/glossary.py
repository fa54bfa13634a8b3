"""The field's terms, and how a page links the first use of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it.token import Token

from .catalogue import Catalogue


@dataclass(frozen=True)
class Term:
    """text: Markdown. forms: how it stands in texts. others: phrases in which its word means something else."""

    id: str
    name: str
    text: str
    forms: tuple[str, ...]
    others: tuple[str, ...] = ()


def terms(say: Catalogue) -> list[Term]:
    """In the order of the catalogue. Of its forms, those that begin with ``!`` are no forms but the other phrases."""
    ids = dict.fromkeys(key.rpartition(".")[0] for key in Catalogue().table("glossary"))
    return [_term(id, say) for id in ids]


def _term(id: str, say: Catalogue) -> Term:
    forms = [form.strip() for form in say(f"glossary.{id}.forms").split("|")]
    return Term(
        id,
        say(f"glossary.{id}.name"),
        say(f"glossary.{id}.text"),
        tuple(form for form in forms if not form.startswith("!")),
        tuple(form[1:] for form in forms if form.startswith("!")),
    )


class Linker:
    """Turns the first use of each term into a link to it; remembers which ones were used.

    file: where the terms are explained, if it is another one.
    """

    def __init__(self, all_terms: Sequence[Term], file: str = "") -> None:
        self._file = file
        self._terms = {form: term for term in all_terms for form in term.forms}
        self.used: dict[str, Term] = {}
        others = [phrase for term in all_terms for phrase in term.others]
        forms = sorted([*self._terms, *others], key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_pattern, forms)) or r"(?!)")

    def link(self, tokens: Sequence[Token], titles: bool = False) -> None:
        """In paragraphs, lists and tables; not in headings, code, and what is a link already. titles: nor in what is
        emphasised."""
        inside = False
        for token in tokens:
            if token.type in ("heading_open", "heading_close", "th_open", "th_close"):
                inside = token.nesting == 1
            if token.type == "inline" and not inside:
                token.children = self._linked(token.children or [], titles)

    def _linked(self, children: Sequence[Token], titles: bool) -> list[Token]:
        linked: list[Token] = []
        closed = {"link_open", "link_close"} | ({"em_open", "em_close"} if titles else set())
        inside = 0
        for token in children:
            inside += token.nesting * (token.type in closed)
            linked += [token] if inside or token.type != "text" else self._split(token.content)
        return linked

    def _split(self, text: str) -> list[Token]:
        parts: list[Token] = []
        at = 0
        for match in self._pattern.finditer(text):
            spelt = (match[0], match[0].lower(), _first_lower(match[0]))
            term = next((self._terms[form] for form in spelt if form in self._terms), None)
            if term is None or term.id in self.used:
                continue
            self.used[term.id] = term
            title = term.text.replace("`", "")
            link = Token(
                "link_open", "a", 1, attrs={"href": f"{self._file}#term-{term.id}", "class": "term", "title": title}
            )
            parts += [_text(text[at : match.start()]), link, _text(match[0]), Token("link_close", "a", -1)]
            at = match.end()
        return [*parts, _text(text[at:])]


def _pattern(form: str) -> str:
    """The form as a word of its own; its first letter may be a capital. Chinese has no blanks between words."""
    exact = re.escape(form)
    if form[0].isascii() and form[0].islower():
        exact = f"[{form[0].upper()}{form[0]}]{re.escape(form[1:])}"
    before = r"(?<![A-Za-z0-9_-])" if re.match(r"\w", form[0]) and form[0].isascii() else ""
    after = r"(?![A-Za-z0-9_-])" if re.match(r"\w", form[-1]) and form[-1].isascii() else ""
    return before + exact + after


def _first_lower(form: str) -> str:
    return form[0].lower() + form[1:]


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)
