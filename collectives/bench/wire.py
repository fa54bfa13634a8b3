"""What the ring's messages alone take: its bytes to one neighbour and from the other, step by step, nothing added.

    rank r:   ├ send to r+1, receive from r−1 ┤├ send, receive ┤ …        as many steps as the ring has, S/n each

A ring cannot be faster than its wire, so ``of_wire``, the wire's time / the ring's, says how much of it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.distributed as dist

from ..communicator import communicator

NAME = "wire"
_TAG = 0x317E  # below those of our collectives


def steps_of(collective: str, ranks: int) -> int:
    """How many steps the ring of a collective has; 0 if it has none."""
    rounds = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
    return rounds.get(collective, 0) * (ranks - 1)


def wire(
    collective: str, block: torch.Tensor, group: dist.ProcessGroup | None, order: Sequence[int] | None = None
) -> Callable[[], None] | None:
    """A call that moves what the ring moves; None where the collective has no ring, or there is nothing to move.

    Args:
        block: what one step sends; it is only read.
        order: the ranks of the group, around the ring; in the order of their numbers by default.
    """
    around = list(order) if order else list(range(dist.get_world_size(group)))
    steps = steps_of(collective, len(around))
    if not steps or not block.numel():
        return None
    place = around.index(dist.get_rank(group))
    right, left = around[(place + 1) % len(around)], around[place - 1]
    arrived = torch.empty_like(block)
    if communicator(group).streaming:
        return _singly(communicator(group).link.wire, block, arrived, right, left, steps)
    batch = [
        dist.P2POp(dist.irecv, arrived, group=group, group_peer=left),
        dist.P2POp(dist.isend, block, group=group, group_peer=right),
    ]

    def grouped() -> None:
        for _ in range(steps):
            for work in dist.batch_isend_irecv(batch):
                work.wait()

    memory = [block, arrived]
    return partial(communicator(group).graphs.run, (NAME, steps, *around), memory, grouped)


def _singly(
    transport: object, block: torch.Tensor, arrived: torch.Tensor, right: int, left: int, steps: int
) -> Callable[[], None]:
    """Without the layers above the transport, as our own collectives do it."""

    def call() -> None:
        for _ in range(steps):
            into = transport.recv([arrived], left, _TAG)  # type: ignore[attr-defined]
            out = transport.send([block], right, _TAG)  # type: ignore[attr-defined]
            into.wait()
            out.wait()

    return call
