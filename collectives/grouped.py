"""How a communicator runs on NCCL: the host only enqueues, streams do the waiting."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .executor import run_grouped
from .graph import Graphs
from .plan import Plan
from .reduction import Combine
from .work import StreamWork


class Grouped:
    """The process groups and streams of one communicator's channels, its graphs, and the order of its operations."""

    def __init__(self) -> None:
        self.graphs = Graphs()
        self._groups: list[dist.ProcessGroup] = []
        self._streams: list[Any] = []
        self._tail: Any = None  # CUDA event: the end of the operation issued last

    def run(
        self,
        group: dist.ProcessGroup,
        plan: Plan,
        regions: Sequence[torch.Tensor],
        combines: Sequence[Combine | None],
    ) -> None:
        """All channels from this thread, each on a process group and a stream of its own.

        Raises:
            StepFailure: a batch could not be issued.
        """
        while len(self._groups) < plan.channels:
            self._groups.append(_channel(dist.get_process_group_ranks(group)))
            self._streams.append(torch.cuda.Stream())
        run_grouped(self._groups[: plan.channels], plan, regions, combines, self._streams[: plan.channels])

    def over(self) -> Callable[[], bool]:
        """Asks the device whether the operation issued last is over (what a caller captures is issued to nothing)."""
        query: Callable[[], bool] = _nothing if self._tail is None else self._tail.query
        return query

    def issue(self, job: Callable[[], None], tensors: Sequence[torch.Tensor], async_op: bool) -> StreamWork | None:
        """Enqueue an operation, an asynchronous one on a side stream.

        Operations share scratch memory and channels, so each waits for the one before, on the device. What a caller
        captures in a graph of its own stays on its stream, which orders it: an event from outside cannot be waited for
        in a capture, nor one of a capture outside.
        """
        current = torch.cuda.current_stream()
        if torch.cuda.is_current_stream_capturing():
            job()
            return StreamWork(current.record_event(), current) if async_op else None
        stream = torch.cuda.Stream() if async_op else current
        stream.wait_stream(current)
        if self._tail is not None:
            stream.wait_event(self._tail)
        with torch.cuda.stream(stream):
            job()
            self._tail = torch.cuda.Event()
            self._tail.record(stream)
        if not async_op:
            return None
        for tensor in tensors:
            tensor.record_stream(stream)
        return StreamWork(self._tail, stream)


def _channel(ranks: list[int]) -> dist.ProcessGroup:
    """A group of these ranks, made by them alone and connected: a batch of only some of them could not do that."""
    with unbound():
        group: dist.ProcessGroup = dist.new_group(ranks, backend="nccl", use_local_synchronization=True)
    dist.all_reduce(torch.zeros(1, device="cuda"), group=group)
    return group


@contextlib.contextmanager
def unbound() -> Iterator[None]:
    """The default group forgets its device for a while.

    torch splits the communicators of new groups off that of a default group with a device, for which NCCL needs all of
    its ranks, also those that are not in the new group.
    """
    world = dist.group.WORLD
    assert world is not None
    device = world.bound_device_id
    world.bound_device_id = None
    try:
        yield
    finally:
        world.bound_device_id = device


def _nothing() -> bool:
    return True
