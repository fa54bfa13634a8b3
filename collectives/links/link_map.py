"""How fast every pair of ranks is: latency and bandwidth, both directions, all pairs of a round at once.

    latency     a ─8 B→ b ─8 B→ a …            half of a round trip, the same for both directions
    bandwidth   a ═══ k messages ═══→ b ─8 B→ a      then the other way round; the clock is the sender's

The pairs of a round share no rank, but perhaps a switch, a bus or the CPU: what they lose to each other is part of what
a collective would meet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist

from .outliers import Link
from .pairs import rounds

REPEATS = 5
PINGS = 20


@dataclass(frozen=True)
class Links:
    """By (from, to): seconds of an empty message, bytes a second of large ones."""

    latency: dict[Link, float]
    bandwidth: dict[Link, float]


def measure(nbytes: int, messages: int, device: torch.device, tick: Callable[[], None] = lambda: None) -> Links:
    """All pairs of the default group; every rank calls it and gets the same.

    Args:
        nbytes: of a large message. messages: how many of them make a burst. tick: called after every round.
    """
    rank = dist.get_rank()
    meter = _Meter(nbytes, messages, device)
    meter.together()  # everybody's first: a pair alone could not set up a communicator
    mine: tuple[dict[Link, float], dict[Link, float]] = {}, {}
    for pairs in rounds(dist.get_world_size()):
        for low, high in pairs:
            if rank in (low, high):
                peer = low + high - rank
                latency = meter.latency(peer, first=rank == low)
                if rank == low:
                    mine[0][low, high] = mine[0][high, low] = latency
                out = meter.bandwidth(peer, sends=rank == low)
                back = meter.bandwidth(peer, sends=rank == high)
                mine[1][rank, peer] = out if rank == low else back
        meter.together()
        tick()
    everyone: list[tuple[dict[Link, float], dict[Link, float]]] = [({}, {})] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    found = Links({}, {})
    for latencies, bandwidths in everyone:
        found.latency.update(latencies)
        found.bandwidth.update(bandwidths)
    return found


class _Meter:
    """One rank's end of a pair."""

    def __init__(self, nbytes: int, messages: int, device: torch.device) -> None:
        self._device, self._messages = device, messages
        self._small, self._large = torch.zeros(8, dtype=torch.uint8), torch.zeros(nbytes, dtype=torch.uint8)
        self._small, self._large = self._small.to(device), self._large.to(device)

    def together(self) -> None:
        dist.all_reduce(torch.zeros(1, device=self._device))
        self._settle()

    def latency(self, peer: int, first: bool) -> float:
        """Seconds of one way; a median."""

        def pings() -> None:
            for _ in range(PINGS):
                self._send(self._small, peer) if first else self._receive(self._small, peer)
                self._receive(self._small, peer) if first else self._send(self._small, peer)

        return self._typical(pings) / PINGS / 2

    def bandwidth(self, peer: int, sends: bool) -> float:
        """Bytes a second towards or from the peer; a median. What counts is the sender's."""

        def burst() -> None:
            for _ in range(self._messages):
                self._send(self._large, peer) if sends else self._receive(self._large, peer)
            self._receive(self._small, peer) if sends else self._send(self._small, peer)

        return self._large.numel() * self._messages / self._typical(burst)

    def _typical(self, work: Callable[[], None]) -> float:
        times = []
        for _ in range(1 + REPEATS):  # the first is not counted
            self._settle()
            began = time.perf_counter()
            work()
            self._settle()
            times.append(time.perf_counter() - began)
        return median(times[1:])

    def _send(self, tensor: torch.Tensor, peer: int) -> None:
        self._move(dist.isend, tensor, peer)

    def _receive(self, tensor: torch.Tensor, peer: int) -> None:
        self._move(dist.irecv, tensor, peer)

    def _move(self, operation: Callable[..., object], tensor: torch.Tensor, peer: int) -> None:
        for work in dist.batch_isend_irecv([dist.P2POp(operation, tensor, peer)]):
            work.wait()

    def _settle(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
