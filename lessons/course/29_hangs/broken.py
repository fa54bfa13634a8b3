"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]  # {{broken.record}}
Operation = dict[str, Any]


def rows(records: Sequence[Record]) -> list[tuple[Operation, ...]]:
    """{{broken.rows}}"""
    return list(zip(*(record["operations"] for record in records), strict=False))


def differing(records: Sequence[Record]) -> list[tuple[str, int]]:
    """{{broken.differing}}"""
    found = []
    for row in rows(records):
        if len({one["said"] for one in row}) > 1:
            found.append((row[0]["group"], row[0]["seq"]))
    return found
