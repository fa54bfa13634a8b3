"""The backward pass of a GPT on one rank, and its buckets on their way, for several sizes of buckets on one clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from collectives.cost import Machine
    from collectives.span import Span
    from sim.replay import Replay

    from ..catalogue import Catalogue

EACH, ALL = 0, 1 << 40  # limits: every parameter alone, and all in one bucket
_FP32 = 4


@dataclass(frozen=True)
class Backward:
    """Gradients of a GPT in fp32, all-reduced over a ring of ranks. limits: bytes of a bucket, a row each.

    rows: of a rank; share: of the chip's peak that its matrices reach; alpha, bandwidth: of a link.
    """

    limits: tuple[int, ...] = (EACH, 25 << 20, ALL)
    ranks: int = 16
    rows: int = 8
    model: str = "gpt2"
    chip: str = "a100"
    share: float = 0.5
    alpha: float = 10e-6
    bandwidth: float = 25e9

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
        from collectives.cost import Machine

        return Machine(self.alpha, 1 / self.bandwidth)

    def cost(self, nbytes: float) -> float:
        """Seconds of one all-reduce."""
        from collectives.cost import predict
        from collectives.registry import find

        return predict(find("all_reduce", "ring"), self.ranks, nbytes, self.link)

    def parameters(self) -> tuple[list[int], list[float]]:
        """Bytes of each parameter's gradient, and its seconds of the backward pass, in the order of the forward.

        The matrix of the embedding is also that of the logits: their part of the backward comes first, with the last
        norm's, but its gradient is complete only when the embedding's part has been added, at the very end.
        """
        from parallel.expectations import tensors
        from sim.chip import CHIPS
        from sim.planner.flops import BACKWARD, forward
        from sim.planner.models import MODELS

        model = MODELS[self.model]
        shape: Any = SimpleNamespace(hidden=model.hidden, vocabulary=model.vocab, positions=model.positions)
        block, (words, positions, scale, shift) = tensors(shape)
        sizes = [words, positions, *block * model.layers, scale, shift]
        speed = self.share * CHIPS[self.chip].speed("tf32") / BACKWARD
        flops = forward(model, self.rows)
        inside = [2 * self.rows * model.sequence * one if one >= model.hidden**2 else 0 for one in block]
        inside[2] += (flops["scores"] + flops["values"]) // model.layers  # attention itself, before queries and keys
        work = [0, 0, *inside * model.layers, 0, flops["logits"]]
        return [_FP32 * one for one in sizes], [one / speed for one in work]

    def spans(self, limit: int) -> list[Span]:
        from sim.data_parallel import bucketed

        sizes, seconds = self.parameters()
        return bucketed(seconds, sizes, limit, self.cost)

    def end(self, limit: int) -> float:
        """When the last gradient has been averaged, in seconds."""
        return max(span.end for span in self.spans(limit))

    def _by_layer(self, spans: list[Span]) -> list[Span]:
        """Parts of the backward pass named after their layer, without those that take no time."""
        from sim.planner.models import MODELS

        count, found = len(self.parameters()[0]), []
        inside = (count - 4) // MODELS[self.model].layers
        for span in spans:
            word, number = span.name.split()
            if word == "backward":
                place = int(number)
                layer = "head" if place >= count - 2 else str((place - 2) // inside)
                span = replace(span, name=f"backward {layer}")
            if span.end > span.start:
                found.append(span)
        return found

    def _replay(self, say: Catalogue) -> Replay:
        from sim.replay import Replay
        from sim.units import show_bytes, show_time

        from .markup import words_of

        spans = [
            replace(span, rank=row)
            for row, limit in enumerate(self.limits)
            for span in _joined(self._by_layer(self.spans(limit)))
        ]
        known = {EACH: say("page.backward.each"), ALL: say("page.backward.all")}
        names = [known.get(limit) or show_bytes(limit) for limit in self.limits]
        fields = {"model": self.model, "ranks": self.ranks, "best": show_time(min(map(self.end, self.limits)))}
        return Replay(say("page.backward.title", **fields), {}, names, spans, words=words_of(say))


def _joined(spans: list[Span]) -> list[Span]:
    """Neighbours in one box: parts of the same layer, and messages back to back that are too short to be seen."""
    shortest = max(span.end for span in spans) / 40
    found: list[Span] = []
    for span in spans:
        last = found[-1] if found else span
        short = span.stream == "link" and max(span.end - span.start, last.end - last.start) < shortest
        back_to_back = (last.stream, last.end) == (span.stream, span.start)
        if back_to_back and (short or (span.stream == "backward" and last.name == span.name)):
            name = f"{last.name.partition('-')[0]}-{span.name.split()[-1]}" if short else span.name
            found[-1] = replace(last, end=span.end, name=name, bytes=last.bytes + span.bytes)
        else:
            found.append(span)
    return found
