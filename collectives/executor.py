"""Run a compiled plan: the one place where tensors move.

Two ways, one plan. ``run_streaming`` (gloo) posts single sends and receives and waits for each; channels with the same
program take turns in one thread, others have a thread each, so that they advance by themselves. ``run_grouped`` (NCCL)
makes one batch of a step and lets streams do the waiting: the host never does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

from .plan import Plan, Turn
from .reduction import Combine

# Tags of gloo messages. The upper half is ours, so a user's own send and recv (tags below it) never mix with them; the
# rest is a hash of the call and of the message's length, so that ranks which disagree never match: gloo ends the whole
# process when a message is longer than its receive.
OURS = 1 << 30
SPREAD = 0x9E3779B1


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
    """Where a team is: the step of its turn, and what it waits for or last did."""

    began: float
    step: int = 0
    verb: str = "send to"
    peer: int = 0


class StepFailure(Exception):
    """A run that stopped: where, after how long, and what the transport said.

    culprit: the rank that gave up, where that is not the one this run waits for.
    """

    def __init__(self, progress: Progress, cause: BaseException, kept: Any = None, culprit: int | None = None) -> None:
        super().__init__(str(cause))
        self.step, self.verb, self.peer = progress.step, progress.verb, progress.peer
        self.waited = time.monotonic() - progress.began
        self.cause, self.culprit = cause, culprit
        self.kept = kept  # works and tensors that the transport may still refer to


def _until(deadline: float) -> timedelta:
    return timedelta(seconds=max(0.001, deadline - time.monotonic()))


@dataclass(slots=True)
class Team:
    """Channels that take turns in one thread; by channel: what to send on, how to combine, and a tag.

    Tags are numbers that all ranks share for this call and channel, and no other call soon.
    """

    turns: Sequence[Turn]
    wires: Sequence[PointToPoint]
    combines: Sequence[Combine | None]
    tags: Sequence[int]
    progress: Progress


def run_streaming(team: Team, regions: Sequence[torch.Tensor], deadline: float) -> None:
    """One team, on a transport whose ``wait`` blocks.

    Args:
        deadline: on ``time.monotonic``; every wait ends by then.

    Raises:
        StepFailure: a send or receive failed; nothing else is tried.
    """
    wires, tags, progress = team.wires, team.tags, team.progress
    under_way: dict[int, Any] = {}
    try:
        for turn in team.turns:
            progress.step, progress.verb = turn.index, "receive from"
            for slot, number, progress.peer, channel in turn.posts:
                region = regions[number]
                tag = OURS | (tags[channel] * SPREAD + region.numel()) % OURS
                under_way[slot] = wires[channel].recv([region], progress.peer, tag)
            for to, source in turn.copies:
                regions[to].copy_(regions[source])
            progress.verb = "send to"
            for slot, number, progress.peer, channel in turn.sends:
                region = regions[number]
                tag = OURS | (tags[channel] * SPREAD + region.numel()) % OURS
                under_way[slot] = wires[channel].send([region], progress.peer, tag)
            combine: Any = team.combines[turn.channel]
            progress.verb = "receive from"
            for slot, progress.peer in turn.awaits:
                under_way.pop(slot).wait(_until(deadline))
            for out, left, right in turn.early:
                combine(regions[left], regions[right], out=regions[out])
            progress.verb = "send to"
            for slot, progress.peer in turn.leaves:
                under_way.pop(slot).wait(_until(deadline))
            for out, left, right in turn.late:
                combine(regions[left], regions[right], out=regions[out])
            for to, source in turn.unpack:
                regions[to].copy_(regions[source])
    except RuntimeError as error:
        raise StepFailure(progress, error, (under_way, regions)) from error


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
    all ranks; the host waits for nothing. The plan must have been compiled with ``ahead=0, together=False``.

    Raises:
        StepFailure: a batch could not be issued.
    """
    current = torch.cuda.current_stream() if streams else None
    for stream in streams:
        stream.wait_stream(current)
    for position in range(max(map(len, plan.teams))):
        for channel, turns in enumerate(plan.teams):
            if position < len(turns):
                with torch.cuda.stream(streams[channel] if streams else None):
                    _grouped_turn(groups[channel], turns[position], regions, combines[channel])
    for stream in streams:
        current.wait_stream(stream)  # type: ignore[union-attr]


def _grouped_turn(
    group: dist.ProcessGroup, turn: Turn, regions: Sequence[torch.Tensor], combine: Combine | None
) -> None:
    for to, source in turn.copies:
        regions[to].copy_(regions[source], non_blocking=True)
    batch = [
        dist.P2POp(dist.irecv, regions[number], group=group, group_peer=peer) for _, number, peer, _ in turn.posts
    ] + [dist.P2POp(dist.isend, regions[number], group=group, group_peer=peer) for _, number, peer, _ in turn.sends]
    try:
        for work in dist.batch_isend_irecv(batch) if batch else ():
            work.wait()
    except RuntimeError as error:
        progress = Progress(time.monotonic(), turn.index, "exchange with", batch[0].group_peer)
        raise StepFailure(progress, error, regions) from error
    for out, left, right in turn.early + turn.late:
        combine(regions[left], regions[right], out=regions[out])  # type: ignore[misc]
    for to, source in turn.unpack:
        regions[to].copy_(regions[source], non_blocking=True)


def finish(plan: Plan, regions: Sequence[torch.Tensor], after: Callable[[], None] | None = None) -> None:
    """The copies that are left when every channel is done."""
    for to, source in plan.finish:
        regions[to].copy_(regions[source])
    if after is not None:
        after()
