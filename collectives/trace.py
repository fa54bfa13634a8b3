"""Watch one operation from inside: a span for every message and every reduction, and one for the whole.

On a streaming transport (gloo) the wire is wrapped: a message's span begins when it is posted and ends when its wait
returns, so the end of one that nobody waited for yet is seen late. With NCCL the host only enqueues; there the spans
are of the whole operation and, timed on the device, of the reductions.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from .communicator import Communicator
from .executor import PointToPoint
from .reduction import Combine
from .span import Span

T = TypeVar("T")

_BARRIERS = 9  # for comparing the clocks of two hosts


class Tape:
    """The spans of one rank, from all its threads.

    Args:
        label: what is being watched, the same on all ranks; part of what a send and its receive have in common.
    """

    def __init__(self, rank: int, label: str) -> None:
        self.rank, self.label = rank, label
        self.spans: list[Span] = []
        self._messages: defaultdict[tuple[str, int], int] = defaultdict(int)

    def add(self, stream: str, name: str, start: float, nbytes: int, link: str = "", message: str = "") -> None:
        """Something that has just ended."""
        self.spans.append(Span(self.rank, stream, name, start, time.monotonic(), nbytes, link, message))

    def timed(self, name: str, function: Callable[..., T], *args: Any) -> T:
        """``function(*args)``, recorded on stream ``compute``."""
        start = time.monotonic()
        result = function(*args)
        self.add("compute", name, start, 0)
        return result

    def message(self, link: str, channel: int) -> str:
        """The next message on a link: both ends count, and messages of a channel stay in order."""
        self._messages[link, channel] += 1
        return f"{self.label}, {link}, channel {channel}, message {self._messages[link, channel]}"


class TracedWork:
    """A send or receive that is recorded when it has been waited for."""

    def __init__(self, work: Any, ended: Callable[[], None]) -> None:
        self._work, self._ended = work, ended

    def wait(self, *args: Any) -> Any:
        result = self._work.wait(*args)
        self._ended()
        return result


class TracingWire:
    """The wire of one channel that records what passes over it; see ``executor.PointToPoint``."""

    def __init__(self, wire: PointToPoint, tape: Tape, channel: int) -> None:
        self._wire, self._tape, self._channel = wire, tape, channel

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> TracedWork:
        return self._traced("send", "send to", f"{self._tape.rank}->{peer}", tensors, peer, tag)

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> TracedWork:
        return self._traced("recv", "receive from", f"{peer}->{self._tape.rank}", tensors, peer, tag)

    def _traced(self, verb: str, words: str, link: str, tensors: list[torch.Tensor], peer: int, tag: int) -> TracedWork:
        tape, stream = self._tape, f"{verb} {self._channel}"
        nbytes = sum(tensor.nbytes for tensor in tensors)
        message, start = tape.message(link, self._channel), time.monotonic()
        work = getattr(self._wire, verb)(tensors, peer, tag)
        return TracedWork(work, lambda: tape.add(stream, f"{words} {peer}", start, nbytes, link, message))


class _DeviceTimes:
    """Reductions on CUDA streams: events, read when the device is done."""

    def __init__(self) -> None:
        self._origin = _event()
        torch.cuda.synchronize()
        self._moment = time.monotonic()
        self._origin.record()
        self._pairs: list[tuple[torch.cuda.Event, torch.cuda.Event, str, int]] = []

    @contextlib.contextmanager
    def record(self, stream: str, nbytes: int) -> Iterator[None]:
        start, end = _event(), _event()
        start.record()
        yield
        end.record()
        self._pairs.append((start, end, stream, nbytes))

    def spans(self, rank: int) -> list[Span]:
        torch.cuda.synchronize()
        return [
            Span(
                rank,
                stream,
                "reduce",
                self._moment + self._origin.elapsed_time(start) / 1000,
                self._moment + self._origin.elapsed_time(end) / 1000,
                nbytes,
            )
            for start, end, stream, nbytes in self._pairs
        ]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


class OperationTracer:
    """Puts recorders in the place of every channel's wire and reduction; see ``executor.Tracer``."""

    def __init__(self, tape: Tape, device: _DeviceTimes | None) -> None:
        self._tape, self._device = tape, device

    def wire(self, wire: PointToPoint, channel: int) -> PointToPoint:
        return TracingWire(wire, self._tape, channel)

    def combine(self, combine: Combine, channel: int) -> Combine:
        stream = f"reduce {channel}"

        def traced(left: torch.Tensor, right: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
            if self._device is not None:
                with self._device.record(stream, left.nbytes):
                    return combine(left, right, out=out)
            start = time.monotonic()
            result = combine(left, right, out=out)
            self._tape.add(stream, "reduce", start, left.nbytes)
            return result

        return traced


def watch(communicator: Communicator, call: Callable[[], object], label: str, nbytes: int) -> list[Span]:
    """Run ``call``, one operation of ours, and return this rank's spans; all ranks make it together.

    Args:
        label: the same on all ranks, and another for every operation.
    """
    tape = Tape(communicator.rank, label)
    device = _DeviceTimes() if communicator.backend == "nccl" else None
    communicator.tracer = OperationTracer(tape, device)
    try:
        start = time.monotonic()
        call()
        if device is not None:
            tape.spans += device.spans(communicator.rank)
        tape.add("operation", label, start, nbytes)
    finally:
        communicator.tracer = None
    return tape.spans


def clock_offsets() -> tuple[list[float], float]:
    """What to add to every rank's ``time.monotonic()`` so that all are on rank 0's clock, and how sure that is.

    On one machine the clock is common. Another's is compared at the ends of some barriers, as its first rank saw them;
    the second value is the largest spread (in seconds) of what they said. A collective operation.
    """
    mine: list[float] = []
    for _ in range(_BARRIERS):
        dist.barrier()
        if torch.cuda.is_available() and dist.get_backend() == "nccl":
            torch.cuda.synchronize()
        mine.append(time.monotonic())
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (_machine(), mine))
    first: dict[str, list[float]] = {}
    for machine, moments in everyone:
        first.setdefault(machine, moments)
    apart = {
        machine: [zero - its for zero, its in zip(everyone[0][1], moments, strict=True)]
        for machine, moments in first.items()
    }
    spread = max(max(differences) - min(differences) for differences in apart.values())
    return [median(apart[machine]) for machine, _ in everyone], spread


def _machine() -> str:
    """Whose monotonic clock this is: names of hosts may be the same, as in containers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"
