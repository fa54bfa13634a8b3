# expects: layer_flops: scores, but not their product with the values
# finding: layer_flops budget.layer_flops.scores_only
# says: Attention has two products over s × s: queries with keys, then scores with values. One is missing.
from __future__ import annotations


def layer_flops(batch: int, sequence: int, hidden: int) -> int:
    tokens = batch * sequence
    matrices = 2 * tokens * (4 * hidden**2 + 8 * hidden**2)
    attention = 2 * tokens * sequence * hidden
    return matrices + attention


def step_flops(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> int:
    logits = 2 * batch * sequence * hidden * vocab
    return 3 * (layers * layer_flops(batch, sequence, hidden) + logits)


def matmul_time(m: int, n: int, k: int, peak: float, bandwidth: float) -> float:
    operations = 2 * m * n * k
    moved = 2 * (m * k + k * n + m * n)
    return max(operations / peak, moved / bandwidth)


def mfu(flops: float, seconds: float, gpus: int, peak: float) -> float:
    return flops / seconds / (gpus * peak)


def training_days(parameters: int, tokens: int, gpus: int, peak: float, utilisation: float) -> float:
    return 6 * parameters * tokens / (gpus * peak * utilisation) / 86400
