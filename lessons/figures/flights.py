"""The flight records of all ranks beside each other: who called what, and how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue

_SIGNS = {"done": "✓", "started": "…", "queued": "·", "failed": "✗"}


@dataclass(frozen=True)
class Flights:
    """A row a rank, a column an operation of a group. name: of the records in ``checks.references.hangs``."""

    name: str

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from ..text import table, wrap

        head, *rows = self._rows(say)
        cells = [[Text(cell, "bold") for cell in head], *([Text(cell) for cell in row] for row in rows)]
        return [
            *table(cells, [False] * len(head), width),
            Text(),
            *wrap(Text(say("page.flights.legend"), "dim"), width),
        ]

    def html(self, say: Catalogue) -> str:
        head, *rows = self._rows(say)
        heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
        body = "".join(
            f'<tr><th scope="row">{escape(row[0])}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in rows
        )
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        legend = escape(say("page.flights.legend"))
        return f'<div class="paper scroll" tabindex="0">{table}</div><p class="note">{legend}</p>'

    def _rows(self, say: Catalogue) -> list[list[str]]:
        records = self._records()
        places = sorted({(one["group"], one["seq"]) for record in records for one in record["operations"]})
        heads = [say("page.flights.operation", group=group, seq=seq) for group, seq in places]
        rows = [["", *heads]]
        for record in records:
            cells = {(one["group"], one["seq"]): one for one in record["operations"]}
            rows.append(
                [
                    say("page.flights.rank", rank=record["rank"]),
                    *(_cell(cells[place]) if place in cells else "" for place in places),
                ]
            )
        return rows

    def _records(self) -> Sequence[dict[str, Any]]:
        from ..checks.references.hangs import EXAMPLES

        return next(records for records in EXAMPLES if records.name == self.name)


def _cell(operation: dict[str, Any]) -> str:
    """``✓ all_reduce of 8``: how it stands, and the first words of what was called."""
    return f"{_SIGNS[operation['state']]} {' '.join(operation['said'].split()[:3])}"
