"""{{stub.file}}"""

from __future__ import annotations


def gpt_parameters(layers: int, hidden: int, vocab: int, positions: int) -> int:
    """{{stub.gpt_parameters}}"""
    # TODO: {{stub.gpt_parameters_todo}}
    raise NotImplementedError


def bytes_at_rest(count: int, precision: str, optimizer: str) -> int:
    """{{stub.bytes_at_rest}}"""
    # TODO: {{stub.bytes_at_rest_todo}}
    raise NotImplementedError


# {{course.extra}}


def rank_parameters(layers: int, hidden: int, vocab: int, positions: int, tp: int, pp: int) -> float:
    """{{stub.rank_parameters}}"""
    # TODO: {{stub.rank_parameters_todo}}
    raise NotImplementedError


def activation_bytes(batch: int, sequence: int, hidden: int, heads: int, recompute: str) -> int:
    """{{stub.activation_bytes}}"""
    # TODO: {{stub.activation_bytes_todo}}
    raise NotImplementedError
