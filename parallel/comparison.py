"""One model trained by one strategy after another, as every rank lives it; rank 0 prints a line for each."""

from __future__ import annotations

import gc
import os
import platform
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
import torch._dynamo  # any optimizer imports it, which takes a second: here, before ranks are forked
import torch.distributed as dist

from collectives.bench import report
from collectives.progress import Progress
from collectives.span import Span
from collectives.trace import clock_offsets

from . import expectations, table
from .expectations import MEMORY, Job, Memory
from .strategies import Strategy
from .table import Row
from .trainee import Trainee


@dataclass
class Outcome:
    """What was found; empty on all ranks but 0. spans: of the trace."""

    environment: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)


@dataclass
class Finding:
    """One rank's part of a row. loss: of the last step; times: of every step, in seconds."""

    loss: float
    times: list[float]
    sent: int
    held: dict[str, int | None]
    spans: list[Span]


def run(job: Job, strategies: Sequence[Strategy]) -> Outcome:
    """Train with each strategy in turn, in the default group; every rank calls it."""
    first = dist.get_rank() == 0
    outcome = Outcome(_environment(job) if first else {})
    for line in table.heading(job) if first else ():
        report.say(line)
    with Progress(len(strategies) * (job.steps + 1), first) as progress:
        for strategy in strategies:
            everyone: list[Any] = [None] * job.ranks
            alone = strategy.alone and not first
            dist.all_gather_object(everyone, None if alone else _trained(strategy, job, progress))
            gc.collect()  # files and memory of this one
            if first:
                findings = [finding for finding in everyone if finding is not None]
                outcome.rows.append(_row(strategy, job, findings))
                outcome.spans += [span for finding in findings for span in finding.spans]
                with progress.aside():
                    report.say(table.line(outcome.rows[-1], job))
    for line in table.closing(outcome.rows) if first else ():
        report.say(line)
    if outcome.spans:
        report.say(table.hidden(outcome.spans))
    return outcome


def data(job: Job) -> torch.Tensor:
    """The batch of every step: (rows, length + 1) token numbers."""
    generator = torch.Generator().manual_seed(job.seed)
    return torch.randint(job.config.vocabulary, (job.batch, job.length + 1), generator=generator)


def _trained(strategy: Strategy, job: Job, progress: Progress) -> Finding:
    trainee, rows = Trainee(strategy, job), job.rows(strategy)
    mine = data(job)[dist.get_rank() * rows :][:rows]
    tokens, targets = mine[:, :-1].contiguous(), mine[:, 1:].contiguous()
    times, loss = [], 0.0
    for _ in range(job.steps):
        start = time.perf_counter()
        loss = trainee.step(tokens, targets)
        times.append(time.perf_counter() - start)
        progress.step()
    sent, held = trainee.watched(tokens, targets)
    spans: list[Span] = []
    if job.trace:
        offset = clock_offsets()[0][dist.get_rank()]
        spans = [span.moved(offset) for span in trainee.traced(tokens, targets, strategy.name)]
    progress.step()
    return Finding(loss, times, sent, held, spans)


def _row(strategy: Strategy, job: Job, findings: list[Finding]) -> Row:
    """Loss and bytes sent are means over ranks; time and bytes held are those of the rank with most."""
    sent = sum(finding.sent for finding in findings)
    held: Memory = {}
    for kind in MEMORY:
        each = [nbytes for finding in findings if (nbytes := finding.held[kind]) is not None]
        held[kind] = max(each) if each else None
    return Row(
        strategy=strategy.name,
        precision=strategy.precision,
        loss=sum(finding.loss for finding in findings) / len(findings),
        step_s=max(median(finding.times[1:] or finding.times) for finding in findings),
        bytes_sent=sent // len(findings) if sent % len(findings) == 0 else sent / len(findings),
        expected_bytes_sent=expectations.bytes_sent(strategy, job),
        memory=held,
        expected_memory=expectations.memory(strategy, job),
    )


def _environment(job: Job) -> dict[str, Any]:
    return {
        "model": job.model,
        "parameters": sum(expectations.layers(job.config)),
        "ranks": job.ranks,
        "batch": job.batch,
        "length": job.length,
        "steps": job.steps,
        "seed": job.seed,
        "bucket_mb": job.bucket_mb,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
