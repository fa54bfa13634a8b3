"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def buckets(sizes: Sequence[int], cap: int) -> list[list[int]]:
    """{{broken.buckets}}"""
    full: list[list[int]] = []
    filling: list[int] = []
    for index in reversed(range(len(sizes))):
        if filling and sum(sizes[one] for one in filling) + sizes[index] > cap:
            full.append(filling)  # {{broken.send}}
            filling = []
        filling.append(index)
    return full


def hidden(events: Sequence[dict[str, Any]]) -> float:
    """{{broken.hidden}}"""
    kernels = [event for event in events if event["cat"] == "kernel"]
    sent = [event for event in kernels if event["name"].startswith("nccl")]
    computed = [event for event in kernels if not event["name"].startswith("nccl")]
    first = min(event["ts"] for event in computed)
    last = max(event["ts"] + event["dur"] for event in computed)  # {{broken.last}}
    both = sum(max(0.0, min(one["ts"] + one["dur"], last) - max(one["ts"], first)) for one in sent)
    return both / sum(one["dur"] for one in sent)
