"""{{stub.file}}"""

from __future__ import annotations


def weak_time(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{stub.weak_time}}"""
    # TODO: {{stub.weak_time_todo}}
    raise NotImplementedError


def weak_efficiency(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{stub.weak_efficiency}}"""
    # TODO: {{stub.weak_efficiency_todo}}
    raise NotImplementedError


def strong_time(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{stub.strong_time}}"""
    # TODO: {{stub.strong_time_todo}}
    raise NotImplementedError


def strong_efficiency(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{stub.strong_efficiency}}"""
    # TODO: {{stub.strong_efficiency_todo}}
    raise NotImplementedError


def hidden_gpus(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    """{{stub.hidden_gpus}}"""
    # TODO: {{stub.hidden_gpus_todo}}
    raise NotImplementedError


def fastest_gpus(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    """{{stub.fastest_gpus}}"""
    # TODO: {{stub.fastest_gpus_todo}}
    raise NotImplementedError
