"""How a communicator runs on NCCL: the host only enqueues, streams do the waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .errors import CollectiveError
from .executor import run_grouped
from .plan import Plan
from .reduction import Combine
from .surroundings import surroundings
from .work import StreamWork

_PATIENCE = 1.0  # seconds for NCCL to end what is under way
# The channels' groups are watched here: PyTorch's own watchdog would end the process, or tell that of every rank to.
UNWATCHED: Mapping[str, str] = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}


class Grouped:
    """The process groups and streams of one communicator's channels, and the order of its operations."""

    def __init__(self) -> None:
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
                self._groups.append(dist.new_group(ranks, backend="nccl", use_local_synchronization=True))
            self._streams.append(torch.cuda.Stream())
        run_grouped(self._groups[: plan.channels], plan, regions, combines, self._streams[: plan.channels])

    def abort(self) -> None:
        """End what is under way: kernels that wait for a dead peer return, and streams go on, with rubbish.

        Each group in a thread of its own: NCCL may end one communicator only when another has ended, too.
        """
        threads = [threading.Thread(target=group.abort, daemon=True) for group in self._groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE)

    def over(self) -> Callable[[], bool]:
        """Asks the device whether the operation issued last is over."""
        query: Callable[[], bool] = self._tail.query
        return query

    def issue(
        self,
        job: Callable[[], None],
        tensors: Sequence[torch.Tensor],
        async_op: bool,
        broken: Callable[[], CollectiveError | None],
    ) -> StreamWork | None:
        """Enqueue an operation, an asynchronous one on a side stream.

        Operations share scratch memory and channels, so each waits for the one before, on the device.

        Args:
            broken: why the group is, once it is.
        """
        current = torch.cuda.current_stream()
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
