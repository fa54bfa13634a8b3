"""Which gradients travel together: buckets in the order in which the backward pass ends with them.

    parameters   p0   p1   p2   p3   p4   p5      forward →
    buckets      └─ 2 ─┘   └1┘  └──── 0 ────┘   ← backward: bucket 0 is full first, and leaves first

One all-reduce a parameter pays the latency of every message; one of all could begin only when the backward is over. A
bucket leaves while the gradients of the next are computed. No torch here: the simulator reads the same function.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def assign(sizes: Sequence[int], kinds: Sequence[Hashable], limit: float) -> list[list[int]]:
    """The parameters of every bucket, in the order in which the buckets leave.

    Args:
        sizes: bytes of each parameter, in the order of the forward pass.
        kinds: what parameters of one bucket have in common (their dtype).
        limit: bytes of a bucket; a parameter that is larger has one of its own, and with 0 each has.

    Returns:
        Lists of indices into ``sizes``, each index once; a bucket leaves when its last one is ready.
    """
    closed: list[list[int]] = []
    filling: dict[Hashable, list[int]] = {}
    for index in reversed(range(len(sizes))):
        bucket = filling.setdefault(kinds[index], [])
        if bucket and sum(sizes[i] for i in bucket) + sizes[index] > limit:
            closed.append(bucket)
            bucket = filling[kinds[index]] = []
        bucket.append(index)
    return sorted([*closed, *filling.values()], key=lambda bucket: bucket[-1], reverse=True)
