"""One step of the same model by threads and by processes, on one clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from collectives.cost import Machine
    from collectives.span import Span
    from sim.data_parallel import Step
    from sim.replay import Replay

    from ..catalogue import Catalogue

FORMS = ("threads", "processes")
_FP32, _ADAM = 4, 28  # bytes of an element; of memory that Adam reads and writes for one: w, g, m, v, and w, m, v


@dataclass(frozen=True)
class Replicas:
    """A GPT in fp32 on some GPUs behind one port each. rows: of a GPU; share: of the peak that it reaches."""

    gpus: int
    rows: int
    model: str = "gpt2"
    chip: str = "a100"
    share: float = 0.5

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from sim.draw.terminal import gantt

        from ..text import wrap

        replay = self._replay(say)
        _, *lines = gantt(replay, width).split("\n")
        return [*wrap(Text(replay.title), width), Text(), *(Text.from_ansi(line) for line in lines)]

    def html(self, say: Catalogue) -> str:
        from sim.draw.chart import chart

        from .markup import inline

        return inline(chart(self._replay(say)))

    @property
    def link(self) -> Machine:
        """A port of 50 GB/s, as in lesson 3."""
        from collectives.cost import Machine
        from sim.presets import find_machine

        network = find_machine("switch").network(ranks=self.gpus)
        return Machine(alpha=0.0, beta=1 / network.capacity[0])

    def step(self) -> Step:
        from sim.chip import CHIPS
        from sim.data_parallel import Step
        from sim.planner.flops import BACKWARD, forward
        from sim.planner.models import MODELS
        from sim.planner.parameters import total

        model, chip = MODELS[self.model], CHIPS[self.chip]
        tokens = self.gpus * self.rows * model.sequence
        seconds = sum(forward(model, self.rows).values()) / (self.share * chip.speed("tf32"))
        return Step(
            model=_FP32 * total(model),
            inputs=8 * tokens,  # torch.int64
            outputs=_FP32 * tokens * model.vocab,
            forward=seconds,
            backward=BACKWARD * seconds,
            update=_ADAM * total(model) / chip.bandwidth,
        )

    def spans(self, form: str) -> list[Span]:
        from sim.data_parallel import processes, threads

        return {"threads": threads, "processes": processes}[form](self.step(), self.gpus, self.link)

    def _replay(self, say: Catalogue) -> Replay:
        """Threads above, processes below."""
        from sim.replay import Replay
        from sim.units import show_time

        from .markup import words_of

        both = {form: self.spans(form) for form in FORMS}
        names = [say(f"page.replicas.{form}", device=device) for form in FORMS for device in range(self.gpus)]
        times = {form: show_time(max(span.end for span in spans)) for form, spans in both.items()}
        spans = [
            replace(span, rank=span.rank + self.gpus * place) for place, form in enumerate(FORMS) for span in both[form]
        ]
        return Replay(say("page.replicas.title", **times), {}, names, spans, words=words_of(say))
