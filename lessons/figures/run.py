"""A schedule on the clock of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from sim.replay import Replay

    from ..catalogue import Catalogue

_FACTS = ("machine", "time_s", "lower_bound_s", "busbw", "bottleneck", "bottleneck_utilisation", "messages")


@dataclass(frozen=True)
class Run:
    """A timeline; on a page also the replay. machine: as for ``--machine``."""

    algorithm: str
    ranks: int
    collective: str = "all_reduce"
    nbytes: int = 1 << 20
    machine: str = "ring"

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from sim.draw.terminal import gantt

        from ..text import wrap

        replay = self._replay(say)
        _, *lines = gantt(replay, width).split("\n")  # which is cut where the line ends
        return [*wrap(Text(replay.title), width), Text(), *(Text.from_ansi(line) for line in lines)]

    def html(self, say: Catalogue) -> str:
        from sim.draw.chart import chart
        from sim.draw.html import html

        from .markup import inline

        replay = self._replay(say)
        page = escape(html(replay), quote=True)
        frame = (
            f'<iframe sandbox="allow-scripts" loading="lazy" title="{escape(replay.title)}" srcdoc="{page}"></iframe>'
        )
        summary = escape(say("page.run.replay"))
        return f'{inline(chart(replay))}<details class="replay"><summary>{summary}</summary>{frame}</details>'

    def _replay(self, say: Catalogue) -> Replay:
        from collectives.registry import find
        from sim.collective import simulate
        from sim.collective_replay import replay
        from sim.commands.outcome import facts
        from sim.presets import find_machine

        from .markup import words_of

        machine = find_machine(self.machine)
        network = machine.network(ranks=self.ranks)
        schedule = find(self.collective, self.algorithm)
        outcome = simulate(schedule, network, self.nbytes, machine.costs, events=True)
        shown = {key: value for key, value in facts(outcome, machine).items() if key in _FACTS}
        return replay(outcome, shown, words_of(say))
