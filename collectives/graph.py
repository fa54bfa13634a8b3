"""A collective on NCCL, captured in a CUDA graph: enqueued once, then replayed by a single launch.

    1st call   enqueued as ever: connections are made, and nothing is captured that is used once
    2nd call   captured, which runs nothing, then replayed
    later      replayed: one launch, instead of one a batch, an addition and a copy

A graph is good for the memory that it was captured on. It is kept under all that the enqueueing depends on, addresses
included, and goes when one of their storages goes: another tensor, or the same one moved, is captured anew.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch

if TYPE_CHECKING:
    import torch.distributed as dist

    from .communicator import Communicator

MOST_KEPT = 256  # the oldest goes, as on the shelf

Enqueue: TypeAlias = Callable[[], object]


@contextlib.contextmanager
def captured(group: dist.ProcessGroup | Communicator | None = None) -> Iterator[None]:
    """While this lasts, collectives of ``group`` that come again on the same memory are replayed from CUDA graphs.

    For buffers that are used again and again. The end gives all its graphs back, which must happen before the process
    group is destroyed: NCCL's communicators wait for the graphs that hold their operations (``commDestroySync``, NCCL
    2.26 and later). It may be entered several times. On gloo there is nothing to capture.

    If a capture fails, one line in the log says why, and the operations are enqueued one by one as before.

    Raises:
        ValueError: no process group yet, or this process is not a member of it.
    """
    from .communicator import communicator

    graphs = communicator(group).graphs
    graphs.wanted += 1
    try:
        yield
    finally:
        graphs.wanted -= 1
        if not graphs.wanted:
            graphs.release()


@dataclass(slots=True)
class Kept:
    """One operation: how to replay it, once it has been captured, and the storages that it is about."""

    storages: list[weakref.ref[torch.UntypedStorage]]
    replay: Enqueue | None = None


class Graphs:
    """The graphs of one communicator.

    Args:
        capture: makes a replay of what a function enqueues, without running it.

    Attributes:
        wanted: how many want graphs now; at 0 everything is enqueued one by one.
        refusal: why a capture has failed; none is tried after that.
    """

    def __init__(self, capture: Callable[[Enqueue], Enqueue] | None = None) -> None:
        self.wanted = 0
        self.refusal: str | None = None
        self._capture = capture or capture_cuda
        self._kept: dict[Hashable, Kept] = {}

    def __len__(self) -> int:
        """How many operations have been captured and are still there."""
        return sum(kept.replay is not None for kept in list(self._kept.values()))

    def run(self, key: Hashable, memory: Sequence[torch.Tensor], enqueue: Enqueue) -> None:
        """Have what ``enqueue`` enqueues done on the current stream, from a graph where there is one.

        Args:
            key: all that it depends on but addresses.
            memory: the tensors that it reads and writes; those that it makes itself are its own.
        """
        if not self.wanted or (memory[0].is_cuda and torch.cuda.is_current_stream_capturing()):  # by the caller
            enqueue()
            return
        key = key, tuple(tensor.data_ptr() for tensor in memory)
        kept = self._kept.get(key)
        if kept is None:
            enqueue()
            self._remember(key, memory)
            return
        if kept.replay is None and self.refusal is None:
            kept.replay = self._try(enqueue)
        (kept.replay or enqueue)()

    def release(self) -> None:
        """Give all graphs back; to be done before NCCL's communicators are destroyed or aborted."""
        self._kept.clear()

    def _try(self, enqueue: Enqueue) -> Enqueue | None:
        try:
            return self._capture(enqueue)
        except Exception as error:  # whatever CUDA or NCCL cannot capture, it can do without
            self.refusal = f"{type(error).__name__}: {error}".splitlines()[0]
            logging.getLogger(__package__).warning(
                "CUDA graph: a collective could not be captured (%s); it goes on without", self.refusal
            )
            return None

    def _remember(self, key: Hashable, memory: Sequence[torch.Tensor]) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._kept.pop(next(iter(self._kept)), None)
        gone = partial(_forget, weakref.ref(self), key)
        self._kept[key] = Kept([weakref.ref(tensor.untyped_storage(), gone) for tensor in memory])


def _forget(graphs: weakref.ref[Graphs], key: Hashable, _storage: object) -> None:
    """A storage has gone: its address may become another's."""
    still = graphs()
    if still is not None:
        still._kept.pop(key, None)


def capture_cuda(enqueue: Enqueue) -> Enqueue:
    """Capture on a stream of its own; the host waits for nothing, and no memory is given back to the driver.

    Only what this thread does is captured and refused (``thread_local``): NCCL's watchdog may ask for its events.

    Raises:
        RuntimeError: something in it cannot be captured, or what it calls raises.
    """
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            enqueue()
        except BaseException:
            with contextlib.suppress(RuntimeError):  # a broken capture ends with an error of its own
                graph.capture_end()
            raise
        graph.capture_end()
    replay: Enqueue = graph.replay
    return replay
