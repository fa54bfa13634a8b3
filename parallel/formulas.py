"""Closed forms of what data and tensor parallel training holds and sends. No torch: the simulator reads them too.

Of X elements on N ranks, in bytes, where an element costs p as a parameter, g as a gradient and K in the optimizer
(mixed precision with Adam: p = g = 2, K = 12: master copy, momentum and variance in fp32)::

    stage   splits                 bytes a rank            mixed precision
    0       nothing                (p + g + K) X           16X
    1       optimizer states       (p + g) X + K X/N       4X + 12X/N
    2       and gradients          p X + (g + K) X/N       2X + 14X/N
    3       and parameters         (p + g + K) X/N         16X/N

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", section 5.

Every function is plain arithmetic, so numbers may be numpy arrays too: the search over plans computes many at once.
"""

from __future__ import annotations

from dataclasses import dataclass

STAGES = (0, 1, 2, 3)


@dataclass(frozen=True)
class StateBytes:
    """Bytes of parameters, gradients and optimizer states: of one element, or of a rank."""

    parameters: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer


FULL = StateBytes(4, 4, 8)  # fp32 with Adam
MIXED = StateBytes(2, 2, 12)  # 16-bit parameters and gradients, fp32 master copy and Adam
ACCUMULATING = StateBytes(2, 4, 12)  # the same with gradients summed in fp32, as Megatron-LM does


def check_stage(stage: int) -> None:
    """Raises:
    ValueError: a ZeRO stage that there is not.
    """
    if stage not in STAGES:
        raise ValueError(f"zero={stage}: use 0 (nothing is split), 1, 2 or 3")


def shard(elements: int, ranks: int) -> int:
    """Elements that one rank owns: rounded up, so that all shards are equally long."""
    return -(-elements // ranks)


def state_bytes(elements: int, ranks: int = 1, stage: int = 0, element: StateBytes = MIXED) -> StateBytes:
    """What a rank holds between steps.

    Args:
        elements: X, the parameters of the model, or of the part of it that these ranks share.
        ranks: N, that split it.
        stage: of ZeRO.
        element: bytes of one.

    Raises:
        ValueError: a stage that there is not.

    >>> state_bytes(7_500_000_000, 64, 2).total / 1e9
    16.640625
    """
    check_stage(stage)
    own = shard(elements, ranks)
    return StateBytes(
        (own if stage >= 3 else elements) * element.parameters,
        (own if stage >= 2 else elements) * element.gradients,
        (own if stage >= 1 else elements) * element.optimizer,
    )


def elements_sent(
    elements: int, ranks: int, stage: int = 0, microbatches: int = 1, deferred: bool = False, kept: bool = False
) -> StateBytes:
    """Elements that a rank sends in one training step, as parameters and as gradients (``optimizer`` is 0).

    ::

        stage   parameters   gradients
        0, 1    X            X           an all-reduce, or a reduce-scatter and an all-gather of the new parameters
        2       X            X m         reduced after every microbatch
        3       2X m         X m         gathered for forward and backward of every microbatch

    each times (N - 1)/N, as in a ring.

    Args:
        deferred: stages 2 and 3 reduce gradients once a step, and hold all of them until then.
        kept: stage 3 keeps what it gathered for the forward until the backward: X m.
    """
    check_stage(stage)
    share = (ranks - 1) / ranks
    gathers = (microbatches if kept else 2 * microbatches) if stage == 3 else 1
    reductions = microbatches if stage >= 2 and not deferred else 1
    return StateBytes(gathers * elements * share, reductions * elements * share, 0)


def hybrid_elements_sent(
    elements: int,
    shards: int,
    replicas: int,
    stage: int = 3,
    microbatches: int = 1,
    deferred: bool = False,
    kept: bool = False,
) -> StateBytes:
    """Elements that a rank sends in one training step of hybrid sharding: ZeRO over ``shards`` neighbours, repeated.

    What the shards send among themselves (:func:`elements_sent`), and the all-reduce of a shard's gradient over the
    replicas, 2 X/shards · (R − 1)/R, as often as gradients are reduced.
    """
    inside = elements_sent(elements, shards, stage, microbatches, deferred, kept)
    reductions = microbatches if stage >= 2 and not deferred else 1
    across = 2 * reductions * elements / shards * (replicas - 1) / replicas
    return StateBytes(inside.parameters, inside.gradients + across, 0)


def tensor_elements_sent(
    tokens: int,
    hidden: int,
    ranks: int,
    layers: int = 1,
    sequence: bool = False,
    regather: bool = True,
    ends: bool = False,
    replicated: int = 0,
    places: int = 0,
) -> float:
    """Elements that a rank of tensor parallelism sends for one microbatch, forward and backward.

    In units of tokens · hidden · (N − 1)/N; an all-reduce is two::

                          forward                      backward                        layer   embedding   head
        plain             2 all-reduces                2 all-reduces                   8       2           2
        sequence          2 all-gathers, 2 reduce-     the same, and 2 all-gathers     10      2           3
                          scatters                     of what was not kept
        without regather                               the same                        8       2           2

    Args:
        tokens: b · s, padded to a multiple of the ranks where they share the sequence.
        ends: also the embedding, the head and the loss (an all-reduce of a number a token, and one of two).
        replicated: with ``sequence``, elements of parameters between the blocks, whose gradients are all-reduced.
        places: with ``sequence``, elements of the positions looked up, s · h, whose gradient is all-gathered.

    Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", section 4.2.
    """
    again = sequence and regather
    units = layers * (10 if again else 8) + ends * (5 if again else 4)
    elements = units * tokens * hidden + ends * 6 * tokens + sequence * (2 * replicated + places)
    return elements * (ranks - 1) / ranks


def wire_bytes(wire: str | None, own: int = 4, block: int = 128) -> float:
    """Bytes of one gradient element on the wire: its own, or those of ``fp16``, ``bf16``, ``int8``.

    int8 has an fp32 scale for every ``block`` elements (of every rank's part: each part is rounded up to whole scales).

    Raises:
        ValueError: a wire that there is not.
    """
    sizes = {None: float(own), "fp16": 2.0, "bf16": 2.0, "int8": 1 + 4 / block}
    if wire not in sizes:
        raise ValueError(f"wire={wire!r}: use None, fp16, bf16 or int8")
    return sizes[wire]


def thread_exchanges(parameters: int, trainable: int, inputs: int, outputs: int, replicas: int) -> dict[str, float]:
    """Elements of the five exchanges of one step of data parallel by threads, all through the first device.

    Args:
        parameters: of the model, with its buffers; trainable: those that get a gradient.
        inputs, outputs: elements of the whole batch's, cut evenly.
    """
    others = replicas - 1
    return {
        "scatter": inputs * others / replicas,
        "replicate": parameters * others,
        "gather": outputs * others / replicas,
        "loss": outputs * others / replicas,
        "gradients": trainable * others,
    }
