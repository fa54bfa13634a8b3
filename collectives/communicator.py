"""One group's collectives: its worker, scratch memory, compiled plans, sequence numbers and failures."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
import zlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from . import agreement, failure
from .auto import Picker
from .call import Call, Prepared, Running, Seconds, in_seconds
from .combinators import rooted
from .compiler import compile_plan
from .errors import CollectiveError
from .executor import PointToPoint, Progress, StepFailure, Team, Tracer, finish, run_streaming
from .grouped import Grouped
from .layout import Layout
from .proof import PROVED_UP_TO, prove
from .reduction import Combine
from .registry import find
from .schedule import Schedule
from .work import Outcome, StreamWork, Work, Worker

# gloo never ends the wait for a message that was half on its way when its peer died. One up to this size fits into the
# socket's buffer, so that is rare; an operation with a longer one runs on the worker, and the caller watches.
INLINE_BYTES = 1 << 16
# A lone channel receives a step ahead chunks up to this size; the second buffer of larger ones costs more cache than
# that is worth. Channels that take turns do so always.
AHEAD_BYTES = 1 << 19
TICK = 0.25  # seconds between two looks at the peers while an operation lasts


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
        self.number = _made[group] = _made.get(group, -1) + 1  # several on one group have tags of their own
        self._group = weakref.ref(group)  # weak: destroying the group must close its connections
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.backend = dist.get_backend(group)
        self.timeout = _default_timeout(group)
        self.streaming = self.backend != "nccl"
        self.tracer: Tracer | None = None
        self._wire: PointToPoint = _backend_of(group) or weakref.proxy(group)
        self.broken: CollectiveError | None = None
        self.compared = 0
        self.picker = Picker(self)
        self.check = os.environ.get("COLLECTIVES_CHECK", "0") not in ("", "0")
        self._lock, self._failing = threading.RLock(), threading.Lock()
        self._issued = 0
        self._running: Running | None = None
        self._scratch: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}
        self._worker: Worker | None = None
        self._teams: list[Worker] = []
        self._grouped = Grouped()
        self._schedules: dict[Any, tuple[Schedule, bool]] = {}
        self._prepared: dict[Any, Prepared] = {}

    @property
    def group(self) -> dist.ProcessGroup:
        """The process group; ``ValueError`` once it has been destroyed."""
        group = self._group()
        if group is None:
            raise ValueError("group: it has been destroyed; make a Communicator of a living one")
        return group

    @property
    def destroyed(self) -> bool:
        """Whether the process group is gone."""
        return self._group() is None

    # Choosing and compiling.

    def _schedule(self, collective: str, algorithm: str | Schedule, root: int) -> tuple[Schedule, bool]:
        """The schedule with that root, looked up and proved once, and whether it runs in lockstep."""
        key = collective, algorithm, root
        found = self._schedules.get(key)
        if found is None:
            schedule = find(collective, algorithm)
            lockstep = self.size <= PROVED_UP_TO and prove(schedule, self.size).lockstep
            found = _remember(self._schedules, key, (rooted(schedule, root, self.size), lockstep))
        return found

    def _prepare(
        self, collective: str, algorithm: str | Schedule, root: int, layout: Layout, dtype: torch.dtype
    ) -> Prepared:
        """The plan of this rank for such a call, compiled once."""
        key = collective, algorithm, root, layout, dtype
        prepared = self._prepared.get(key)
        if prepared is None:
            schedule, lockstep = self._schedule(collective, algorithm, root)
            chunk = sum(layout.lengths) * dtype.itemsize / schedule.channels / schedule.chunk_count(self.size)
            ahead = 1 if self.streaming and (schedule.channels > 1 or chunk <= AHEAD_BYTES) else 0
            plan = compile_plan(schedule, self.rank, self.size, layout, ahead, self.streaming, lockstep)
            kind = f"{self.number}|{collective}|{schedule}|{root}|{dtype}"
            seeds = [zlib.crc32(f"{kind}|{i}".encode()) for i in range(schedule.channels)]
            prepared = _remember(self._prepared, key, Prepared(str(schedule), plan, seeds))
        return prepared

    # Running.

    def run(self, call: Call, async_op: bool, timeout: Seconds | None, check: bool | None) -> Work | StreamWork | None:
        """Run a call, or start it.

        Raises:
            CollectiveError: it failed, or the group is broken.
            ValueError: the algorithm does not exist, is wrong, or does not fit; nothing was sent.
        """
        self._raise_if_broken(call)
        seconds = self.timeout if timeout is None else in_seconds(timeout)
        with self._lock:
            # An asynchronous "auto" is picked on the worker: hearing of rank 0's machine may take until rank 0 comes.
            prepared = None if async_op and call.algorithm == "auto" else self._choose(call, seconds)
            number, self._issued = self._issued, self._issued + 1
            job = partial(self._execute, call, prepared, number, seconds, self.check if check is None else check)
            if not self.streaming:
                return self._grouped.issue(job, call.tensors, async_op)
            short = prepared is not None and prepared.plan.longest * call.tensors[0].element_size() <= INLINE_BYTES
            if not async_op and short and (self._worker is None or self._worker.idle):
                job()
                return None
            if self._worker is None:
                self._worker = Worker(f"collectives-{self.rank}")
            outcome = self._worker.submit(job)
        if async_op:
            return Work(outcome, self.watch)
        try:
            self.watch(outcome, None)
        except KeyboardInterrupt as error:  # nobody will ask for this operation again: the others must not wait for it
            if not outcome.done and self._running is not None:
                self._fail(call.describe, self._running.algorithm, StepFailure(self._running.teams[0], error))
            raise
        return None

    def pick(self, collective: str, nbytes: int, timeout: float, describe: Callable[[], str]) -> str:
        """The algorithm that ``auto`` means; a failure to hear of rank 0's machine is one like any other.

        Raises:
            CollectiveError: rank 0 has not come, or is gone.
        """
        try:
            return self.picker.pick(self, collective, nbytes, timeout)
        except StepFailure as stop:
            raise self._fail(describe, "auto", stop) from stop.cause

    def _choose(self, call: Call, timeout: float) -> Prepared:
        algorithm = call.algorithm
        if algorithm == "auto":
            algorithm = self.pick(call.collective, call.nbytes, timeout, call.describe)
        with self._lock:
            return self._prepare(call.collective, algorithm, call.root, call.layout, call.tensors[0].dtype)

    def _raise_if_broken(self, call: Call) -> None:
        if self.broken is not None:
            raise CollectiveError(f"{call.describe()}: the group is broken since an earlier failure ({self.broken})")

    def watch(self, outcome: Outcome, seconds: float | None) -> None:
        """Wait for an operation, and look after the peers meanwhile: a wait for a send to a dead one never ends.

        Raises:
            CollectiveError: what went wrong; TimeoutError: ``seconds`` have passed.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not outcome.wait(TICK if until is None else min(TICK, max(0.0, until - time.monotonic()))):
            if self.broken is None and self._running is not None:
                self._look_after_peers(self._running)
            if self.broken is not None:
                raise self.broken
            if until is not None and time.monotonic() >= until:
                raise TimeoutError

    def _look_after_peers(self, running: Running) -> None:
        """Fail the operation under way if a connection has closed, naming what waits for it.

        Around the deadline it ends by itself, and a timeout closes this rank's own connections: no sign of a dead peer.
        """
        if time.monotonic() > running.deadline - TICK / 2:
            return
        if self.destroyed:
            self.broken = CollectiveError(f"{running.call.describe()}: the group was destroyed in the middle of it")
            return
        closed = failure.closed_peers(self)
        waits = [(team, team.step, team.verb, team.peer) for team in running.teams if team.peer in closed]
        if not waits:  # whoever has gone had done its part, unless it has left a word that it gave up
            for culprit in failure.who_gave_up(self, closed)[:1]:
                gone = RuntimeError("connection closed by peer")
                self._fail(
                    running.call.describe, running.algorithm, StepFailure(running.teams[0], gone, culprit=culprit)
                )
            return
        time.sleep(0.02)
        for team, *before in waits:
            if [team.step, team.verb, team.peer] == before and self._running is running:
                self._fail(
                    running.call.describe,
                    running.algorithm,
                    StepFailure(team, RuntimeError("connection closed by peer")),
                )

    def _fail(self, describe: Callable[[], str], algorithm: str, stop: StepFailure) -> CollectiveError:
        """Break this communicator, once, and let the other ranks know at once."""
        with self._failing:
            if self.broken is None:
                self.broken = failure.give_up(self, describe(), algorithm, stop)
            return self.broken

    def _execute(self, call: Call, prepared: Prepared | None, number: int, timeout: float, check: bool) -> None:
        self._raise_if_broken(call)
        deadline = time.monotonic() + timeout
        prepared = prepared or self._choose(call, timeout)
        if check:
            text = f"{call.describe()}, algorithm {prepared.algorithm}"
            agreement.compare(self, text, number, call.splits, deadline)
        first, channels = call.tensors[0], prepared.plan.channels
        with torch.inference_mode() if call.inference else contextlib.nullcontext():
            regions = prepared.regions(call.tensors, self.scratch(first, prepared.plan.scratch))
            if self.streaming:
                self._stream_channels(call, prepared, regions, number, deadline)
            else:
                try:
                    self._grouped.run(self.group, prepared.plan, regions, self._traced([call.combine] * channels))
                except StepFailure as stop:
                    raise self._fail(call.describe, prepared.algorithm, stop) from stop.cause
            finish(prepared.plan, regions, call.after)

    def _stream_channels(
        self, call: Call, prepared: Prepared, regions: list[torch.Tensor], number: int, deadline: float
    ) -> None:
        """Channels with the same program take turns in one thread; the first such team runs in this one."""
        plan, now = prepared.plan, time.monotonic()
        wires, combines = [self._wire] * plan.channels, [call.combine] * plan.channels
        if self.tracer is not None:
            wires = [self.tracer.wire(wire, i) for i, wire in enumerate(wires)]
            combines = self._traced(combines)
        tags = [seed + number for seed in prepared.seeds]
        teams = [Team(turns, wires, combines, tags, Progress(now)) for turns in plan.teams]
        running = self._running = Running(call, prepared.algorithm, deadline, [team.progress for team in teams])

        def run(team: Team) -> None:
            try:
                run_streaming(team, regions, deadline)
            except StepFailure as stop:
                self._fail(
                    running.call.describe, running.algorithm, stop
                )  # at once, so that the other teams and ranks end, too
            except BaseException as error:  # an interrupt, say: the others must not wait for this rank
                self._fail(running.call.describe, running.algorithm, StepFailure(team.progress, error))
                raise

        others = []
        for i, team in enumerate(teams[1:]):
            if len(self._teams) == i:
                self._teams.append(Worker(f"collectives-{self.rank}-team-{i + 1}"))
            others.append(self._teams[i].submit(partial(run, team)))
        run(teams[0])
        for other in others:
            other.wait(-1)
        self._running = None
        if self.broken is not None:
            raise self.broken

    def _traced(self, combines: list[Combine | None]) -> list[Combine | None]:
        if self.tracer is None:
            return combines
        return [combine and self.tracer.combine(combine, i) for i, combine in enumerate(combines)]

    def scratch(self, like: torch.Tensor, elements: int) -> torch.Tensor:
        """This communicator's scratch memory for ``like``'s device and dtype; grown when needed, never shrunk."""
        key = like.device, like.dtype
        held = self._scratch.get(key)
        if held is None or held.numel() < elements:
            if held is not None and held.is_cuda:
                torch.cuda.synchronize(held.device)  # an operation under way may still use it
            with torch.inference_mode(False):  # it outlives the call, which may be inside
                held = torch.empty(max(elements, 1024), dtype=like.dtype, device=like.device)
            self._scratch[key] = held
            for prepared in self._prepared.values():  # their views would keep the old one alive
                prepared.scratch, prepared.views = None, []
        return held


