"""What a strategy should send and hold when it trains the GPT of ``model``, in closed form. No torch.

Per token, of w bytes an activation, a forward pass of L blocks of width h with a heads leaves to the backward pass:

    block   w · 16 h            its input, two norms, queries, keys and values, attention's result, x in the middle,
                                the MLP's inside before and after GELU (4 h each)
            w · 4 + 4 a         mean and deviation of two norms; the softmax's normaliser of each head, fp32
    end     w (2 h + 2)         the last norm's input, result, mean and deviation
            4 · 2 v             logits and their log-softmax, fp32

Recomputed: of each block its input, and the inside of one (15 h) or the end, whichever is larger. On a slower tier: at
most what is small, and what is on its way: four tensors (the MLP's 4 h twice and two of h, with another two about to
follow, 12 h), or the MLP's 8 h and the end. Besides, 8 bytes a place of a row, a byte a token (has it a target?), and
16 of the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import formulas
from .formulas import StateBytes
from .strategies import Strategy

if TYPE_CHECKING:
    from .model import Config

Memory = dict[str, int | float | None]  # bytes of parameters, gradients, optimizer and activations; None: not said
MEMORY = ("parameters", "gradients", "optimizer", "activations")


@dataclass(frozen=True, slots=True)
class Job:
    """What is trained. batch: rows of the global batch, a multiple of ranks; length: tokens a row."""

    model: str
    config: Config
    ranks: int
    batch: int
    length: int
    steps: int = 5
    seed: int = 0
    bucket_mb: float = 25
    trace: bool = False

    def rows(self, strategy: Strategy) -> int:
        """Of a rank."""
        return self.batch if strategy.alone else self.batch // self.ranks


def tensors(config: Config) -> tuple[list[int], list[int]]:
    """Elements of each parameter: of a block, and of all the rest."""
    h = config.hidden
    block = [h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h]
    return block, [config.vocabulary * h, config.positions * h, h, h]


def layers(config: Config) -> list[int]:
    """Elements of each layer as ZeRO cuts them: the rest, and every block."""
    block, rest = tensors(config)
    return [sum(rest), *[sum(block)] * config.layers]


def bytes_sent(strategy: Strategy, job: Job) -> float:
    """Bytes that a rank sends in one step; by threads, what passes through the first device."""
    ranks, sizes = job.ranks, layers(job.config)
    if strategy.wrapper == "none":
        return 0.0
    if strategy.wrapper == "threads":
        tokens = job.batch * job.length
        moved = formulas.thread_exchanges(sum(sizes), sum(sizes), tokens, tokens * job.config.vocabulary, ranks)
        return sum(count * (8 if name == "scatter" else 4) for name, count in moved.items())
    element = 2 if strategy.computes != "fp32" else 4
    if strategy.wrapper == "ddp":
        each = formulas.wire_bytes(strategy.wire, element) if ranks > 1 else 0.0
        return formulas.elements_sent(sum(sizes), ranks).gradients * 2 * each
    shards = ranks // strategy.copies
    padded = sum(formulas.shard(size, shards) * shards for size in sizes)
    sent = formulas.hybrid_elements_sent(padded, shards, strategy.copies, strategy.stage, kept=strategy.kept)
    return sent.total * element


def memory(strategy: Strategy, job: Job) -> Memory:
    """Bytes of a rank between backward and step, and activations at their highest."""
    held = _states(strategy, job)
    return {
        "parameters": held.parameters,
        "gradients": held.gradients,
        "optimizer": held.optimizer,
        "activations": None if strategy.wrapper == "threads" else activations(strategy, job),
    }


def _states(strategy: Strategy, job: Job) -> StateBytes:
    block, rest = tensors(job.config)
    sizes, ranks = layers(job.config), job.ranks
    element = 2 if strategy.computes != "fp32" else 4
    optimizer = {"adam": 8, "away": 0, "on-host": 12, "adam-8bit": 0}[strategy.optimizer] + (4 if element == 2 else 0)
    cost = StateBytes(element, element, optimizer)
    if strategy.wrapper == "zero":
        parts = [formulas.state_bytes(size, ranks // strategy.copies, strategy.stage, cost) for size in sizes]
        return StateBytes(*(sum(getattr(p, kind) for p in parts) for kind in MEMORY[:3]))
    held = formulas.state_bytes(sum(sizes), 1, 0, cost)
    if strategy.optimizer == "adam-8bit":
        held = StateBytes(held.parameters, held.gradients, sum(map(_in_8_bits, [*rest, *block * job.config.layers])))
    if strategy.wire is not None and ranks > 1:  # what rounding took away: of a rank's own, and of the part it adds up
        held = StateBytes(held.parameters, held.gradients + 4 * sum(sizes) * (1 + 1 / ranks), held.optimizer)
    return held


def _in_8_bits(elements: int, block: int = 256, least: int = 4096) -> int:
    """Two codes an element and two fp32 scales a block; small tensors stay in fp32."""
    return 8 * elements if elements < least else 2 * elements + 2 * 4 * -(-elements // block)


def activations(strategy: Strategy, job: Job) -> int:
    """Bytes of activations at their highest; of those on a slower tier the most that may be in memory."""
    config, w = job.config, 2 if strategy.computes != "fp32" else 4
    h = config.hidden
    small, end = 4 * w + 4 * config.heads, w * (2 * h + 2) + 4 * 2 * config.vocabulary
    token = {
        "held": config.layers * (16 * w * h + small) + end,
        "recomputed": config.layers * w * h + max(15 * w * h + small, end),
        "away": config.layers * small + max(12 * w * h, 8 * w * h + end),
    }[strategy.activations]
    return job.rows(strategy) * job.length * (token + 1) + 8 * job.length + 16
