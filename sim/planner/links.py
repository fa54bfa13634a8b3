"""How long collectives of a plan take, from where a group's members sit: NCCL's Simple protocol (:mod:`sim.nccl`).

A group of n ranks, each ``stride`` after the one before it, has ``local / stride`` members in a node. Inside a node a
ring runs at NVLink's speed. Between nodes it uses the NICs of its members; the other groups of the node use the rest.

::

    all_gather, reduce_scatter   (n − 1)/n · bytes / rate        all_reduce: both
    all_to_all                   (n − 1)/n · bytes, of which the part for other nodes goes through the NICs

To what the links take come hops, and 2 √(FILL · links) for the pieces in which data move.
"""

from __future__ import annotations

from .arithmetic import least, log2, most, pick, root
from .constants import CALL, FILL, P2P
from .hardware import Hardware


def mates(hardware: Hardware, size: int, stride: int) -> int:
    """Members of a group in one node, at least one."""
    return most(least(size, hardware.local // stride), 1)


def rate(hardware: Hardware, size: int, stride: int) -> float:
    """Bytes a second that each member's ring moves."""
    near = mates(hardware, size, stride)
    return pick(near >= size, hardware.nvlink, least(hardware.nvlink, near * hardware.nic))


def latency(hardware: Hardware, size: int, stride: int, tree: bool = False) -> float:
    """Seconds before the first byte has gone round the ring, or round a node and up a tree between nodes; nothing for
    one rank."""
    near = mates(hardware, size, stride)
    nodes = size / near
    round_nodes = (size - nodes) * hardware.inside + (nodes - 1) * hardware.between
    if tree:
        round_nodes = least(round_nodes, (near - 1) * hardware.inside + log2(nodes) * hardware.between)
    return (size > 1) * (CALL + round_nodes)


def all_gather(hardware: Hardware, nbytes: float, size: int, stride: int = 1) -> float:
    """Seconds until every one of ``size`` ranks has all ``nbytes``; also of a reduce-scatter of so many."""
    moved = (size - 1) / size * nbytes / rate(hardware, size, stride)
    return latency(hardware, size, stride) + moved + 2 * root(FILL * moved)


def all_reduce(hardware: Hardware, nbytes: float, size: int, stride: int = 1) -> float:
    """One call that is a reduce-scatter and an all-gather."""
    moved = 2 * (size - 1) / size * nbytes / rate(hardware, size, stride)
    return 2 * latency(hardware, size, stride, tree=True) - (size > 1) * CALL + moved + 2 * root(FILL * moved)


def all_to_all(hardware: Hardware, nbytes: float, size: int, stride: int = 1) -> float:
    """Each rank has ``nbytes``, the same share for each, and sends them directly."""
    near = mates(hardware, size, stride)
    inside, outside = (near - 1) / size * nbytes, (size - near) / size * nbytes
    hop = pick(near >= size, hardware.inside, hardware.between)
    return (size > 1) * (CALL + hop) + most(inside / hardware.nvlink, outside / hardware.nic)


def send(hardware: Hardware, nbytes: float, size: int, stride: int) -> float:
    """To the next member of a group; where some are in other nodes, these take longest."""
    inside = mates(hardware, size, stride) >= size
    return (size > 1) * (nbytes / pick(inside, hardware.nvlink, hardware.nic) + P2P)


def exposed(communication: float, computing: float, share: float) -> float:
    """Seconds that communication adds to the computing it runs under.

    While it runs it takes ``share`` of the multiprocessors, so that computing is behind by that share of its time; and
    what is longer than the computing stays over.
    """
    return most(share * communication, communication - computing)
