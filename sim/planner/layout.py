"""How a training step is split over GPUs.

GPUs = PP × DP × CP × TP. Neighbours in the innermost axis, TP, sit in one node, stages of the pipeline far apart::

    rank = ((pp · DP + dp) · CP + cp) · TP + tp

Experts are spread over the ranks of one stage: EP × ETP × (how many hold the same experts) = DP × CP × TP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .arithmetic import least, most, pick
from .precision import PRECISIONS, WIRES, Precision
from .transformer import Transformer

Recompute: TypeAlias = Literal["none", "selective", "full"]
RECOMPUTES = ("none", "selective", "full")
OFFLOADS = ("optimizer", "parameters", "activations")
ONE_CHUNK = ("naive", "gpipe", "1f1b", "zb-h1", "zb-h2")
LOOPED = ("interleaved", "looped")
VEE = ("zbv", "v-half", "v-min", "dualpipev")  # two chunks; the first rank has the first and the last
SCHEDULES = (*ONE_CHUNK, *LOOPED, *VEE)
LARGEST = 1 << 40


@dataclass(frozen=True)
class Layout:
    """One plan. Numbers may be numpy arrays; the rest is one choice.

    dp, pp, tp, cp, ep: ranks of data, pipeline, tensor, context and expert parallelism. etp: ranks over which an expert
    is split (0: TP). vpp: model chunks of a rank, for interleaved and looped. sp: sequence parallel, norms and dropout
    split over TP; regather: it keeps its share of an input and gathers it again in the backward (10 units of traffic a
    layer; without, 8 and more memory). zero: stage. microbatch: samples; global_batch: samples of a step over all ranks
    (0: four microbatches for each stage). recompute: nothing, the attention scores, or whole layers. flash: scores are
    never written to memory. schedule: of the pipeline. offload: what waits in host memory. overlap: gradients are
    reduced under the backward. wire: dtype in which gradients travel, if another. eager_loss: it is no kernel of its
    own, and keeps the log-softmax beside the logits.
    """

    dp: int = 1
    pp: int = 1
    tp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 0
    vpp: int = 1
    sp: bool = False
    regather: bool = True
    zero: int = 0
    microbatch: int = 1
    global_batch: int = 0
    recompute: Recompute = "none"
    flash: bool = True
    schedule: str = "1f1b"
    offload: tuple[str, ...] = ()
    precision: Precision = PRECISIONS["bf16"]
    overlap: bool = True
    wire: str = ""
    eager_loss: bool = False

    @property
    def wire_bytes(self) -> float:
        """Of a gradient element on its way."""
        return WIRES[self.wire] if self.wire else self.precision.state.gradients

    @property
    def gpus(self) -> int:
        return self.dp * self.pp * self.tp * self.cp

    @property
    def expert_tp(self) -> int:
        return self.tp if isinstance(self.etp, int) and self.etp == 0 else self.etp

    @property
    def replicas(self) -> int:
        """Ranks that hold the same parameters, over which ZeRO splits them: DP × CP."""
        return self.dp * self.cp

    @property
    def expert_replicas(self) -> int:
        """Ranks that hold the same experts."""
        return self.dp * self.cp * self.tp // (self.ep * self.expert_tp)

    @property
    def microbatches(self) -> int:
        """Of a rank, in a step."""
        if isinstance(self.global_batch, int) and self.global_batch == 0:
            return pick(self.pp > 1, 4 * self.pp, 1)
        return self.global_batch // (self.dp * self.microbatch)

    @property
    def samples(self) -> int:
        """The global batch."""
        return self.microbatches * self.dp * self.microbatch

    @property
    def chunks(self) -> int:
        """Model chunks of a rank."""
        return 2 if self.schedule in VEE else self.vpp

    @property
    def sequence_ranks(self) -> int:
        """Ranks over which what is between the split matrices is split: TP with sequence parallelism, otherwise 1."""
        return self.tp if self.sp else 1

    def is_first(self, stage: int) -> bool:
        """Whether the rank of this stage has the embedding."""
        return stage == 0

    def is_last(self, stage: int) -> bool:
        """Whether it has the output."""
        return stage == (0 if self.schedule in VEE else self.pp - 1)

    def layers_of(self, model: Transformer, stage: int) -> tuple[int, int]:
        """Layers of a stage, and how many of them keep an MLP in a model of experts.

        Each of V = PP · chunks virtual stages has ⌊layers / V⌋ of them. What is left goes, one each, to those in the
        middle and then to the first: it has the embedding besides, and the last has the output.
        """
        virtual = self.pp * self.chunks
        base, more = model.layers // virtual, model.layers % virtual
        middle, front = least(more, most(virtual - 2, 0)), (more > 0) * (more == virtual - 1)

        def size(i: int) -> int:
            return base + (i >= 1) * (i <= middle) + (i == 0) * front

        def start(i: int) -> int:
            return i * base + least(most(i - 1, 0), middle) + (i > 0) * front

        def dense(i: int) -> int:
            return most(least(model.dense_layers - start(i), size(i)), 0)

        if self.schedule in VEE:
            mirror = virtual - 1 - stage
            return size(stage) + size(mirror), dense(stage) + dense(mirror)
        extra = (middle - stage + self.pp) // self.pp - (stage == 0) * (1 - front)
        few = sum((chunk < self.chunks) * dense(chunk * self.pp + stage) for chunk in range(model.dense_layers))
        return base * self.chunks + extra, few

    def in_flight(self, stage: int) -> float:
        """Microbatches, counted in whole stages, whose activations a rank holds at most.

        The same as what the schedules themselves hold when simulated; for v-half and v-min an upper bound.
        """
        p, m, v = self.pp, self.microbatches, self.vpp
        if self.schedule == "naive":
            return least(m, 1)
        if self.schedule in ("gpipe", "looped"):
            return m
        if self.schedule == "interleaved":
            return least((2 * (p - stage - 1) + (v - 1) * p + 1) / v, m)
        held = {
            "1f1b": p - stage, "zb-h1": p, "zb-h2": 2 * p - 1, "zbv": p,
            "v-half": p / 2 + 1.5, "v-min": (p + 4) / 3, "dualpipev": p + 0.5,
        }[self.schedule]  # fmt: skip
        return least(held, m)
