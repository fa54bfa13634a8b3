"""What the ring's messages alone take: its bytes to one neighbour and from the other, step by step, nothing added.

    rank r:   ├ send to r+1, receive from r−1 ┤├ send, receive ┤ …        as many steps as the ring has, S/n each

Of several rings all move at once, each its share. A ring cannot be faster than its wire, so ``of_wire``, the wire's
time / the ring's, says how much of it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Lane:
    """One ring's part: what a rank sends to the right in a step, and where what comes from the left goes."""

    block: torch.Tensor
    arrived: torch.Tensor
    right: int
    left: int


def wire(
    collective: str,
    block: torch.Tensor,
    group: dist.ProcessGroup | None,
    orders: Sequence[Sequence[int]] = (),
) -> Callable[[], None] | None:
    """A call that moves what the ring moves; None where the collective has no ring, or there is nothing to move.

    Args:
        block: what one step sends; it is only read.
        orders: of ranks of the group, this one among them, around each ring; all by their numbers by default.
    """
    around = [list(order) for order in orders] or [list(range(dist.get_world_size(group)))]
    steps = steps_of(collective, len(around[0]))
    if not steps or not block.numel():
        return None
    rank, lanes = dist.get_rank(group), []
    for ring, piece in zip(around, block.chunk(len(around)), strict=False):  # few elements make fewer pieces
        place = ring.index(rank)
        lanes.append(Lane(piece, torch.empty_like(piece), ring[(place + 1) % len(ring)], ring[place - 1]))
    if communicator(group).streaming:
        return _singly(communicator(group).link.wire, lanes, steps)
    batch = [dist.P2POp(dist.irecv, lane.arrived, group=group, group_peer=lane.left) for lane in lanes]
    batch += [dist.P2POp(dist.isend, lane.block, group=group, group_peer=lane.right) for lane in lanes]

    def grouped() -> None:
        for _ in range(steps):
            for work in dist.batch_isend_irecv(batch):
                work.wait()

    memory = [tensor for lane in lanes for tensor in (lane.block, lane.arrived)]
    key = (NAME, steps, *map(tuple, around))
    return partial(communicator(group).graphs.run, key, memory, grouped)


def _singly(transport: object, lanes: Sequence[Lane], steps: int) -> Callable[[], None]:
    """Without the layers above the transport, as our own collectives do it.

    Messages of one pair with one tag arrive in the order of sending, which is that of the rings on both sides.
    """

    def call() -> None:
        for _ in range(steps):
            into = [transport.recv([lane.arrived], lane.left, _TAG) for lane in lanes]  # type: ignore[attr-defined]
            out = [transport.send([lane.block], lane.right, _TAG) for lane in lanes]  # type: ignore[attr-defined]
            for work in (*into, *out):
                work.wait()

    return call
