"""A benchmark run, as every rank lives it: size by size, all contenders together; rank 0 prints."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist

from ..auto import choose, machine_here
from ..communicator import communicator
from ..contract import contract_of
from ..graph import captured
from ..progress import Progress
from ..registry import arranged, find
from ..schedule import Schedule
from ..span import Span
from ..trace import clock_offsets, watch
from . import report, wire
from .baseline import Baseline, baselines_of, make_group
from .compute import Compute
from .contender import Operands, Problem, check
from .contest import Contest, blank_row, compared
from .cycles import merged
from .entrants import with_channels, with_graph
from .environment import asked, describe, heading, seats_of_ranks
from .expectation import Expectation, expect, expected, foretold
from .measure import Call, Stopwatch
from .nccl_settings import Evidence
from .order import Orders, orders_here, orders_over_interfaces
from .probe import probes_of
from .report import Line, Row, columns
from .residual import verdicts
from .settings import DTYPES, Settings

_REFUSALS = (RuntimeError, ValueError, TypeError, NotImplementedError)  # what a backend says to a dtype it cannot


@dataclass
class Outcome:
    """What a run found. wrong: elements over all ranks, ours and the backend's. All else is empty but on rank 0.

    baselines: the rows of the wire and of the backend under other settings.

    spans, names: of the trace, and how it calls the ranks.
    """

    environment: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    baselines: list[Row] = field(default_factory=list)
    wrong: int = 0
    spans: list[Span] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)


def run(settings: Settings, backend: str) -> Outcome:
    """The whole run, in the default group; every rank calls it."""
    session = Session(settings, backend)
    with captured(session.group) if session.graph else contextlib.nullcontext():
        outcome = session.run()
    return outcome if session.rank == 0 else Outcome(wrong=outcome.wrong)


class Session:
    """One rank's part."""

    def __init__(self, settings: Settings, backend: str) -> None:
        self.settings, self.backend = settings, backend
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        index = torch.cuda.current_device() if backend == "nccl" else None
        self.device = torch.device("cpu") if index is None else torch.device("cuda", index)
        self.dtype = getattr(torch, DTYPES[settings.dtype][0])
        self.watch = Stopwatch(self.device, settings.blocking)
        environment, self.hosts = describe(backend)
        self.outcome = Outcome(environment={**environment, **asked(settings)})
        self.factor = contract_of(settings.collective).factor(settings.members)
        self.said: list[str] = []
        self.group, self.baselines = self.groups()
        self.seats = seats_of_ranks(self.hosts, backend)
        self.orders = self.agreed_orders()
        self.settings = settings = with_channels(settings, backend, self.orders)
        self.schedules = {name: arranged(name, settings.collective, self.orders) for name in settings.algorithms}
        self.graph, refusal = with_graph(settings.graph, backend)
        self.said += refusal
        self.expectation: Expectation | None = None
        self.compute = Compute(settings.compute, self.watch) if settings.compute else None

    def run(self) -> Outcome:
        settings, rows, baselines = self.settings, self.outcome.rows, self.outcome.baselines
        for text in (*heading(self.outcome.environment, settings, self.hosts, self.graph), *self.said):
            self.say(f"# {text}")
        if settings.predict and settings.members > 1:
            self.expectation = self.probe()
        extra = columns(settings)
        for text in report.title(extra):
            self.say(text)
        cycles = [self.cycle(number, extra) for number in range(settings.cycles)]
        lines: list[Line] = cycles[0]
        if settings.cycles > 1:
            together = merged([[line.row for line in cycle] for cycle in cycles])
            lines = [line.with_row(row) for line, row in zip(lines, together, strict=True)]
            self.say(f"# medians of {settings.cycles} cycles; iqr is the interquartile range of their times")
            for line in lines:
                self.say(report.table_line(line, extra))
        for line in lines:
            (rows if line.row.algorithm in settings.algorithms else baselines).append(line.row)
        for text in verdicts(rows, baselines, self.expectation, self.schedule):
            self.say(f"# {text}")
        for text in report.closing(self.outcome.wrong, rows, settings.least_busbw):
            self.say(text)
        refused = communicator(self.group).graphs.refusal is not None
        self.outcome.environment["graph"] = self.graph and not self.sum(refused)
        if settings.trace:
            self.gather_spans()
        return self.outcome

    # What is made once.

    def groups(self) -> tuple[dist.ProcessGroup | None, dict[str, dist.ProcessGroup]]:
        """This rank's group if the ranks are divided (``--split``), and those of the baselines."""
        settings, evidence = self.settings, Evidence()
        own = None
        if len(settings.groups) > 1:
            own = make_group(Baseline("own"), settings.groups, self.backend, self.device)
        found = {}
        for baseline in baselines_of(self.backend):
            if settings.baselines is not None and baseline.name not in settings.baselines:
                continue
            evidence.forget()
            group = make_group(baseline, settings.groups, self.backend, self.device)
            if self.sum(evidence.confirms(baseline.forced)) == self.ranks:
                found[baseline.name] = group
            else:
                self.said.append(
                    f"{baseline.name} left out: NCCL's log does not confirm its settings; unset NCCL_DEBUG"
                )
        known = {wire.NAME, *(baseline.name for baseline in baselines_of(self.backend))}
        self.said += [
            f"{name} left out: the backend is {self.backend}" for name in settings.baselines or () if name not in known
        ]
        return own, found

    def agreed_orders(self) -> Orders:
        """Those that were given, or what the machine suggests: NCCL's as rank 0 sees it."""
        if not self.settings.find_order:
            return self.settings.orders
        if self.backend != "nccl":
            orders, sentence = orders_over_interfaces(self.seats)
        else:
            found: list[Any] = [orders_here(self.seats) if self.rank == 0 else None]
            dist.broadcast_object_list(found, 0)
            orders, sentence = found[0]
        self.said += [sentence] if sentence else []
        self.outcome.environment["orders"] = [list(order) for order in orders]
        return orders

    def probe(self) -> Expectation:
        settings = self.settings
        members = dist.get_process_group_ranks(self.group or dist.group.WORLD)
        probes = probes_of(settings.members, self.group, self.device, [self.seats[rank] for rank in members])
        believed = machine_here(self.backend, settings.members, settings.members)
        expectation = expect(probes, self.watch.shared_once, believed, settings.members)
        expectation = replace(expectation, ring_a_nic=self.backend == "nccl")
        if self.backend == "nccl" and not self.graph:
            groups = wire.steps_of("all_reduce", settings.members)
            expectation = expectation.launched(self.watch.shared_enqueue(probes.tiny) / groups, believed)
        for text in foretold(expectation, settings, self.schedule):
            self.say(f"# {text}")
        return expectation

    def schedule(self, algorithm: str, nbytes: int) -> Schedule:
        """What runs under that name at that size."""
        found = self.schedules[algorithm]
        if found == "auto":
            found = choose(self.settings.collective, nbytes or 1, self.group)
        return find(self.settings.collective, found)

    # What is done at every size.

    def cycle(self, number: int, extra: Sequence[str]) -> list[Line]:
        """All sizes once."""
        settings, lines = self.settings, []
        only = settings.cycles == 1
        if not only:
            self.say(f"# cycle {number + 1} of {settings.cycles}")
        sizes = list(settings.sizes())
        with Progress(len(sizes) * settings.rounds, self.rank == 0) as progress:
            for place, nbytes in enumerate(sizes):
                measured = self.size(number * len(sizes) + place, nbytes, progress)
                lines += measured
                with progress.aside():
                    for line in measured:
                        self.say(("" if only else "#") + report.table_line(line, extra))
        return lines

    def size(self, number: int, wanted: int, progress: Progress) -> list[Line]:
        """Time and check all contenders at one size."""
        settings = self.settings
        count, nbytes = settings.count(wanted), settings.row_bytes(wanted)
        problem = Problem(
            settings.collective,
            self.dtype,
            settings.redop,
            settings.root,
            dist.get_rank(self.group),
            settings.members,
            count,
            self.device,
            self.group,
        )
        operands = Operands(problem)
        contest = self.contest(operands)
        operands.clear()
        times = contest.time(self.watch, settings.warmup, settings.iters, settings.rounds, progress.step)
        if settings.trace:
            for algorithm, call in contest.ours.items():
                self.watch.line_up()
                label = f"{settings.collective} of {nbytes} bytes, {algorithm}"
                self.outcome.spans += watch(communicator(self.group), call, f"{label} ({number})", nbytes)
        calls = {name: call for name, call in contest.calls.items() if name != wire.NAME}
        wrong = {
            name: self.check(operands, call, name in contest.ours, f"{number}/{name}") for name, call in calls.items()
        }
        self.outcome.wrong += sum(count or 0 for count in wrong.values())
        loaded = self.compute.beside(contest.calls, settings.iters, settings.rounds) if self.compute else {}
        rate = None if times.first is None else nbytes / times.first.typical / 1e9
        barrier = settings.collective == "barrier"
        kind, shown = ("none", 0) if barrier else (settings.dtype, count)
        dtype = None if barrier else DTYPES[settings.dtype][0]
        nothing = blank_row(settings.collective, nbytes, dtype, settings.redop, settings.members)
        lines = []
        for name, timing in {**times.ours, **times.beside}.items():
            blank = replace(nothing, algorithm=name, wrong=wrong.get(name))
            row = self.completed(compared(times, timing, blank, self.factor), loaded.get(name))
            lines.append(Line(row, shown, kind, settings.root, rate, wrong.get("native")))
        return lines

    def contest(self, operands: Operands) -> Contest:
        """The contenders on these tensors; a baseline that the backend refuses is none."""
        settings = self.settings
        native = self.accepted(operands.native())
        beside: dict[str, Call] = {}
        wired = operands.wire(self.orders)
        if wired is not None and (settings.baselines is None or wire.NAME in settings.baselines):
            beside[wire.NAME] = wired
        if native is not None:
            beside |= {name: operands.native(group) for name, group in self.baselines.items()}
        return Contest({name: operands.ours(found) for name, found in self.schedules.items()}, beside, native)

    def completed(self, row: Row, loaded: tuple[float, float | None] | None) -> Row:
        """A row with what stands beside the measurement: the pick, the prediction, another's log, a computation."""
        changes: dict[str, Any] = {}
        seconds = self.settings.against.get(row.bytes)
        if seconds:
            changes |= {"against_us": seconds * 1e6, "against_ratio": row.time_us / seconds / 1e6}
        if loaded is not None:
            seconds, changes["compute_slowdown"] = loaded
            changes |= {"loaded_us": seconds * 1e6, "slowdown": seconds * 1e6 / row.time_us}
        if row.algorithm in self.schedules:
            if self.schedules[row.algorithm] == "auto":
                changes["picked"] = choose(row.collective, row.bytes or 1, self.group)
            if self.expectation is not None:
                changes |= expected(self.expectation, self.schedule(row.algorithm, row.bytes), row)
        return replace(row, **changes)

    # What the ranks tell each other.

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
            short = {name: f"host{i}" for i, name in enumerate(self.hosts)}
            self.outcome.names = {rank: f"rank {rank} on {short[host]}" for rank, (_, host) in enumerate(everyone)}

    def say(self, line: str) -> None:
        """Rank 0 prints."""
        if self.rank == 0:
            report.say(line)
