# expects: activation_bytes: scores without the batch
# finding: activation_bytes budget.activation_bytes.scores_of_one_sample
# says: The scores lack the batch: every sample has scores of its own, 5·a·s²·b.
from __future__ import annotations


def gpt_parameters(layers: int, hidden: int, vocab: int, positions: int) -> int:
    attention = 4 * hidden**2 + 4 * hidden
    mlp = 8 * hidden**2 + 5 * hidden
    norm = 2 * hidden
    return layers * (attention + mlp + 2 * norm) + (vocab + positions) * hidden + norm


def rank_parameters(layers: int, hidden: int, vocab: int, positions: int, tp: int, pp: int) -> float:
    return layers * 12 * hidden**2 / (tp * pp) + (vocab + positions) * hidden / tp


def bytes_at_rest(count: int, precision: str, optimizer: str) -> int:
    moments = {"adam": 2, "momentum": 1, "sgd": 0}[optimizer]
    weight, gradient, master, moment = {
        "fp32": (4, 4, 0, 4),
        "mixed": (2, 2, 4, 4),
        "pure": (2, 2, 0, 2),
    }[precision]
    return count * (weight + gradient + master + moments * moment)


def activation_bytes(batch: int, sequence: int, hidden: int, heads: int, recompute: str) -> int:
    tokens = sequence * batch
    if recompute == "full":
        return 2 * tokens * hidden
    scores = 5 * heads * sequence**2 if recompute == "none" else 0
    return 34 * tokens * hidden + scores
