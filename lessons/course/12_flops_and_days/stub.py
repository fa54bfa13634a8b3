"""{{stub.file}}"""

from __future__ import annotations


def layer_flops(batch: int, sequence: int, hidden: int) -> int:
    """{{stub.layer_flops}}"""
    # TODO: {{stub.layer_flops_todo}}
    raise NotImplementedError


def step_flops(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> int:
    """{{stub.step_flops}}"""
    # TODO: {{stub.step_flops_todo}}
    raise NotImplementedError


def mfu(flops: float, seconds: float, gpus: int, peak: float) -> float:
    """{{stub.mfu}}"""
    # TODO: {{stub.mfu_todo}}
    raise NotImplementedError


def training_days(parameters: int, tokens: int, gpus: int, peak: float, utilisation: float) -> float:
    """{{stub.training_days}}"""
    # TODO: {{stub.training_days_todo}}
    raise NotImplementedError


# {{course.extra}}


def matmul_time(m: int, n: int, k: int, peak: float, bandwidth: float) -> float:
    """{{stub.matmul_time}}"""
    # TODO: {{stub.matmul_time_todo}}
    raise NotImplementedError