T = TypeVar("T")


def _remember(cache: dict[Any, T], key: Any, value: T) -> T:
    """Put a value into a cache that holds a few hundred; the oldest goes.

    (Not lru_cache: through a method it would keep the communicator, and so the group's connections, from being freed.)
    """
    if len(cache) >= 256:
        del cache[next(iter(cache))]
    cache[key] = value
    return value


def _backend_of(group: dist.ProcessGroup) -> Any:
    """gloo's own object behind a group (a send through the group costs several microseconds more); else None."""
    if dist.get_backend(group) != "gloo":
        return None
    try:
        return group._get_backend(torch.device("cpu"))
    except (AttributeError, RuntimeError):  # a torch that hides it, or a group of another make
        return None


def _default_timeout(group: dist.ProcessGroup) -> float:
    """The group's own timeout, in seconds."""
    try:
        device = torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")
        timeout = group._get_backend(device).options._timeout
    except (AttributeError, RuntimeError):  # a backend of another make: torch's default
        timeout = dist.default_pg_timeout
    assert isinstance(timeout, timedelta)
    return timeout.total_seconds()


_made: weakref.WeakKeyDictionary[dist.ProcessGroup, int] = weakref.WeakKeyDictionary()
_communicators: weakref.WeakKeyDictionary[dist.ProcessGroup, Communicator] = weakref.WeakKeyDictionary()


def communicator(group: dist.ProcessGroup | None = None) -> Communicator:
    """The communicator of a group, made at its first use.

    Raises:
        ValueError: no process group yet, or this process is not a member of it.
    """
    group = dist.group.WORLD if group is None else group
    found = _communicators.get(group) if isinstance(group, dist.ProcessGroup) else None
    if found is None:
        group = _member_of(group)
        found = _communicators[group] = Communicator(group)
    return found


def _member_of(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    if not dist.is_initialized():
        raise ValueError("group=None: torch.distributed has no default group yet; call init_process_group first")
    group = group if group is not None else dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        raise ValueError(f"group={group!r}: rank {dist.get_rank()} is not a member; call it on its members only")
    return group
