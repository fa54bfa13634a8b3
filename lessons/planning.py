"""What lessons 26 and 32 plan with: a model, a way to split it, the machines, a run; each as a few numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A transformer in training. sequence: tokens of a sample; batch: samples of a step, over all GPUs."""

    parameters: int
    layers: int
    hidden: int
    sequence: int
    batch: int


@dataclass(frozen=True)
class Plan:
    """dp · pp · tp GPUs. zero: stage, 0 without; recompute: layers keep their input only.

    Microbatches of one sample, 1F1B, tensor parallelism with sequence parallelism, 16 bits with fp32 masters and Adam.
    """

    dp: int = 1
    pp: int = 1
    tp: int = 1
    zero: int = 0
    recompute: bool = False


@dataclass(frozen=True)
class Cluster:
    """gpus: in all; local: of a machine. memory: bytes that a plan may fill; flops: that a GPU reaches a second.
    nvlink, nic: bytes a second that a GPU sends inside its machine, and to others."""

    gpus: int
    local: int
    memory: float
    flops: float
    nvlink: float
    nic: float


@dataclass(frozen=True)
class Run:
    """A GPT in training: ``layers`` blocks of width ``hidden``, learned ``positions``, a head tied to the embedding.

    dp · pp · tp ranks, 1F1B, no ZeRO. batch: rows of all ranks, of ``sequence`` tokens; microbatches: of a replica. All
    in fp32: 4 bytes an element.
    """

    layers: int
    hidden: int
    vocabulary: int
    positions: int
    dp: int
    pp: int
    tp: int
    microbatches: int
    batch: int
    sequence: int


@dataclass(frozen=True)
class Pieces:
    """Measured on one machine. whole: seconds of the step on one rank alone; alpha: seconds that a message costs, beta:
    a byte; cores: that all ranks share."""

    whole: float
    alpha: float
    beta: float
    cores: int
