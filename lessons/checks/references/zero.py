"""The formulas of lessons 17, 18 and 28: what ZeRO leaves on a rank, and how often to save."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from parallel.formulas import MIXED, StateBytes, state_bytes
from sim.planner.failures import Saving

from ..reference import Reference


def _zero_bytes(parameters: int, ranks: int, stage: int, optimizer: float) -> float:
    return state_bytes(parameters, ranks, stage, StateBytes(MIXED.parameters, MIXED.gradients, optimizer)).total


def _split(p: float, g: float, k: float, of: str = "kgp", upto: int = 3) -> Callable[[int, int, int, float], float]:
    """Bytes of a rank where stage s splits the first s kinds of ``of``; p, g: bytes of each, k: added to the given."""

    def held(x: int, n: int, stage: int, optimizer: float) -> float:
        each = {"p": p, "g": g, "k": optimizer + k}
        return sum(one * x / (n if kind in of[: min(stage, upto)] else 1) for kind, one in each.items())

    return held


_RIGHT = _split(2, 2, 0)


def _least_bytes(parameters: int, ranks: int, largest: int, activations: float) -> float:
    gathered = largest * (MIXED.parameters + MIXED.gradients)
    return state_bytes(parameters, ranks, 3).total + gathered + activations


def _cards(
    states: float = MIXED.total,
    gathered: float = MIXED.parameters + MIXED.gradients,
    kept: int = 1,
    rounds: Callable[[float], float] = math.ceil,
    never: int = 0,
) -> Callable[[float, int, int, float], float]:
    """GPUs that are needed; states, gathered: bytes a parameter; kept: whether activations take room, 1 or 0."""

    def needed(capacity: float, parameters: int, largest: int, activations: float) -> float:
        left = capacity - gathered * largest - kept * activations
        return rounds(states * parameters / left) if left > 0 else never

    return needed


def _offload_bytes(parameters: int, ranks: int, microbatches: int) -> float:
    """A shard of gradients goes down after each microbatch, one of parameters comes up after the step."""
    return parameters / ranks * (microbatches * MIXED.gradients + MIXED.parameters)


def _save_every(mtbf: float, ranks: int, write: float) -> float:
    return Saving(mtbf / ranks, write, 0).young


ZERO: Mapping[str, Reference] = {
    "zero_bytes": Reference(
        examples=(
            *((7_500_000_000, 64, stage, 12) for stage in range(4)),
            (1_557_611_200, 8, 1, 12),
            (1200, 4, 2, 16),
            (1200, 4, 3, 8),
            (1000, 10, 1, 6),
            (36_000, 3, 2, 12),
        ),
        answer=_zero_bytes,
        mistakes={
            "zero.zero_bytes.all": lambda x, n, s, k: (4 + k) * x / (n if s else 1),
            "zero.zero_bytes.next": lambda x, n, s, k: _RIGHT(x, n, s + 1, k),
            "zero.zero_bytes.previous": lambda x, n, s, k: _RIGHT(x, n, max(0, s - 1), k),
            "zero.zero_bytes.gradients_first": _split(2, 2, 0, "gkp"),
            "zero.zero_bytes.parameters_first": _split(2, 2, 0, "pgk"),
            "zero.zero_bytes.only_optimizer": _split(2, 2, 0, upto=1),
            "zero.zero_bytes.not_parameters": _split(2, 2, 0, upto=2),
            "zero.zero_bytes.none": _split(2, 2, 0, upto=0),
            "zero.zero_bytes.twelve": lambda x, n, s, k: _RIGHT(x, n, s, 12),
            "zero.zero_bytes.no_master": _split(2, 2, -4),
            "zero.zero_bytes.gradients_4": _split(2, 4, 0),
            "zero.zero_bytes.parameters_4": _split(4, 2, 0),
            "zero.zero_bytes.both_4": _split(4, 4, 0),
            "zero.zero_bytes.no_gradients": _split(2, 0, 0),
            "zero.zero_bytes.no_parameters": _split(0, 2, 0),
            "zero.zero_bytes.shares_only": lambda x, n, s, k: (k + 2 * (s > 1) + 2 * (s > 2)) * x / n if s else 16 * x,
            "zero.zero_bytes.all_ranks": lambda x, n, s, k: n * _RIGHT(x, n, s, k),
            "zero.zero_bytes.others": lambda x, n, s, k: _RIGHT(x, n - 1, s, k),
        },
    ),
    "least_bytes": Reference(
        examples=(
            (175_000_000_000, 1000, 1_800_000_000, 5e9),
            (7_500_000_000, 64, 200_000_000, 0.0),
            (12_000, 8, 500, 7000.0),
            (12_000, 1, 500, 7000.0),
            (4_000_000, 4, 1_000_000, 123_456.0),
        ),
        answer=_least_bytes,
        mistakes={
            "zero.least_bytes.states_only": lambda x, n, g, a: 16 * x / n,
            "zero.least_bytes.no_largest": lambda x, n, g, a: 16 * x / n + a,
            "zero.least_bytes.no_activations": lambda x, n, g, a: 16 * x / n + 4 * g,
            "zero.least_bytes.activations_split": lambda x, n, g, a: 16 * x / n + 4 * g + a / n,
            "zero.least_bytes.largest_split": lambda x, n, g, a: 16 * x / n + 4 * g / n + a,
            "zero.least_bytes.both_split": lambda x, n, g, a: (16 * x + 4 * g + a) / n,
            "zero.least_bytes.no_gradient": lambda x, n, g, a: 16 * x / n + 2 * g + a,
            "zero.least_bytes.states_of_largest": lambda x, n, g, a: 16 * x / n + 16 * g + a,
            "zero.least_bytes.elements": lambda x, n, g, a: 16 * x / n + g + a,
            "zero.least_bytes.not_split": lambda x, n, g, a: 16 * x + 4 * g + a,
            "zero.least_bytes.whole_model": lambda x, n, g, a: 16 * x / n + 4 * x + a,
            "zero.least_bytes.four": lambda x, n, g, a: 4 * x / n + 4 * g + a,
            "zero.least_bytes.twelve": lambda x, n, g, a: 12 * x / n + 4 * g + a,
        },
    ),
    "cards_needed": Reference(
        examples=(
            (80e9, 175_000_000_000, 1_800_000_000, 7e9),
            (80e9, 175_000_000_000, 1_800_000_000, 100e9),
            (24e9, 7_500_000_000, 210_000_000, 3e9),
            (1000.0, 1000, 50, 300.0),
            (1000.0, 1000, 200, 200.0),
            (1000.0, 1000, 200, 300.0),
            (500_000.0, 1000, 50, 300.0),
            (16e9, 1_557_611_200, 80_411_200, 2e9),
        ),
        answer=_cards(),
        mistakes={
            "zero.cards_needed.states_only": _cards(gathered=0, kept=0),
            "zero.cards_needed.no_largest": _cards(gathered=0),
            "zero.cards_needed.no_activations": _cards(kept=0),
            "zero.cards_needed.no_gradient": _cards(gathered=2),
            "zero.cards_needed.all_of_largest": _cards(gathered=16),
            "zero.cards_needed.down": _cards(rounds=math.floor),
            "zero.cards_needed.exact": _cards(rounds=float),
            "zero.cards_needed.one_more": _cards(rounds=lambda number: math.floor(number) + 1),
            "zero.cards_needed.at_least_one": _cards(never=1),
            "zero.cards_needed.negative": lambda c, x, g, a: math.ceil(16 * x / left) if (left := c - 4 * g - a) else 0,
            "zero.cards_needed.all_split": lambda c, x, g, a: math.ceil((16 * x + 4 * g + a) / c),
            "zero.cards_needed.activations_split": lambda c, x, g, a: math.ceil((16 * x + a) / max(1, c - 4 * g)),
            "zero.cards_needed.parameters": _cards(states=2),
            "zero.cards_needed.optimizer": _cards(states=12),
        },
    ),
    "offload_bytes": Reference(
        examples=(
            (7_500_000_000, 8, 1),
            (7_500_000_000, 1, 4),
            (1_557_611_200, 4, 2),
            (1200, 3, 5),
            (1000, 10, 8),
        ),
        answer=_offload_bytes,
        mistakes={
            "zero.offload_bytes.once": lambda x, n, m: 4 * x / n,
            "zero.offload_bytes.both_ways_each": lambda x, n, m: 4 * m * x / n,
            "zero.offload_bytes.not_split": lambda x, n, m: (2 * m + 2) * x,
            "zero.offload_bytes.gradients_whole": lambda x, n, m: 2 * m * x + 2 * x / n,
            "zero.offload_bytes.down_only": lambda x, n, m: 2 * m * x / n,
            "zero.offload_bytes.up_only": lambda x, n, m: 2 * x / n,
            "zero.offload_bytes.states": lambda x, n, m: (2 * m + 2 + 2 * 12) * x / n,
            "zero.offload_bytes.states_once": lambda x, n, m: (2 * m + 2 + 12) * x / n,
            "zero.offload_bytes.fp32": lambda x, n, m: (4 * m + 4) * x / n,
            "zero.offload_bytes.fp32_up": lambda x, n, m: (2 * m + 4) * x / n,
            "zero.offload_bytes.elements": lambda x, n, m: (m + 1) * x / n,
            "zero.offload_bytes.all_gathered": lambda x, n, m: 2 * m * x / n + 2 * x,
            "zero.offload_bytes.averaged": lambda x, n, m: (2 / m + 2) * x / n,
        },
    ),
    "save_every": Reference(
        examples=(
            (180_000_000.0, 1024, 60.0),
            (90_000_000.0, 1, 300.0),
            (3_600_000.0, 16, 5.0),
            (1e6, 100, 0.5),
            (50_000.0, 4, 720.0),
        ),
        answer=_save_every,
        mistakes={
            "zero.save_every.one_gpu": lambda m, n, d: math.sqrt(2 * d * m),
            "zero.save_every.no_two": lambda m, n, d: math.sqrt(d * m / n),
            "zero.save_every.no_root": lambda m, n, d: 2 * d * m / n,
            "zero.save_every.half": lambda m, n, d: math.sqrt(d * m / n / 2),
            "zero.save_every.more_gpus": lambda m, n, d: math.sqrt(2 * d * m * n),
            "zero.save_every.squared": lambda m, n, d: math.sqrt(2 * d * m) / n,
            "zero.save_every.no_write": lambda m, n, d: math.sqrt(2 * m / n),
            "zero.save_every.divided": lambda m, n, d: math.sqrt(2 * m / n / d),
            "zero.save_every.mtbf": lambda m, n, d: m / n,
            "zero.save_every.half_mtbf": lambda m, n, d: m / n / 2,
            "zero.save_every.two_outside": lambda m, n, d: 2 * math.sqrt(d * m / n),
        },
    ),
}
