"""A benchmark run, as every rank lives it: size by size, all contenders together; rank 0 prints."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from . import report
from .auto import choose
from .communicator import communicator
from .contender import Operands, Problem, check
from .contract import contract_of
from .environment import describe, heading
from .measure import Call, Stopwatch, Timing
from .progress import Progress
from .report import Line, Row
from .settings import DTYPES, Settings
from .span import Span
from .trace import clock_offsets, watch

_REFUSALS = (RuntimeError, ValueError, TypeError, NotImplementedError)  # what a backend says to a dtype it cannot


@dataclass
class Outcome:
    """What a run found. wrong: elements over all ranks, ours and the backend's. All else is empty but on rank 0.

    spans, names: of the trace, and how it calls the ranks.
    """

    environment: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    wrong: int = 0
    spans: list[Span] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)


def run(settings: Settings, backend: str) -> Outcome:
    """The whole run, in the default group; every rank calls it."""
    session = Session(settings, backend)
    outcome = session.run()
    return outcome if session.rank == 0 else Outcome(wrong=outcome.wrong)


class Session:
    """One rank's part."""

    def __init__(self, settings: Settings, backend: str) -> None:
        self.settings = settings
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        index = torch.cuda.current_device() if backend == "nccl" else None
        self.device = torch.device("cpu") if index is None else torch.device("cuda", index)
        self.dtype = getattr(torch, DTYPES[settings.dtype][0])
        self.watch = Stopwatch(self.device, settings.blocking)
        self.outcome = Outcome(environment=describe(settings, backend))
        self.factor = contract_of(settings.collective).factor(self.ranks)

    def run(self) -> Outcome:
        settings = self.settings
        for line in heading(self.outcome.environment, settings):
            self.say(f"# {line}")
        for line in report.title(settings.blocking):
            self.say(line)
        sizes = list(settings.sizes())
        with Progress(len(sizes) * settings.rounds, self.rank == 0) as progress:
            for number, nbytes in enumerate(sizes):
                measured = self.size(number, settings.count(nbytes), progress)
                with progress.aside():
                    for row in measured:
                        self.say(report.table_line(row, settings.blocking))
        for line in report.closing(self.outcome.wrong, self.outcome.rows):
            self.say(line)
        if settings.trace:
            self.gather_spans()
        return self.outcome

    def size(self, number: int, count: int, progress: Progress) -> list[Line]:
        """Time and check all contenders at one size."""
        settings = self.settings
        problem = Problem(
            settings.collective, self.dtype, settings.redop, settings.root, self.rank, self.ranks, count, self.device
        )
        operands = Operands(problem)
        native = self.accepted(operands.native())
        calls = {algorithm: operands.ours(algorithm) for algorithm in settings.algorithms}
        operands.clear()
        timings, first, again = self.time(calls, native, progress)
        blocks = self.ranks if contract_of(settings.collective).blocks else 1
        nbytes = count * blocks * settings.itemsize if settings.collective != "barrier" else 0
        if settings.trace:
            for algorithm, call in calls.items():
                self.watch.line_up()
                label = f"{settings.collective} of {nbytes} bytes, {algorithm}"
                self.outcome.spans += watch(communicator(), call, f"{label} ({number})", nbytes)
        wrong = {a: self.check(operands, call, True, f"{number}/{a}") for a, call in calls.items()}
        native_wrong = self.check(operands, native, False, f"{number}/native")
        self.outcome.wrong += sum(count or 0 for count in (*wrong.values(), native_wrong))
        lines = []
        for algorithm, timing in timings.items():
            row = self.row(algorithm, nbytes, timing, wrong[algorithm], first, again)
            rate = None if first is None else nbytes / first.typical / 1e9
            kind = "none" if row.dtype is None else settings.dtype
            count = 0 if row.dtype is None else count
            lines.append(Line(row, count, kind, settings.root, rate, native_wrong))
        self.outcome.rows += [line.row for line in lines]
        return lines

    def time(
        self, calls: dict[str, Call], native: Call | None, progress: Progress
    ) -> tuple[dict[str, Timing], Timing | None, Timing | None]:
        """Our timings, and the backend's two: its calls stand first and last among the contenders."""
        settings = self.settings
        contenders = [*calls.values()] if native is None else [native, *calls.values(), native]
        iterations = self.watch.iterations(contenders, settings.warmup, settings.iters)
        timings = self.watch.rounds(contenders, iterations, settings.rounds, progress.step)
        if native is None:
            return dict(zip(calls, timings, strict=True)), None, None
        return dict(zip(calls, timings[1:-1], strict=True)), timings[0], timings[-1]

    def row(
        self, algorithm: str, nbytes: int, timing: Timing, wrong: int | None, first: Timing | None, again: Timing | None
    ) -> Row:
        settings, barrier = self.settings, self.settings.collective == "barrier"
        p50, p99 = timing.percentile(50), timing.percentile(99)
        picked = None
        if algorithm == "auto":
            picked = choose(settings.collective, 1 if barrier else nbytes)
        return Row(
            collective=settings.collective,
            algorithm=algorithm,
            bytes=nbytes,
            dtype=None if barrier else DTYPES[settings.dtype][0],
            redop=settings.redop,
            ranks=self.ranks,
            time_us=timing.typical * 1e6,
            cpu_us=timing.cpu_typical * 1e6,
            p50_us=None if p50 is None else p50 * 1e6,
            p99_us=None if p99 is None else p99 * 1e6,
            algbw=nbytes / timing.typical / 1e9,
            busbw=nbytes / timing.typical / 1e9 * self.factor,
            wrong=wrong,
            native_time_us=None if first is None else first.typical * 1e6,
            native_busbw=None if first is None else nbytes / first.typical / 1e9 * self.factor,
            ratio=None if first is None else timing.over(first),
            null=None if first is None or again is None else again.over(first),
            picked=picked,
        )

    def accepted(self, call: Call) -> Call | None:
        """The call, or None if the backend has it not for this dtype and reduction; the ranks agree."""
        try:
            call()
            self.watch.settle()
            accepted = 1
        except _REFUSALS:
            accepted = 0
        return call if self.sum(accepted) == self.ranks else None

    def check(self, operands: Operands, call: Call | None, strict: bool, word: str) -> int | None:
        """Wrong elements over all ranks; None if nothing was checked."""
        if call is None or not self.settings.check:
            return None
        repeats = range(self.settings.check)
        return self.sum(sum(check(operands, call, strict, f"{word}/{repeat}") for repeat in repeats))

    def sum(self, number: int) -> int:
        total = torch.tensor([number], dtype=torch.int64, device=self.device)
        dist.all_reduce(total)
        return int(total.item())

    def gather_spans(self) -> None:
        """All ranks' spans, on rank 0 and on its clock."""
        offsets, spread = clock_offsets()
        common = not any(offsets)
        self.outcome.environment["clock"] = "common" if common else f"aligned at barriers, to {spread * 1e6:.0f} us"
        everyone: list[Any] | None = [None] * self.ranks if self.rank == 0 else None
        mine = [span.moved(offsets[self.rank]) for span in self.outcome.spans]
        dist.gather_object((mine, socket.gethostname()), everyone)
        if everyone is not None:
            self.outcome.spans = [span for spans, _ in everyone for span in spans]
            self.outcome.names = {rank: f"rank {rank} on {host}" for rank, (_, host) in enumerate(everyone)}

    def say(self, line: str) -> None:
        """Rank 0 prints."""
        if self.rank == 0:
            report.say(line)
