"""A sentence for people that knows which one it is, so that it can be said in another language too."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Self


class Sentence(str):
    """The English text, and what it was made of.

    Written ``Sentence("proof.twice", "rank {rank} counts … twice", rank=3, counted=(0, 2))``. A field may be a sentence
    itself; a tuple or list is joined by ``", "``. Fields that the template does not name are for readers of ``fields``.

    id: dotted words; of each there is one in the source, with one template, so that a tool can collect them.
    template: English, with ``{field}`` for each value, as for ``str.format``.
    fields: name → int, str, None, sentence, or a tuple of them.
    """

    __slots__ = ("fields", "id", "template")

    id: str
    template: str
    fields: Mapping[str, Any]

    def __new__(cls, id: str, template: str, /, **fields: Any) -> Self:
        self = super().__new__(cls, _fill(template, fields, {}, ", "))
        self.id, self.template, self.fields = id, template, fields
        return self

    def said_with(self, templates: Mapping[str, str], separator: str = ", ") -> str:
        """The same with ``templates[id]`` in place of the English one, where there is one; nested sentences likewise.

        Raises:
            KeyError: a template names a field that the sentence does not have.
        """
        return _fill(templates.get(self.id, self.template), self.fields, templates, separator)

    def __reduce__(self) -> tuple[functools.partial[Self], tuple[()]]:
        return functools.partial(type(self), self.id, self.template, **self.fields), ()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Any:
        """The ``object_hook`` that reads what :func:`to_json` made; other objects stay as they are."""
        if data.keys() != {"id", "template", "fields"}:
            return data
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in data["fields"].items()}
        return cls(data["id"], data["template"], **fields)


def sentence_of(error: BaseException) -> Sentence | None:
    """The sentence that an error was raised with; None if it has none."""
    return next((said for said in error.args if isinstance(said, Sentence)), None)


def to_json(value: object) -> object:
    """A sentence as an object of ``id``, ``template`` and ``fields``, nested ones too; all else as it is."""
    if isinstance(value, Sentence):
        fields = {name: to_json(field) for name, field in value.fields.items()}
        return {"id": value.id, "template": value.template, "fields": fields}
    return [to_json(one) for one in value] if isinstance(value, (tuple, list)) else value


def _fill(template: str, fields: Mapping[str, object], templates: Mapping[str, str], separator: str) -> str:
    def shown(value: object) -> str:
        if isinstance(value, Sentence):
            return value.said_with(templates, separator)
        return separator.join(map(shown, value)) if isinstance(value, (tuple, list)) else str(value)

    return template.format_map({name: shown(value) for name, value in fields.items()})
