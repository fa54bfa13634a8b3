"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]  # {{stub.record}}


def waiting(records: Sequence[Record]) -> list[tuple[str, int] | None]:
    """{{stub.waiting}}"""
    # TODO: {{stub.waiting_todo}}
    raise NotImplementedError


def absent(records: Sequence[Record], group: str, seq: int) -> list[int]:
    """{{stub.absent}}"""
    # TODO: {{stub.absent_todo}}
    raise NotImplementedError


def blame(records: Sequence[Record]) -> list[tuple[int, str, int]]:
    """{{stub.blame}}"""
    # TODO: {{stub.blame_todo}}
    raise NotImplementedError


def differing(records: Sequence[Record]) -> list[tuple[str, int]]:
    """{{stub.differing}}"""
    # TODO: {{stub.differing_todo}}
    raise NotImplementedError
