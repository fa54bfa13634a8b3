"""One group's collectives: its worker, scratch memory, compiled plans, sequence numbers and failures."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

import torch
import torch.distributed as dist

from . import agreement, failure, flight
from .auto import Picker
from .call import Call, Prepared, Running, Seconds, in_seconds
from .errors import CollectiveError
from .executor import Progress, StepFailure, Team, Tracer, finish, run_streaming
from .graph import Graphs
from .grouped import Grouped
from .heartbeat import Heartbeat
from .link import Link, keeper_of, link_of
from .reduction import Combine
from .shelf import Shelf
from .supervision import Supervision
from .vigil import Vigil
from .work import Outcome, StreamWork, Work, Worker, perform

# gloo never ends the wait for a message that was half on its way when its peer died. One up to this size fits into the
# socket's buffer, so that is rare; an operation with a longer one runs on the worker, and the caller watches.
INLINE_BYTES = 1 << 16
PATIENCE = 1.0  # seconds that operations under way have at the interpreter's end


class Communicator(Supervision):
    """Runs collectives on one process group.

    Args:
        group: a ``torch.distributed`` group that this process is a member of; None is the default group.
        link: how to reach the others, where the group itself cannot tell (it is being made).
        grouped: how to run in NCCL's manner; given, that is done on any backend.

    Operations run in the order of their issue, on all ranks alike. Their messages have tags of their own, so they never
    mix with each other or with the user's own send and recv (whose tags stay below 2³⁰). After a failure the
    communicator is broken, as gloo's connections are: every later call raises at once.
    """

    def __init__(
        self, group: dist.ProcessGroup | None = None, link: Link | None = None, grouped: Grouped | None = None
    ) -> None:
        super().__init__()
        if link is None or group is None:
            group = _member_of(group)
        self.number = _made[group] = _made.get(group, -1) + 1  # several on one group have tags of their own
        self._group = weakref.ref(group)  # weak: destroying the group must close its connections
        known: Communicator | None = _communicators.get(group)
        link = self.link = link or (known.link if known else link_of(group))
        self.rank, self.size, self.backend, self.timeout = link.rank, link.size, link.backend, link.timeout
        self.streaming = self.backend != "nccl" and grouped is None
        self.tracer: Tracer | None = None
        self.compared = 0
        self.picker = Picker(self)
        self.check = os.environ.get("COLLECTIVES_CHECK", "0") not in ("", "0")
        self._lock = threading.RLock()
        self._executed = 0
        self.shelf = Shelf(self.number, self.rank, self.size, self.streaming)
        self._worker: Worker | None = None
        self._teams: list[Worker] = []
        self._leave = partial(_leave, weakref.ref(self))
        self._grouped = grouped or Grouped()
        if not self.streaming:
            alive = partial(_is_there, weakref.ref(self))  # weak: it must not keep alive what it beats for
            self.vigil = Vigil(Heartbeat(link.store, self.rank, self.size, self.label, keeper_of(group), alive))
            atexit.register(self._leave)

    def close(self, patience: float = 0.0) -> None:
        """End the threads. What is under way has ``patience`` seconds; then it is broken off, and its waits raise.

        (A thread that waits for a message which was half on its way when its peer died ends at its timeout.)
        """
        atexit.unregister(self._leave)
        self.graphs.release()
        worker, self._worker = self._worker, None
        if worker is not None and not worker.stop(0.1 if self.broken else patience) and not self.broken:
            self.break_off(CollectiveError("the group was closed in the middle of an operation"))
            worker.join(1.0)
        self.broken = self.broken or CollectiveError("the group is closed")
        self._guard.give_up(self.broken)
        if self.vigil is not None:
            self.vigil.heartbeat.stop()
        self._teams.clear()
        self.link = replace(self.link, wire=None, store=None)

    @property
    def group(self) -> dist.ProcessGroup:
        """The process group; ``ValueError`` once it has been destroyed."""
        group = self._group()
        if group is None:
            raise ValueError("group: it has been destroyed; make a Communicator of a living one")
        return group

    @cached_property
    def label(self) -> str:
        """How records call it: the group's name, which all ranks know it by."""
        group = self._group()
        name = "destroyed" if group is None else str(group.group_name)
        return f"{name}/{self.number}" if self.number else name

    @property
    def graphs(self) -> Graphs:
        """What has been captured on NCCL; empty on gloo."""
        return self._grouped.graphs

    @property
    def destroyed(self) -> bool:
        """Whether the process group is gone, or the communicator closed."""
        return self._group() is None or self.link.wire is None

    # Running.

    def run(self, call: Call, async_op: bool, timeout: Seconds | None, check: bool | None) -> Work | StreamWork | None:
        """Run a call, or start it.

        Raises:
            CollectiveError: it failed, or the group is broken.
            ValueError: the algorithm does not exist, is wrong, or does not fit; nothing was sent.
        """
        self.raise_if_broken(call.describe)
        seconds = self.timeout if timeout is None else in_seconds(timeout)
        check = self.check if check is None else check
        record = flight.current()
        if record is not None:
            call.entry = record.enter(self, call.describe, call.nbytes)
        with self._lock:
            # An asynchronous "auto" is picked on the worker: hearing of rank 0's machine may take until rank 0 comes.
            prepared = None if async_op and call.algorithm == "auto" else self._choose(call, seconds)
            job = partial(self._execute, call, prepared, seconds, check)
            if record is not None and call.entry is not None:
                job = partial(record.follow, call.entry, job)
            if self.vigil is not None:
                self._guard.add(self.vigil, self._look)
                algorithm = "auto" if prepared is None else prepared.algorithm
                with self.vigil.issuing(call.describe, algorithm, seconds) as issued:
                    work = self._grouped.issue(job, call.tensors, async_op, lambda: self.broken)
                    issued.over = self._grouped.over()
                if call.entry is not None:
                    call.entry.over = issued.over
                return work
            if not self._called_back:
                short = prepared is not None and prepared.plan.longest * call.tensors[0].element_size() <= INLINE_BYTES
                if not async_op and short and (self._worker is None or self._worker.idle):
                    job()
                    return None
                outcome = self._background().submit(job)
        if self._called_back:
            outcome = _performed(job)
        if async_op:
            return Work(outcome, self)
        try:
            self.watch(outcome, None)
        except KeyboardInterrupt as error:  # nobody will ask for this operation again: the others must not wait for it
            if not outcome.done and self._running is not None:
                self.fail(call.describe, self._running.algorithm, StepFailure(self._running.teams[0], error))
            raise
        return None

    def cut(self, error: CollectiveError) -> None:
        if self.vigil is None:
            super().cut(error)
            return
        self._grouped.abort()
        failure.patiently(partial(self.vigil.heartbeat.give_up, error.peer, str(error)))

    def in_turn(self, job: Callable[[], object]) -> Work:
        """Run ``job`` in the background after the operations issued before; those that it runs in turn come next.

        With NCCL it runs at once: operations are ordered by their stream.
        """
        if not self.streaming or self._called_back:
            return Work(_performed(job), self)
        with self._lock:
            return Work(self._background().submit(job), self)

    @property
    def _called_back(self) -> bool:
        """Whether an operation that has just ended calls: what it starts comes now, as it does on every other rank."""
        return self._worker is not None and self._worker.here

    def watch(self, outcome: Outcome, seconds: float | None) -> None:
        if self._worker is not None and self._worker.here:
            self._worker.catch_up(outcome)
        super().watch(outcome, seconds)

    def _background(self) -> Worker:
        """The thread of the operations that nobody runs at once."""
        if self._worker is None:
            self._worker = Worker(f"collectives-{self.rank}")
            atexit.register(self._leave)
        return self._worker

    def pick(self, collective: str, nbytes: int, timeout: float, describe: Callable[[], str]) -> str:
        """The algorithm that ``auto`` means; a failure to hear of rank 0's machine is one like any other.

        Raises:
            CollectiveError: rank 0 has not come, or is gone.
        """
        try:
            return self.picker.pick(self, collective, nbytes, timeout)
        except StepFailure as stop:
            raise self.fail(describe, "auto", stop) from stop.cause

    def _choose(self, call: Call, timeout: float) -> Prepared:
        algorithm = call.algorithm
        if algorithm == "auto":
            algorithm = self.pick(call.collective, call.nbytes, timeout, call.describe)
        try:
            with self._lock:
                return self.shelf.prepare(call.collective, algorithm, call.root, call.layout, call.tensors[0].dtype)
        except ValueError as error:
            if call.entry is not None:
                call.entry.fail(error, "refused")
            raise

    def _execute(self, call: Call, prepared: Prepared | None, timeout: float, check: bool) -> None:
        self.raise_if_broken(call.describe)
        deadline = time.monotonic() + timeout
        # counted where operations run, not where they are issued: a callback's comes before those that wait in line
        number, self._executed = self._executed, self._executed + 1
        prepared = prepared or self._choose(call, timeout)
        if call.entry is not None:
            call.entry.seq, call.entry.algorithm = number, prepared.algorithm
        if check:
            text = f"{call.describe()}, algorithm {prepared.algorithm}"
            agreement.compare(self, text, number, call.splits, deadline)
        try:
            with torch.inference_mode() if call.inference else contextlib.nullcontext():
                self._move(call, prepared, number, deadline)
        except CollectiveError:
            raise
        except Exception as error:  # no memory, say: the others must not wait for this rank
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            failed = CollectiveError(f"{call.describe()} failed on rank {self.rank}: {said}", cause="error")
            broken = self.break_off(failed)
            if (record := flight.current()) is not None:
                record.fail(self.label, broken)
            raise broken from error

    def _move(self, call: Call, prepared: Prepared, number: int, deadline: float) -> None:
        """Bring the call's data to where they must be in the end."""
        scratch = self.shelf.scratch(call.tensors[0], prepared.plan.scratch)
        regions = prepared.regions(call.tensors, scratch)
        if self.streaming:
            self._stream_channels(call, prepared, regions, number, deadline)
            finish(prepared.plan, regions, call.after)
            return
        enqueue = partial(self._enqueue, call, prepared, regions)
        try:
            if self.tracer is None:
                kind = prepared, call.combine, call.describe.words
                self.graphs.run(kind, [*call.tensors, scratch], enqueue)
            else:
                enqueue()
        except StepFailure as stop:
            raise self.fail(call.describe, prepared.algorithm, stop) from stop.cause

    def _enqueue(self, call: Call, prepared: Prepared, regions: list[torch.Tensor]) -> None:
        """The whole of a call on NCCL, on the current stream and those of the channels."""
        combines = self._traced([call.combine] * prepared.plan.channels)
        self._grouped.run(self.group, prepared.plan, regions, combines)
        finish(prepared.plan, regions, call.after)

    def _stream_channels(
        self, call: Call, prepared: Prepared, regions: list[torch.Tensor], number: int, deadline: float
    ) -> None:
        """Channels with the same program take turns in one thread; the first such team runs in this one."""
        plan, now = prepared.plan, time.monotonic()
        wires, combines = [self.link.wire] * plan.channels, [call.combine] * plan.channels
        if self.tracer is not None:
            wires = [self.tracer.wire(wire, i) for i, wire in enumerate(wires)]
            combines = self._traced(combines)
        tags = [seed + number for seed in prepared.seeds]
        teams = [Team(turns, wires, combines, tags, Progress(now)) for turns in plan.teams]
        running = self._running = Running(call, prepared.algorithm, deadline, [team.progress for team in teams])
        if call.entry is not None:
            call.entry.teams = running.teams

        def run(team: Team) -> None:
            try:
                run_streaming(team, regions, deadline)
            except StepFailure as stop:
                self.fail(
                    running.call.describe, running.algorithm, stop
                )  # at once, so that the other teams and ranks end, too
            except BaseException as error:  # an interrupt, say: the others must not wait for this rank
                self.fail(running.call.describe, running.algorithm, StepFailure(team.progress, error))
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


