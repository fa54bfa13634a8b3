"""{{broken.file}}"""

from __future__ import annotations


def gpt_parameters(layers: int, hidden: int, vocab: int, positions: int) -> int:
    """{{broken.gpt_parameters}}"""
    block = 12 * hidden**2 + 13 * hidden
    embedding = (vocab + positions) * hidden
    # {{broken.head}}
    head = hidden * vocab
    return embedding + layers * block + 2 * hidden + head


def bytes_at_rest(count: int, precision: str, optimizer: str) -> int:
    """{{broken.bytes_at_rest}}"""
    element = 4 if precision == "fp32" else 2
    moments = {"adam": 2, "momentum": 1, "sgd": 0}[optimizer]
    # {{broken.bytes}}
    return count * element * (2 + moments)
