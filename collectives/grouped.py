"""How a communicator runs on NCCL: the host only enqueues, streams do the waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .executor import run_grouped
from .plan import Plan
from .reduction import Combine
from .work import StreamWork


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
            self._groups.append(dist.new_group(ranks, backend="nccl", use_local_synchronization=True))
            self._streams.append(torch.cuda.Stream())
        run_grouped(self._groups[: plan.channels], plan, regions, combines, self._streams[: plan.channels])

    def over(self) -> Callable[[], bool]:
        """Asks the device whether the operation issued last is over."""
        query: Callable[[], bool] = self._tail.query
        return query

    def issue(self, job: Callable[[], None], tensors: Sequence[torch.Tensor], async_op: bool) -> StreamWork | None:
        """Enqueue an operation, an asynchronous one on a side stream.

        Operations share scratch memory and channels, so each waits for the one before, on the device.
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
        return StreamWork(self._tail, stream)
