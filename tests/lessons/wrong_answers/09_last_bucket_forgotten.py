# expects: buckets: the bucket that is open at the end never leaves
# finding: buckets data_parallel.buckets.tail
# says: The last bucket is missing. It is closed when the next parameter does not fit, but after the last one comes none: the gradients of the first layers would never be averaged, and nothing would be raised.
from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def buckets(sizes: Sequence[int], cap: int) -> list[list[int]]:
    full, filling = [], []
    for index in reversed(range(len(sizes))):
        if filling and sum(sizes[one] for one in filling) + sizes[index] > cap:
            full.append(filling)
            filling = []
        filling.append(index)
    return full


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
            both += max(0.0, end - max(one["ts"], other["ts"]))
    return both / sum(one["dur"] for one in sent)
