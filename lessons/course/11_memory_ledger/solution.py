"""{{solution.file}}"""

from __future__ import annotations


def gpt_parameters(layers: int, hidden: int, vocab: int, positions: int) -> int:
    """{{solution.gpt_parameters}}"""
    attention = 4 * hidden**2 + 4 * hidden
    mlp = 8 * hidden**2 + 5 * hidden
    norm = 2 * hidden
    return layers * (attention + mlp + 2 * norm) + (vocab + positions) * hidden + norm


def bytes_at_rest(count: int, precision: str, optimizer: str) -> int:
    """{{solution.bytes_at_rest}}"""
    moments = {"adam": 2, "momentum": 1, "sgd": 0}[optimizer]
    weight, gradient, master, moment = {
        "fp32": (4, 4, 0, 4),
        "mixed": (2, 2, 4, 4),
        "pure": (2, 2, 0, 2),
    }[precision]
    return count * (weight + gradient + master + moments * moment)


# {{course.extra}}


def rank_parameters(layers: int, hidden: int, vocab: int, positions: int, tp: int, pp: int) -> float:
    """{{solution.rank_parameters}}"""
    return layers * 12 * hidden**2 / (tp * pp) + (vocab + positions) * hidden / tp


def activation_bytes(batch: int, sequence: int, hidden: int, heads: int, recompute: str) -> int:
    """{{solution.activation_bytes}}"""
    tokens = sequence * batch
    if recompute == "full":
        return 2 * tokens * hidden
    scores = 5 * heads * sequence * tokens if recompute == "none" else 0
    return 34 * tokens * hidden + scores
