"""How a communicator runs on NCCL: the host only enqueues, streams do the waiting."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .errors import CollectiveError
from .executor import run_grouped
from .graph import Graphs
from .plan import Plan
from .reduction import Combine
from .surroundings import surroundings
from .work import StreamWork

_PATIENCE = 1.0  # seconds for NCCL to end what is under way
# The channels' groups are watched here: PyTorch's own watchdog would end the process, or tell that of every rank to.
UNWATCHED: Mapping[str, str] = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}


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
            ranks = dist.get_process_group_ranks(group)
            with surroundings(UNWATCHED):
                self._groups.append(_channel(ranks))
            self._streams.append(torch.cuda.Stream())
        run_grouped(self._groups[: plan.channels], plan, regions, combines, self._streams[: plan.channels])

    def abort(self) -> None:
        """End what is under way: kernels that wait for a dead peer return, and streams go on, with rubbish.

        Each group in a thread of its own: NCCL may end one communicator only when another has ended, too; and none
        before the graphs that hold its operations.
        """
        self.graphs.release()
        threads = [threading.Thread(target=group.abort, daemon=True) for group in self._groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE)

    def over(self) -> Callable[[], bool]:
        """Asks the device whether the operation issued last is over (what a caller captures is issued to nothing)."""
        query: Callable[[], bool] = _nothing if self._tail is None else self._tail.query
        return query

    def issue(
        self,
        job: Callable[[], None],
        tensors: Sequence[torch.Tensor],
        async_op: bool,
        broken: Callable[[], CollectiveError | None],
    ) -> StreamWork | None:
        """Enqueue an operation, an asynchronous one on a side stream.

        Operations share scratch memory and channels, so each waits for the one before, on the device. What a caller
        captures in a graph of its own stays on its stream, which orders it: an event from outside cannot be waited for
        in a capture, nor one of a capture outside.

        Args:
            broken: why the group is, once it is.
        """
        current = torch.cuda.current_stream()
        if torch.cuda.is_current_stream_capturing():
            job()
            return StreamWork(current.record_event(), current, broken) if async_op else None
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
        return StreamWork(self._tail, stream, broken)


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
