"""Pipeline schedules on a clock, one below the other."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from sim.replay import Replay

    from ..catalogue import Catalogue

_FACTS = ("schedule", "bubble_fraction", "bubble_over_ideal", "messages", "peak_activations")


@dataclass(frozen=True)
class Pipelines:
    """Timelines of schedules, with what each rank holds; on a page each can be played. F takes one second, B two.

    chunks: of schedules that leave it open. p2p: a transfer, in units of a stage's F.
    """

    schedules: tuple[str, ...]
    ranks: int
    microbatches: int
    chunks: int | None = None
    p2p: float = 0.0

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from sim.draw.terminal import gantt

        from ..text import wrap

        lines: list[Text] = []
        for replay in self._replays(say):
            _, *drawn = gantt(replay, width).split("\n")  # its title is cut where the line ends
            lines += [Text()] * bool(lines)
            lines += [*wrap(Text(replay.title, "bold"), width), *(Text.from_ansi(line) for line in drawn)]
        return lines

    def html(self, say: Catalogue) -> str:
        from sim.draw.chart import chart
        from sim.draw.html import html

        from .markup import inline

        parts = []
        for replay in self._replays(say):
            page, title = escape(html(replay), quote=True), escape(replay.title)
            frame = f'<iframe sandbox="allow-scripts" loading="lazy" title="{title}" srcdoc="{page}"></iframe>'
            summary = escape(say("page.pipelines.replay", schedule=str(replay.facts["schedule"])))
            played = f'<details class="replay"><summary>{summary}</summary>{frame}</details>'
            parts.append(inline(chart(replay)) + played)
        return "".join(parts)

    def _replays(self, say: Catalogue) -> list[Replay]:
        from parallel.pipeline import find
        from sim.pipeline import Times, simulate
        from sim.pipeline_replay import replay

        from .markup import words_of

        words, found = words_of(say), []
        for name in self.schedules:
            schedule = find(name)
            chunks = self.chunks if schedule.flexible else None
            held = schedule.chunk_count(chunks)
            times = Times(held, 2 * held, held, self.p2p * held)
            drawn = replay(simulate(schedule, self.ranks, self.microbatches, chunks, times), words)
            found.append(dataclasses.replace(drawn, facts={key: drawn.facts[key] for key in _FACTS}))
        return found
