"""What is measured once all functions are right, and said beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..answer import Answer, describe
from ..catalogue import Catalogue
from ..said import Finding, Passed, Said, Shown

WIDTH = 74  # columns of a table


class Shows:
    """Measures on this machine. A machine that is busy fails nobody: times are shown, and never judged."""

    def shown(
        self, answer: Answer, say: Catalogue, ranks: tuple[int, ...] = ()
    ) -> Iterator[Said | Shown | Passed | Finding]:
        """Measure; whatever goes wrong is a sentence, too.

        Args:
            ranks: asked for, in place of our own number.
        """
        from collectives.launch import RankFailed, RankTimeout

        try:
            yield from self.measure(answer, say, ranks)
        except RankTimeout as error:
            yield Shown(Said("measured.late", {"seconds": f"{error.timeout:g}"}))
        except RankFailed as error:
            yield Shown(Said("measured.failed", {"error": str(error).splitlines()[0]}))
        except Exception as error:
            yield Shown(Said("measured.failed", {"error": describe(error)}))

    def measure(
        self, answer: Answer, say: Catalogue, ranks: tuple[int, ...]
    ) -> Iterator[Said | Shown | Passed | Finding]:
        """What begins, and what came of it; may raise anything."""
        raise NotImplementedError


def table(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Lines of a table, the first row its head; numbers to the right."""
    from rich.text import Text

    from ..text import table as laid_out

    cells: list[list[Text]] = [[Text(cell) for cell in row] for row in rows]
    return tuple(line.plain for line in laid_out(cells, [True] * len(rows[0]), WIDTH))
