"""The calls that ``expectation.py`` times before a run, on tensors of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.distributed as dist

import collectives

from .expectation import TINY, Probes
from .order import Seat, follow_each_other, ranks_by_host
from .wire import wire


def probes_of(ranks: int, group: dist.ProcessGroup | None, device: torch.device, seats: Sequence[Seat]) -> Probes:
    """Those of a group of ``ranks`` ranks, at least 2; ``seats`` are theirs."""
    hosts = ranks_by_host(seats)
    mates = next(members for members in hosts if dist.get_rank(group) in members)
    nbytes = 64 << 20 if device.type == "cuda" else 1 << 20
    tiny, large, other, out = (torch.zeros(size // 4, device=device) for size in (TINY, nbytes, nbytes, nbytes))
    block_each = torch.zeros(ranks, device=device)  # an empty block would be no message
    ring = [wire("all_reduce", block, group) for block in (tiny, large)]
    assert ring[0]
    assert ring[1]
    several = 1 < len(hosts) < ranks and follow_each_other(hosts)
    inside = [wire("all_reduce", block, group, [mates]) if several else None for block in (tiny, large)]
    return Probes(
        nbytes=nbytes,
        tiny=ring[0],
        large=ring[1],
        add=lambda: torch.add(large, other, out=out),
        ours=partial(collectives.all_reduce, block_each, algorithm="ring", group=group),
        native=partial(dist.all_reduce, block_each, group=group),
        tiny_inside=inside[0],
        large_inside=inside[1],
        seats=seats,
    )
