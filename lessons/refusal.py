"""What a command cannot do, in a sentence that says what to do instead."""

from __future__ import annotations

from .lines import unbroken
from .said import Said


class Refusal(Exception):
    """A wrong argument, or a folder that does not allow it. The command ends with status 2 and this sentence.

    A field ``command`` is something to type, which no line may break.
    """

    def __init__(self, id: str, /, **fields: object) -> None:
        super().__init__(id)
        self.said = Said(id, {name: unbroken(str(one)) if name == "command" else one for name, one in fields.items()})
