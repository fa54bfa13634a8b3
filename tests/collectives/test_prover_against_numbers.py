"""The prover against an independent interpreter: what it accepts gives right numbers, what it refuses does not."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectives import Recv, Reduce, Schedule, ScheduleError, Send, find, prove


def run_on_numbers(programs, size, chunks):
    """All ranks on real numbers, messages only when both ends have come; the buffers, or None for anything unclean.

    Contribution of rank r to chunk c is 3**r * 1000**c, so that every wrong sum shows.
    """
    buffers = [[3.0**r * 1000.0**c for c in range(chunks)] for r in range(size)]
    at, done = [0] * size, [[] for _ in range(size)]

    def current(rank):
        return programs[rank][at[rank]] if at[rank] < len(programs[rank]) else None

    def ends(step, peer, kind):
        peers = {Send: "to", Recv: "source", Reduce: "source"}
        return [o for o in step if isinstance(o, kind) and getattr(o, peers[type(o)]) == peer]

    while any(current(r) is not None for r in range(size)):
        moved = False
        for rank in range(size):
            step = current(rank)
            if step is None:
                continue
            written = [o.chunk for o in step if not isinstance(o, Send)]
            if len(set(written)) < len(written) or {o.chunk for o in step if isinstance(o, Recv)} & {
                o.chunk for o in step if isinstance(o, Send)
            }:
                return None  # a race
            for peer in {o.to for o in step if isinstance(o, Send)}:
                other = current(peer)
                if other is None or ("out", peer) in done[rank] or ("in", rank) in done[peer]:
                    continue
                sent, taken = ends(step, peer, Send), ends(other, rank, (Recv, Reduce))
                if not taken:
                    continue
                if [o.chunk for o in sent] != [o.chunk for o in taken]:
                    return None  # chunks may differ in size
                values = [buffers[rank][o.chunk] for o in sent]
                done[rank].append(("out", peer))
                done[peer].append(("in", rank, [(o, v) for o, v in zip(taken, values, strict=True)]))
                done[peer].append(("in", rank))
                moved = True
        for rank in range(size):
            step = current(rank)
            if step is None:
                continue
            wanted = {("out", o.to) if isinstance(o, Send) else ("in", o.source) for o in step}
            if wanted <= {d for d in done[rank] if len(d) == 2}:
                for arrival in [d for d in done[rank] if len(d) == 3]:
                    for operation, value in arrival[2]:
                        held = buffers[rank][operation.chunk] if isinstance(operation, Reduce) else 0.0
                        buffers[rank][operation.chunk] = held + value
                done[rank], moved = [], True
                at[rank] += 1
        if not moved:
            return None  # a deadlock, or a message without its other end
    return buffers


def mutate(programs, draw):
    """One small fault, as people make them; or none."""
    rank = draw(st.integers(0, len(programs) - 1))
    if not programs[rank]:
        return
    step = draw(st.integers(0, len(programs[rank]) - 1))
    kind = draw(st.sampled_from(["none", "drop step", "twice", "swap", "chunk", "peer", "verb", "drop operation"]))
    steps = programs[rank]
    if kind == "drop step":
        del steps[step]
    elif kind == "twice":
        steps.insert(step, steps[step])
    elif kind == "swap":
        other = draw(st.integers(0, len(steps) - 1))
        steps[step], steps[other] = steps[other], steps[step]
    elif kind in ("chunk", "peer", "verb", "drop operation"):
        operations = list(steps[step])
        which = draw(st.integers(0, len(operations) - 1))
        one = operations[which]
        peer = one.to if isinstance(one, Send) else one.source
        size = len(programs)
        if kind == "drop operation":
            del operations[which]
        elif kind == "chunk":
            operations[which] = type(one)((one.chunk + 1) % size, peer)
        elif kind == "peer":
            operations[which] = type(one)(one.chunk, (peer + 1) % size)
        elif not isinstance(one, Send):
            operations[which] = (Recv if isinstance(one, Reduce) else Reduce)(one.chunk, peer)
        steps[step] = tuple(operations)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_prover_and_numbers_agree(data):
    size = data.draw(st.integers(2, 5))
    schedule = find("all_reduce", data.draw(st.sampled_from(["ring", "hierarchical"])))
    programs = [[tuple(step) for step in schedule.steps(rank, size)] for rank in range(size)]
    for _ in range(data.draw(st.integers(1, 2))):
        mutate(programs, data.draw)
    programs = [[step for step in steps if step] for steps in programs]
    if any(
        (o.to if isinstance(o, Send) else o.source) == rank for rank in range(size) for s in programs[rank] for o in s
    ):
        return  # messages to oneself are tested elsewhere
    total = [sum(3.0**r for r in range(size)) * 1000.0**c for c in range(size)]
    numbers = run_on_numbers(programs, size, size)
    right = numbers is not None and all(buffer == total for buffer in numbers)
    refusal = None
    try:
        prove(Schedule("all_reduce", lambda rank, size: programs[rank]), size)
    except ScheduleError as error:
        refusal = str(error)
    assert right == (refusal is None), refusal
