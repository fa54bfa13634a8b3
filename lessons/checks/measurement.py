"""What a lesson measures once its functions are right: for information, with no verdict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..answer import Answer
from ..bounds import Bounds
from ..catalogue import Catalogue
from ..said import Finding, Passed, Said, Shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

WIDTH = 74  # columns of a table


class Measurement(ABC):
    """Something real beside what the learner's functions foretell."""

    @abstractmethod
    def shown(
        self, answer: Answer, say: Catalogue, ranks: tuple[int, ...] = ()
    ) -> Iterator[Said | Shown | Passed | Finding]:
        """Measure; whatever goes wrong is a sentence, too.

        Args:
            ranks: the largest of them, in place of its own number.
        """

    def bounds(self, usual: Bounds) -> Bounds:
        """What the child that checks may take, where this machine makes it need more than usual."""
        return usual


def table(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Lines of a table whose first row is its heading."""
    from rich.text import Text

    from ..text import table as lines_of

    cells: list[list[Text]] = [[Text(cell) for cell in row] for row in rows]
    return tuple(line.plain for line in lines_of(cells, [True] * len(rows[0]), WIDTH))
