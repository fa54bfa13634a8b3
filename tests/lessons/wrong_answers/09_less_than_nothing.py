# expects: hidden: kernels that do not meet count as less than nothing
# finding: hidden data_parallel.hidden.negative
# says: Two kernels that do not meet have nothing in common, but here they take something off: the earlier end − the later start is negative then. Take max(0, …) of each pair.
from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def buckets(sizes: Sequence[int], cap: int) -> list[list[int]]:
    found: list[list[int]] = []
    room = 0
    for index in reversed(range(len(sizes))):
        if not found or sizes[index] > room:
            found.append([])
            room = cap
        found[-1].append(index)
        room -= sizes[index]
    return found


def finish_time(seconds: Sequence[float], sizes: Sequence[int], cap: int, alpha: float, beta: float) -> float:
    free = 0.0
    for bucket in buckets(sizes, cap):
        ready = sum(seconds[bucket[-1] :])
        free = max(free, ready) + alpha + beta * sum(sizes[index] for index in bucket)
    return free


def best_cap(seconds: Sequence[float], sizes: Sequence[int], caps: Sequence[int], alpha: float, beta: float) -> int:
    return min(caps, key=lambda cap: finish_time(seconds, sizes, cap, alpha, beta))


def hidden(events: Sequence[dict[str, Any]]) -> float:
    kernels = [event for event in events if event["cat"] == "kernel"]
    sent = [event for event in kernels if event["name"].startswith("nccl")]
    computed = [event for event in kernels if not event["name"].startswith("nccl")]
    both = 0.0
    for one in sent:
        for other in computed:
            end = min(one["ts"] + one["dur"], other["ts"] + other["dur"])
            both += end - max(one["ts"], other["ts"])
    return both / sum(one["dur"] for one in sent)
