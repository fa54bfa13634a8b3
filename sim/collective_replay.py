"""What a simulated collective looked like, for the pictures of it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from collectives.contract import contract_of
from collectives.messages import chunks_of
from collectives.proof import Move, moves
from collectives.span import Span

from .collective import Outcome
from .engine import SAME_INSTANT
from .flows import Flow
from .replay import Curve, Moved, Replay
from .run import Message, Run
from .units import show_bytes, show_time

MOST_MESSAGES = 50_000  # what a page can still show


def replay(outcome: Outcome, facts: dict[str, float | str]) -> Replay:
    """The record of an outcome that was simulated with ``events=True``.

    Raises:
        ValueError: too many messages to be looked at.
    """
    run = outcome.run
    if run is None:
        raise ValueError("this outcome kept no events: simulate with events=True")
    if run.messages > MOST_MESSAGES:
        raise ValueError(
            f"{run.messages} messages are too many for a picture: take fewer ranks (at most {MOST_MESSAGES})"
        )
    flows = _flows(run)
    schedule, size = outcome.schedule, run.size
    title = (
        f"{schedule.collective} · {schedule} · {show_bytes(outcome.nbytes)} on {size} ranks: "
        f"{show_time(outcome.time_s)}, {outcome.busbw:.4g} GB/s bus bandwidth"
    )
    chunks = chunks_of(schedule, size)
    starts = [[0] * chunks * schedule.channels for _ in range(size)]
    contract = contract_of(schedule.collective)
    space = "output" if schedule.collective == "all_to_all" else "work"
    for rank in range(size):
        for (where, index), (_, who) in contract.starts(rank, size, chunks):
            if where == space or (where == "input" and index // (chunks // size) == rank):  # its own, copied at once
                for channel in range(schedule.channels):
                    starts[rank][channel * chunks + index] = who.bit_count()
    return Replay(
        title,
        facts,
        [
            f"rank {rank}" + (f" ({name})" if name != f"gpu{rank}" else "")
            for rank, name in enumerate(run.network.devices)
        ],
        list(_spans(run, flows)),
        chunks * schedule.channels,
        starts,
        list(_moved(outcome, flows, chunks, space)),
        list(_links(run, outcome.time_s)),
    )


def _flows(run: Run) -> list[Message]:
    """Every message once, by the time at which it began."""
    return sorted(run.finished, key=lambda flow: (flow.since, flow.channel, flow.source))


def _spans(run: Run, flows: Iterable[Message]) -> Iterable[Span]:
    counts: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    for flow in flows:
        key = flow.channel, flow.source, flow.to
        counts[key] += 1
        link, message = f"{flow.source}->{flow.to}", f"{flow.channel}:{flow.source}->{flow.to}:{counts[key]}"
        nbytes = round(flow.chunks * run.share)
        for rank, stream, name in (
            (flow.source, f"send {flow.channel}", f"send to {flow.to}"),
            (flow.to, f"recv {flow.channel}", f"recv from {flow.source}"),
        ):
            yield Span(rank, stream, name, flow.since, flow.ends, nbytes, link, message)
    for process, ended in enumerate(run.ended):
        channel, rank = divmod(process, run.size)
        for index, flow in enumerate(ended):
            goes_on = run.begun[process][index + 1]
            reduced = run.programs[process][index].reduced
            if goes_on > flow.ends and reduced:
                nbytes = round(reduced * run.share)
                yield Span(rank, f"reduce {channel}", f"reduce {reduced}", flow.ends, goes_on, nbytes)


def _moved(outcome: Outcome, flows: Iterable[Message], chunks: int, space: str) -> Iterable[Moved]:
    """Which chunks each message carried: the k-th message of a pair carries the next chunks that move between the two."""
    schedule, size = outcome.schedule, len(outcome.network.devices)
    waiting: defaultdict[tuple[int, int, int], deque[Move]] = defaultdict(deque)
    for channel in range(schedule.channels):
        for move in moves(schedule, size, channel):
            waiting[channel, move.source, move.to].append(move)
    for flow in flows:
        for _ in range(flow.chunks):
            move = waiting[flow.channel, flow.source, flow.to].popleft()
            where, index = move.target
            if where == space:
                chunk = flow.channel * chunks + index
                holds = move.content[1].bit_count()
                yield Moved(chunk, flow.source, flow.to, flow.since, flow.ends, move.reduces, holds)


def _links(run: Run, until: float) -> Iterable[Curve]:
    """What each link carried, in GB/s."""
    steps: dict[int, defaultdict[float, float]] = {}
    rates: dict[Flow, float] = {}
    for moment, flow, rate in run.flows.changes or ():
        for link in flow.route:
            steps.setdefault(link, defaultdict(float))[moment] += rate - rates.get(flow, 0.0)
        rates[flow] = rate
    for link, changes in sorted(steps.items(), key=lambda item: -run.flows.carried[item[0]]):
        times, values, level = [0.0], [0.0], 0.0
        for moment in sorted(changes):
            level += changes[moment]
            if moment - times[-1] <= SAME_INSTANT * until:
                values[-1] = level
            else:
                times.append(moment)
                values.append(level)
        limit = run.network.capacity[link]
        shown = [value / 1e9 if value > 1e-9 * limit else 0.0 for value in values]
        yield Curve(run.network.names[link], "GB/s", times, shown, limit / 1e9)
