"""What one device and its links do, one thing after another, on a clock without a unit."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from collectives.span import Span
    from sim.replay import Replay

    from ..catalogue import Catalogue


@dataclass(frozen=True)
class Timetable:
    """Rows of boxes. source: ``module:function``, which gives spans whose rank is their row. title, rows: ids."""

    source: str
    title: str
    rows: tuple[str, ...]

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from sim.draw.terminal import gantt

        from ..text import wrap

        replay = self._replay(say)
        _, *lines = gantt(replay, width).split("\n")  # which is cut where the line ends
        return [*wrap(Text(replay.title), width), Text(), *(Text.from_ansi(line) for line in lines)]

    def html(self, say: Catalogue) -> str:
        from sim.draw.chart import chart

        from .markup import inline

        return inline(chart(self._replay(say)))

    def _replay(self, say: Catalogue) -> Replay:
        from sim.replay import Replay

        from .markup import words_of

        module, _, function = self.source.partition(":")
        spans: Sequence[Span] = getattr(importlib.import_module(module), function)()
        return Replay(say(self.title), {}, [say(row) for row in self.rows], spans, unit="slots", words=words_of(say))
