"""{{broken.file}}"""

from __future__ import annotations


def step_flops(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> int:
    """{{broken.step_flops}}"""
    tokens = batch * sequence
    # {{broken.embedding}}
    embedding = 2 * tokens * vocab * hidden
    block = 24 * tokens * hidden**2 + 4 * tokens * sequence * hidden
    logits = 2 * tokens * hidden * vocab
    return 3 * (embedding + layers * block + logits)


def training_days(parameters: int, tokens: int, gpus: int, peak: float, utilisation: float) -> float:
    """{{broken.training_days}}"""
    # {{broken.seconds}}
    seconds = 6 * parameters * tokens / (gpus * peak)
    return seconds / (24 * 60 * 60)
