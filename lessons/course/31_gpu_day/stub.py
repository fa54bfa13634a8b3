"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Sequence


def busbw(ranks: int, nbytes: int, time_us: float) -> float:
    """{{stub.busbw}}"""
    # TODO: {{stub.busbw_todo}}
    raise NotImplementedError


def of_wire(time_us: float, wire_us: float) -> float:
    """{{stub.of_wire}}"""
    # TODO: {{stub.of_wire_todo}}
    raise NotImplementedError


def ring_on_nccl(
    ranks: int, nbytes: int, launch: float, alpha: float, beta: float, gamma: float, channels: int, graph: bool
) -> float:
    """{{stub.ring_on_nccl}}"""
    # TODO: {{stub.ring_on_nccl_todo}}
    raise NotImplementedError


def rings_of(links: Sequence[Sequence[int]]) -> int:
    """{{stub.rings_of}}"""
    # TODO: {{stub.rings_of_todo}}
    raise NotImplementedError


def is_faster(baseline: str, ratio: float, null: float) -> str:
    """{{stub.is_faster}}"""
    # TODO: {{stub.is_faster_todo}}
    raise NotImplementedError
