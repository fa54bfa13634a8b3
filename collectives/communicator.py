"""One group's collectives: its worker, scratch memory, compiled plans, sequence numbers and failures."""

from __future__ import annotations

import threading
import time
import weakref
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

import torch
import torch.distributed as dist

from . import agreement, failure
from .auto import Picker
from .combinators import rooted
from .errors import CollectiveError
from .executor import OURS, PointToPoint, Progress, StepFailure, finish, run_grouped, run_streaming, views
from .layout import Layout
from .plan import Plan, compile_plan
from .proof import PROVED_UP_TO, prove
from .reduction import Combine
from .registry import find
from .schedule import Schedule
from .work import StreamWork, Work, Worker

# gloo never ends the wait for a send that was under way when its peer died. A message up to this size fits into the
# socket's buffer, so that wait is short; an operation with a longer one runs on the worker, and the caller watches.
INLINE_BYTES = 1 << 16
TICK = 0.25  # seconds between two looks at the peers while an operation lasts


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a collective, checked and ready to run.

    tensors: the caller's, flat and contiguous, numbered as ``layout`` numbers them; after: runs when all is done.
    text: what the ranks must agree on, in words; nbytes: the whole buffer.
    """

    collective: str
    algorithm: str | Schedule
    layout: Layout
    tensors: Sequence[torch.Tensor]
    nbytes: int
    text: str
    root: int = 0
    combine: Combine | None = None
    after: Callable[[], None] | None = None


class Running:
    """The streaming operation under way, and where each of its channels is."""

    def __init__(self, call: Call, algorithm: str, channels: int) -> None:
        self.call, self.algorithm = call, algorithm
        self.channels = [Progress(time.monotonic()) for _ in range(channels)]
        self._first = threading.Lock()

    def stop(self, communicator: Communicator, stop: StepFailure) -> None:
        """A channel has failed: break the communicator, once, and let the other ranks know."""
        with self._first:
            if communicator.broken is None:
                communicator.broken = failure.give_up(communicator, self.call.text, self.algorithm, stop)

    def fail(self, communicator: Communicator, dead: list[int]) -> None:
        """The watcher found peers whose connection is closed: say what waits for one of them."""
        waiting = [progress for progress in self.channels if progress.peer in dead] or self.channels
        cause = RuntimeError(f"Connection closed by peer (rank {', '.join(map(str, dead))})")
        self.stop(communicator, StepFailure(waiting[0], cause))


class Communicator:
    """Runs collectives on one process group.

    Args:
        group: a ``torch.distributed`` group that this process is a member of; None is the default group.

    Operations run in the order of their issue, on all ranks alike. Their messages have tags of their own, so they never
    mix with each other or with the user's own send and recv (whose tags stay below 2³⁰). After a failure the
    communicator is broken, as gloo's connections are: every later call raises at once.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        group = _member_of(group)
        self._group = weakref.ref(group)  # weak: destroying the group must close its connections
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.backend = dist.get_backend(group)
        self.timeout = _default_timeout(group)
        self.streaming = self.backend != "nccl"
        self.wire: PointToPoint | None = None  # send and receive on this instead of the group (a tracer, say)
        self.broken: CollectiveError | None = None
        self.picker = Picker(self)
        self._lock = threading.RLock()
        self._issued = 0
        self._running: Running | None = None
        self._scratch: dict[tuple[torch.device, int], torch.Tensor] = {}
        self._worker: Worker | None = None
        self._channels: list[Worker] = []
        self._groups: list[dist.ProcessGroup] = []
        self._streams: list[Any] = []
        self.schedule = lru_cache(maxsize=256)(self._schedule)
        self.plan = lru_cache(maxsize=256)(self._plan)

    @property
    def group(self) -> dist.ProcessGroup:
        """The process group; ``ValueError`` once it has been destroyed."""
        group = self._group()
        if group is None:
            raise ValueError("group: it has been destroyed; make a Communicator of a living one")
        return group

    # Choosing and compiling.

    def _schedule(self, collective: str, algorithm: str | Schedule, root: int) -> Schedule:
        schedule = find(collective, algorithm)
        if self.size <= PROVED_UP_TO:
            prove(schedule, self.size)
        return rooted(schedule, root, self.size)

    def _plan(self, schedule: Schedule, layout: Layout) -> Plan:
        return compile_plan(schedule, self.rank, self.size, layout, ahead=1 if self.streaming else 0)

    # Running.

    def run(self, call: Call, async_op: bool, timeout: float | None, check: bool) -> Work | StreamWork | None:
        """Run a call, or start it.

        Raises:
            CollectiveError: it failed, or the group is broken.
            ValueError: the algorithm does not exist, is wrong, or does not fit; nothing was sent.
        """
        if self.broken is not None:
            raise CollectiveError(f"{call.text}: the group is broken since an earlier failure ({self.broken})")
        timeout = self.timeout if timeout is None else timeout
        with self._lock:
            algorithm = call.algorithm
            if algorithm == "auto":
                algorithm = self.picker.pick(call.collective, call.nbytes, timeout)
            schedule = self.schedule(call.collective, algorithm, call.root)
            plan = self.plan(schedule, call.layout)
            number, self._issued = self._issued, self._issued + 1

            def job() -> None:
                if self.broken is not None:
                    raise CollectiveError(f"{call.text}: the group is broken since an earlier failure ({self.broken})")
                deadline = time.monotonic() + timeout
                if check:
                    agreement.compare(self, f"{call.text}, algorithm {schedule}", number, deadline)
                self._execute(call, schedule, plan, number, deadline)

            if not self.streaming:
                return self._issue_on_stream(job, call.tensors, async_op)
            short = plan.longest * call.tensors[0].element_size() <= INLINE_BYTES
            if not async_op and short and (self._worker is None or self._worker.idle):
                job()
                return None
            if self._worker is None:
                self._worker = Worker(f"collectives-{self.rank}")
            future = self._worker.submit(job)
        if async_op:
            return Work(future, self.watch)
        self.watch(future, None)
        return None

    def watch(self, future: Future[None], seconds: float | None) -> None:
        """Wait for an operation, and look after the peers meanwhile: a wait for a send to a dead one never ends.

        Raises:
            CollectiveError: what went wrong; TimeoutError: ``seconds`` have passed.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            tick = TICK if until is None else min(TICK, max(0.0, until - time.monotonic()))
            try:
                return future.result(tick)
            except FutureTimeout:
                if future.done():
                    raise
            if self.broken is None and self._running is not None:
                dead = failure.closed_peers(self)
                if dead:
                    self._running.fail(self, dead)
            if self.broken is not None:
                raise self.broken
            if until is not None and time.monotonic() >= until:
                raise TimeoutError

    def _execute(self, call: Call, schedule: Schedule, plan: Plan, number: int, deadline: float) -> None:
        with torch.no_grad():
            regions = views(plan, call.tensors, self.scratch(call.tensors[0], plan.scratch))
            signature = f"{number}|{call.collective}|{schedule}|{call.root}|{call.tensors[0].dtype}"
            if self.streaming:
                self._running = running = Running(call, str(schedule), len(plan.channels))
                self._stream_channels(running, plan, regions, signature, deadline)
                self._running = None
            else:
                try:
                    self._group_channels(plan, regions, call)
                except StepFailure as stop:
                    self.broken = failure.give_up(self, call.text, str(schedule), stop)
                    raise self.broken from stop.cause
            finish(plan, regions, call.after)

    def _stream_channels(
        self, running: Running, plan: Plan, regions: list[torch.Tensor], signature: str, deadline: float
    ) -> None:
        """Every channel in a thread of its own, the first one in this."""
        wire = self.wire or self.group

        def channel(i: int) -> None:
            tag = zlib.crc32(f"{signature}|{i}".encode()) % OURS
            combine = running.call.combine
            try:
                run_streaming(wire, plan.channels[i], regions, combine, tag, deadline, running.channels[i])
            except StepFailure as stop:
                running.stop(self, stop)  # at once, so that the other channels and ranks end, too

        while len(self._channels) < len(plan.channels) - 1:
            self._channels.append(Worker(f"collectives-{self.rank}-channel-{len(self._channels) + 1}"))
        others = [self._channels[i - 1].submit(partial(channel, i)) for i in range(1, len(plan.channels))]
        channel(0)
        for other in others:
            other.result()
        if self.broken is not None:
            raise self.broken

    def _group_channels(self, plan: Plan, regions: list[torch.Tensor], call: Call) -> None:
        while len(self._groups) < len(plan.channels):
            ranks = dist.get_process_group_ranks(self.group)
            self._groups.append(dist.new_group(ranks, backend=self.backend, use_local_synchronization=True))
            if call.tensors[0].is_cuda:
                self._streams.append(torch.cuda.Stream())
        channels = len(plan.channels)
        run_grouped(self._groups[:channels], plan, regions, call.combine, self._streams[:channels])

    def _issue_on_stream(
        self, job: Callable[[], None], tensors: Sequence[torch.Tensor], async_op: bool
    ) -> StreamWork | None:
        """NCCL: the host only enqueues, so an asynchronous operation is one on a side stream."""
        if not async_op:
            job()
            return None
        side, current = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            job()
            event = torch.cuda.Event()
            event.record(side)
        for tensor in tensors:
            tensor.record_stream(side)
        return StreamWork(event)

    def scratch(self, like: torch.Tensor, elements: int) -> torch.Tensor:
        """This communicator's scratch memory as elements of ``like``'s dtype; grown when needed, never shrunk."""
        key = like.device, like.element_size()
        held = self._scratch.get(key)
        if held is None or held.numel() < elements:
            self._scratch[key] = held = torch.empty(max(elements, 1024), dtype=like.dtype, device=like.device)
        return held if held.dtype == like.dtype else held.view(like.dtype)


def _default_timeout(group: dist.ProcessGroup) -> float:
    """The group's own timeout, in seconds."""
    try:
        device = torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")
        timeout = group._get_backend(device).options._timeout
    except (AttributeError, RuntimeError):  # a backend of another make: torch's default
        timeout = dist.default_pg_timeout
    assert isinstance(timeout, timedelta)
    return timeout.total_seconds()


_communicators: weakref.WeakKeyDictionary[dist.ProcessGroup, Communicator] = weakref.WeakKeyDictionary()


def communicator(group: dist.ProcessGroup | None = None) -> Communicator:
    """The communicator of a group, made at its first use.

    Raises:
        ValueError: no process group yet, or this process is not a member of it.
    """
    group = _member_of(group)
    found = _communicators.get(group)
    if found is None:
        found = _communicators[group] = Communicator(group)
    return found


def _member_of(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    if not dist.is_initialized():
        raise ValueError("group=None: torch.distributed has no default group yet; call init_process_group first")
    group = group if group is not None else dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        raise ValueError(f"group={group!r}: rank {dist.get_rank()} is not a member; call it on its members only")
    return group