def _performed(job: Callable[[], object]) -> Outcome:
    outcome = Outcome()
    perform(job, outcome)
    return outcome


def _leave(communicator: weakref.ref[Communicator]) -> None:
    """At the interpreter's end: a thread that is inside gloo then would take the process down."""
    still = communicator()
    if still is not None:
        still.close(PATIENCE)


def _is_there(communicator: weakref.ref[Communicator]) -> bool:
    still = communicator()
    return still is not None and not still.destroyed


_made: weakref.WeakKeyDictionary[dist.ProcessGroup, int] = weakref.WeakKeyDictionary()
_communicators: weakref.WeakKeyDictionary[dist.ProcessGroup, Communicator] = weakref.WeakKeyDictionary()


def communicator(group: dist.ProcessGroup | Communicator | None = None) -> Communicator:
    """The communicator of a group, made at its first use; a communicator is its own.

    Raises:
        ValueError: no process group yet, or this process is not a member of it.
    """
    if isinstance(group, Communicator):
        return group
    group = dist.group.WORLD if group is None else group
    found = _communicators.get(group) if isinstance(group, dist.ProcessGroup) else None
    if found is None:
        group = _member_of(group)
        found = _communicators[group] = Communicator(group)
    return found


def adopt(group: dist.ProcessGroup, communicator: Communicator) -> None:
    """Have the group's collectives run by a communicator that was made for it."""
    _communicators[group] = communicator


def _member_of(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    if not dist.is_initialized():
        raise ValueError("group=None: torch.distributed has no default group yet; call init_process_group first")
    group = group if group is not None else dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        raise ValueError(f"group={group!r}: rank {dist.get_rank()} is not a member; call it on its members only")
    return group
