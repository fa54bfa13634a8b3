"""Run a compiled plan: the one place where tensors move.

Two ways, one plan. ``run_streaming`` (gloo) posts single sends and receives and waits for each; channels with the same
program take turns in one thread, others have a thread each, so that they advance by themselves. ``run_grouped`` (NCCL)
makes one batch of a step and lets streams do the waiting: the host never does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

from .plan import Plan, StepPlan
from .reduction import Combine

# Tags of gloo messages. The upper half is ours, so a user's own send and recv (tags below it) never mix with them; the
# rest is a hash of the call and of the message's length, so that ranks which disagree never match: gloo ends the whole
# process when a message is longer than its receive.
OURS = 1 << 30
_SPREAD = 0x9E3779B1


class Tracer(Protocol):
    """Watches a run from inside: puts its own in the place of a channel's wire and reduction."""

    def wire(self, wire: PointToPoint, channel: int) -> PointToPoint: ...

    def combine(self, combine: Combine, channel: int) -> Combine: ...


class PointToPoint(Protocol):
    """The two methods of a process group (or of its backend) that a streaming run needs."""

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Any: ...

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Any: ...


@dataclass(slots=True)
class Progress:
    """Where a channel is: its step, and what it waits for or last did."""

    began: float
    step: int = 0
    verb: str = "send to"
    peer: int = 0


class StepFailure(Exception):
    """A run that stopped: where, after how long, and what the transport said."""

    def __init__(self, progress: Progress, cause: BaseException, kept: Any = None) -> None:
        super().__init__(str(cause))
        self.step, self.verb, self.peer = progress.step, progress.verb, progress.peer
        self.waited = time.monotonic() - progress.began
        self.cause = cause
        self.kept = kept  # works and tensors that the transport may still refer to


@dataclass(slots=True)
class Stream:
    """One channel on its way: what to do, over what, under which tag, and where it is."""

    steps: Sequence[StepPlan]
    wire: PointToPoint
    combine: Combine | None
    tag: int
    progress: Progress


def run_streaming(streams: Sequence[Stream], regions: Sequence[torch.Tensor], deadline: float) -> None:
    """Channels with the same program, in one thread, on a transport whose ``wait`` blocks.

    They take turns: each finishes a step and starts its next while the messages of the others are under way. Since all
    ranks do the same steps of one program in the same order, this waits in a cycle only if one channel alone would.

    Args:
        streams: their tags are numbers that all ranks share for this call and channel, and no other call soon.
        deadline: on ``time.monotonic``; every wait ends by then.

    Raises:
        StepFailure: a send or receive failed; nothing else is tried.
    """
    lengths = [view.numel() for view in regions]
    running = [_stream(stream, regions, lengths, deadline) for stream in streams]
    while running:
        running = [channel for channel in running if next(channel, False)]


def _stream(stream: Stream, regions: Sequence[torch.Tensor], lengths: Sequence[int], deadline: float) -> Iterator[bool]:
    """One channel, a step at a time; it pauses whenever a step has started."""
    wire, combine, progress = stream.wire, stream.combine, stream.progress
    posted: dict[int, Any] = {}
    sent: list[tuple[int, Any]] = []
    try:
        for step in stream.steps:
            progress.step, progress.verb = step.index, "receive from"
            for slot, region, progress.peer in step.posts:
                tag = OURS | (stream.tag + lengths[region]) * _SPREAD % OURS
                posted[slot] = wire.recv([regions[region]], progress.peer, tag)
            for to, source in step.copies:
                regions[to].copy_(regions[source])
            progress.verb = "send to"
            sent = []
            for region, peer in step.sends:
                progress.peer = peer
                tag = OURS | (stream.tag + lengths[region]) * _SPREAD % OURS
                sent.append((peer, wire.send([regions[region]], peer, tag)))
            yield True
            limit = timedelta(seconds=max(0.001, deadline - time.monotonic()))
            progress.verb = "receive from"
            for slot, progress.peer in step.awaits:
                posted.pop(slot).wait(limit)
            for out, left, right in step.early:
                combine(regions[left], regions[right], out=regions[out])  # type: ignore[misc]
            progress.verb = "send to"
            for progress.peer, work in sent:
                work.wait(limit)
            for out, left, right in step.late:
                combine(regions[left], regions[right], out=regions[out])  # type: ignore[misc]
            for to, source in step.unpack:
                regions[to].copy_(regions[source])
    except RuntimeError as error:
        raise StepFailure(progress, error, (posted, sent, regions)) from error


def run_grouped(
    groups: Sequence[dist.ProcessGroup],
    plan: Plan,
    regions: Sequence[torch.Tensor],
    combines: Sequence[Combine | None],
    streams: Sequence[Any],
) -> None:
    """All channels on a transport whose ``wait`` only orders streams (NCCL): one grouped batch a step.

    Channel i has process group ``groups[i]``, reduction ``combines[i]`` and, on CUDA, stream ``streams[i]``: its
    reductions run there under the transfers of the other channels. Batches are issued round robin, in the same order on
    all ranks; the host waits for nothing. The plan must have been compiled with ``ahead=0``.

    Raises:
        StepFailure: a batch could not be issued.
    """
    current = torch.cuda.current_stream() if streams else None
    for stream in streams:
        stream.wait_stream(current)
    for position in range(max(map(len, plan.channels), default=0)):
        for channel, steps in enumerate(plan.channels):
            if position < len(steps):
                with torch.cuda.stream(streams[channel] if streams else None):
                    _grouped_step(groups[channel], steps[position], regions, combines[channel])
    for stream in streams:
        current.wait_stream(stream)  # type: ignore[union-attr]


def _grouped_step(
    group: dist.ProcessGroup, step: StepPlan, regions: Sequence[torch.Tensor], combine: Combine | None
) -> None:
    for to, source in step.copies:
        regions[to].copy_(regions[source], non_blocking=True)
    batch = [
        dist.P2POp(dist.irecv, regions[region], group=group, group_peer=peer) for _, region, peer in step.posts
    ] + [dist.P2POp(dist.isend, regions[region], group=group, group_peer=peer) for region, peer in step.sends]
    try:
        for work in dist.batch_isend_irecv(batch) if batch else ():
            work.wait()
    except RuntimeError as error:
        progress = Progress(time.monotonic(), step.index, "exchange with", batch[0].group_peer)
        raise StepFailure(progress, error, regions) from error
    for out, left, right in step.early + step.late:
        combine(regions[left], regions[right], out=regions[out])  # type: ignore[misc]
    for to, source in step.unpack:
        regions[to].copy_(regions[source], non_blocking=True)


def finish(plan: Plan, regions: Sequence[torch.Tensor], after: Callable[[], None] | None = None) -> None:
    """The copies that are left when every channel is done."""
    for to, source in plan.finish:
        regions[to].copy_(regions[source])
    if after is not None:
        after()
