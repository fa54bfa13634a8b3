"""What a simulated collective looked like, for the pictures of it."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
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
from .words import IN_ENGLISH, Words

MOST_MESSAGES = 50_000  # what a page can still show


def replay(outcome: Outcome, facts: dict[str, float | str], words: Words = IN_ENGLISH) -> Replay:
    """The record of an outcome that was simulated with ``events=True``; ``words``: of its title and its pictures.

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
    title = words(
        "title.collective",
        collective=schedule.collective,
        schedule=schedule,
        size=f" · {show_bytes(outcome.nbytes)}" if outcome.nbytes else "",
        ranks=words.counted("ranks", size),
        time=show_time(outcome.time_s),
        speed=words("title.speed", busbw=f"{outcome.busbw:.4g}") if outcome.busbw else "",
        faults=f" ({outcome.faults.in_words()})" if outcome.faults else "",
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
    cargo = list(zip(flows, _cargo(outcome, flows), strict=True))
    base = outcome.costs.base
    peers = schedule.collective == "all_to_all"  # all blocks of a sender have its number: the peer tells more
    names = [
        words("rank", rank=rank) if name == f"gpu{rank}" else words("rank_on", rank=rank, device=name)
        for rank, name in enumerate(run.network.devices)
    ]
    return Replay(
        title,
        facts,
        names,
        [
            *_launches(run, base),
            *(span.moved(base) for span in (*_messages(run, cargo, chunks, peers), *_additions(run))),
        ],
        chunks * schedule.channels,
        starts,
        list(_moved(cargo, chunks, space, base)),
        list(_links(run, outcome.time_s, base)),
        words=words,
    )


def _flows(run: Run) -> list[Message]:
    """Every message once, by the time at which it began."""
    return sorted(run.finished, key=lambda flow: (flow.since, flow.channel, flow.source))


def _cargo(outcome: Outcome, flows: Iterable[Message]) -> Iterable[list[Move]]:
    """The chunks of each message: the k-th message of a pair carries the next chunks that move between the two."""
    waiting: defaultdict[tuple[int, int, int], deque[Move]] = defaultdict(deque)
    for channel in range(outcome.schedule.channels):
        for move in moves(outcome.schedule, len(outcome.network.devices), channel):
            waiting[channel, move.source, move.to].append(move)
    for flow in flows:
        queue = waiting[flow.channel, flow.source, flow.to]
        yield [queue.popleft() for _ in range(flow.chunks)]


def _launches(run: Run, base: float) -> Iterable[Span]:
    return [Span(rank, "launch", "launch", 0.0, base) for rank in range(run.size)] if base else []


def _messages(run: Run, cargo: Iterable[tuple[Message, list[Move]]], chunks: int, peers: bool) -> Iterable[Span]:
    counts: Counter[tuple[int, int, int]] = Counter()
    for flow, moved in cargo:
        counts[flow.channel, flow.source, flow.to] += 1
        number = counts[flow.channel, flow.source, flow.to]
        link, message = f"{flow.source}->{flow.to}", f"{flow.channel}:{flow.source}->{flow.to}:{number}"
        nbytes = round(flow.chunks * run.share)
        numbers = sorted(flow.channel * chunks + move.target[1] for move in moved)
        whole = len(numbers) == numbers[-1] - numbers[0] + 1
        cargo_name = f"{numbers[0]}-{numbers[-1]}" if whole and len(numbers) > 1 else ",".join(map(str, numbers[:4]))
        for rank, verb in ((flow.source, "send"), (flow.to, "recv")):
            name = f"{verb} {cargo_name}{',…' if not whole and len(numbers) > 4 else ''}"
            if peers:
                name = f"send to {flow.to}" if verb == "send" else f"recv from {flow.source}"
            yield Span(rank, f"{verb} {flow.channel}", name, flow.since, flow.ends, nbytes, link, message)


def _additions(run: Run) -> Iterable[Span]:
    for process, ended in enumerate(run.ended):
        channel, rank = divmod(process, run.size)
        for index, flow in enumerate(ended):
            goes_on = run.begun[process][index + 1]
            reduced = run.programs[process][index].reduced
            if goes_on > flow.ends and reduced:
                nbytes = round(reduced * run.share)
                yield Span(rank, f"reduce {channel}", "reduce", flow.ends, goes_on, nbytes)


def _moved(cargo: Iterable[tuple[Message, list[Move]]], chunks: int, space: str, base: float) -> Iterable[Moved]:
    for flow, moved in cargo:
        for move in moved:
            where, index = move.target
            if where == space:
                chunk, holds = flow.channel * chunks + index, move.content[1].bit_count()
                yield Moved(chunk, flow.source, flow.to, base + flow.since, base + flow.ends, move.reduces, holds)


def _links(run: Run, until: float, base: float) -> Iterable[Curve]:
    """What each link carried, in GB/s."""
    steps: dict[int, defaultdict[float, float]] = {}
    rates: dict[Flow, float] = {}
    for moment, flow, rate in run.flows.changes or ():
        for link in flow.route:
            steps.setdefault(link, defaultdict(float))[base + moment] += rate - rates.get(flow, 0.0)
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
