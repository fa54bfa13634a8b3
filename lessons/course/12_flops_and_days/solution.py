"""{{solution.file}}"""

from __future__ import annotations


def layer_flops(batch: int, sequence: int, hidden: int) -> int:
    """{{solution.layer_flops}}"""
    tokens = batch * sequence
    matrices = 2 * tokens * (4 * hidden**2 + 8 * hidden**2)
    attention = 2 * (2 * tokens * sequence * hidden)
    return matrices + attention


def step_flops(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> int:
    """{{solution.step_flops}}"""
    logits = 2 * batch * sequence * hidden * vocab
    return 3 * (layers * layer_flops(batch, sequence, hidden) + logits)


def mfu(flops: float, seconds: float, gpus: int, peak: float) -> float:
    """{{solution.mfu}}"""
    return flops / seconds / (gpus * peak)


def training_days(parameters: int, tokens: int, gpus: int, peak: float, utilisation: float) -> float:
    """{{solution.training_days}}"""
    return 6 * parameters * tokens / (gpus * peak * utilisation) / 86400


# {{course.extra}}


def matmul_time(m: int, n: int, k: int, peak: float, bandwidth: float) -> float:
    """{{solution.matmul_time}}"""
    operations = 2 * m * n * k
    moved = 2 * (m * k + k * n + m * n)
    return max(operations / peak, moved / bandwidth)
