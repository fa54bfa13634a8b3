"""What is wrong with a timetable of a pipeline, by what it does: refused, too slow, or holding too much."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from collectives.errors import ScheduleError
from collectives.waits import Wait, find_cycle
from parallel.pipeline.schedule import (
    Action,
    Backward,
    BackwardInput,
    BackwardWeight,
    Forward,
    PipelineSchedule,
)
from parallel.pipeline.stages import Stages

from ..diagnosis import Rule, Untimely
from ..said import Finding, Said
from ..timelines import timeline_lines


def _lookalike(evidence: Untimely) -> Finding | None:
    """Another timetable, at every size: a mistake that is known."""
    from ..checks.lookalikes import LOOKALIKES

    for id, program in LOOKALIKES.get(evidence.function, {}).items():
        other = PipelineSchedule(id, program, flexible=True)
        try:
            if all(
                list(evidence.schedule.steps(rank, *size)) == list(other.steps(rank, *size))
                for size in evidence.check.proved
                for rank in range(size.ranks)
            ):
                return _found(evidence, Said(id))
        except ValueError:  # one of them has no steps there
            continue
    return None


def _raised(evidence: Untimely) -> Finding | None:
    """The program itself raises, for some sizes."""
    error = evidence.errors.get(evidence.size)
    if error is None or isinstance(error, ScheduleError):
        return None
    return Finding(Said("timetable.raised", {**_size(evidence), "error": str(error)}), evidence.function)


def _negative(evidence: Untimely) -> Finding | None:
    """Microbatches before the first, where something is looked for some places back; none beyond the last."""
    size = evidence.size
    if not isinstance(evidence.errors.get(size), ScheduleError):  # it raises
        return None
    named = [(rank, action) for rank, actions in enumerate(_actions(evidence)) for action in actions]
    before = [(rank, action) for rank, action in named if action.microbatch < 0]
    if not before or any(action.microbatch >= size.microbatches for _, action in named):
        return None
    rank, action = before[0]
    return _found(
        evidence, Said("timetable.negative", {**_size(evidence), "rank": rank, "action": _name(action, size.chunks)})
    )


def _few(evidence: Untimely) -> Finding | None:
    """Wrong just where there are few microbatches."""
    right = [size for size in evidence.check.proved if size not in evidence.where and size.ranks > 1]
    most = max(size.microbatches - size.ranks for size in evidence.where)
    if not right or most > min(0, *(size.microbatches - size.ranks for size in right)):
        return None
    return _found(evidence, Said("timetable.few", _size(evidence)))


def _from_one(evidence: Untimely) -> Finding | None:
    """Microbatches are counted from 1."""

    def program(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
        for (action,) in evidence.schedule.steps(rank, ranks, microbatches, chunks):
            yield type(action)(action.microbatch - 1, action.chunk)

    if _holds(program, evidence):
        return _found(evidence, Said("timetable.from_one", {"last": evidence.size.microbatches - 1}))
    return None


def _reversed(evidence: Untimely) -> Finding | None:
    """Right if the backwards of some ranks had the order that those of others have."""

    def program(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
        actions = [action for (action,) in evidence.schedule.steps(rank, ranks, microbatches, chunks)]
        backwards = iter(sorted((a for a in actions if type(a) is Backward), key=lambda a: (-a.chunk, a.microbatch)))
        return (next(backwards) if type(action) is Backward else action for action in actions)

    if all(size.chunks == 1 for size in evidence.where) and _holds(program, evidence):
        return _found(evidence, Said("timetable.reversed"))
    return None


def _no_backward(evidence: Untimely) -> Finding | None:
    if not any(type(action) is not Forward for action in _all(evidence)):
        return _found(evidence, Said("timetable.no_backward", _size(evidence)))
    return None


def _foreign(evidence: Untimely) -> Finding | None:
    """Microbatches or chunks that there are not."""
    size = evidence.size
    for rank, actions in enumerate(_actions(evidence)):
        for action in actions:
            if not 0 <= action.microbatch < size.microbatches:
                fields = {**_size(evidence), "rank": rank, "action": _name(action, size.chunks)}
                return _found(evidence, Said("timetable.foreign", {**fields, "last": size.microbatches - 1}))
            if not 0 <= action.chunk < size.chunks:
                fields = {**_size(evidence), "rank": rank, "action": _name(action, 2)}
                return _found(evidence, Said("timetable.foreign_chunk", {**fields, "last": size.chunks - 1}))
    return None


def _twice(evidence: Untimely) -> Finding | None:
    """The same a second time, or a whole backward beside halves."""
    for rank, actions in enumerate(_actions(evidence)):
        seen: set[Action] = set()
        for action in actions:
            fields = {**_size(evidence), "rank": rank, "action": _name(action, evidence.size.chunks)}
            name = (action.microbatch, action.chunk)
            if action in seen:
                return _found(evidence, Said("timetable.twice", fields))
            halves = {BackwardInput(*name), BackwardWeight(*name)}
            if (type(action) is Backward and seen & halves) or (action in halves and Backward(*name) in seen):
                return _found(evidence, Said("timetable.both", fields))
            seen.add(action)
    return None


def _missing(evidence: Untimely) -> Finding | None:
    """What a rank leaves out: the weight halves that are owed, the drain at the end, or something else."""
    size = evidence.size
    every = [(i, chunk) for chunk in range(size.chunks) for i in range(size.microbatches)]
    for rank, actions in enumerate(_actions(evidence)):
        done = set(actions)
        forwards = [Forward(*name) for name in every if Forward(*name) not in done]
        backwards: list[Action] = [
            Backward(*name) for name in every if not {Backward(*name), BackwardInput(*name)} & done
        ]
        owed: list[Action] = [
            BackwardWeight(*name)
            for name in every
            if BackwardInput(*name) in done and BackwardWeight(*name) not in done
        ]
        for id, lacking in (("forwards", forwards), ("backwards", backwards), ("owed", owed)):
            if lacking:
                names = [_name(action, size.chunks) for action in lacking[:6]] + ["…"] * (len(lacking) > 6)
                fields = {**_size(evidence), "rank": rank, "names": names, "count": len(lacking)}
                return _found(evidence, Said(f"timetable.missing.{id}", fields))
    return None


def _before(evidence: Untimely) -> Finding | None:
    """A backward before its forward, or the weights' half before the input's, on one rank."""
    for rank, actions in enumerate(_actions(evidence)):
        seen: set[Action] = set()
        for action in actions:
            name = (action.microbatch, action.chunk)
            needs = BackwardInput(*name) if type(action) is BackwardWeight else Forward(*name)
            if type(action) is not Forward and needs not in seen:
                chunks = evidence.size.chunks
                fields = {"rank": rank, "action": _name(action, chunks), "needs": _name(needs, chunks)}
                return _found(evidence, Said("timetable.before", {**_size(evidence), **fields}))
            seen.add(action)
    return None


def _stuck(evidence: Untimely) -> Finding | None:
    """Ranks that wait for each other, or for what never comes."""
    size, stages = evidence.size, Stages(evidence.schedule, evidence.size.ranks, evidence.size.chunks)
    waits, says = {}, {}
    for rank, actions in enumerate(_actions(evidence)):
        at = len(evidence.run.ends[rank])
        needed = stages.takes(rank, actions[at]) if at < len(actions) else None
        if needed is not None:
            waits[rank] = Wait(rank, needed.source, "receive", at)
            fields = {"rank": rank, "action": _name(actions[at], size.chunks), "source": needed.source}
            says[rank] = Said(f"timetable.waits.{needed.kind}", {**fields, "microbatch": needed.microbatch})
    if not waits:
        return None
    cycle = [wait.rank for wait in find_cycle(waits)]
    chain = tuple(says[rank] for rank in (cycle or list(waits))[:4])
    return _found(
        evidence, Said("timetable.circle" if cycle else "timetable.stuck", {**_size(evidence), "chain": chain})
    )


def _refused(evidence: Untimely) -> Finding | None:
    """What the library says."""
    return _found(
        evidence, Said("timetable.refused", {**_size(evidence), "error": str(evidence.errors[evidence.size])})
    )


def _one_at_a_time(evidence: Untimely) -> Finding | None:
    run = evidence.run
    if run.stages.ranks == 1 or run.busy < run.makespan * (1 - 1e-9):
        return None
    if any(
        start < end - 1e-9
        for end, start in _neighbours(
            [span for starts, ends in zip(run.starts, run.ends, strict=True) for span in zip(starts, ends, strict=True)]
        )
    ):
        return None
    return _found(evidence, Said("timetable.one_at_a_time", _size(evidence)))


def _neighbours(spans: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """When each ends, and when the next one begins."""
    ordered = sorted(spans)
    return ((one[1], two[0]) for one, two in pairwise(ordered))


def _slow(evidence: Untimely) -> Finding | None:
    """The longest wait of the rank that takes longest, beside the bubble."""
    run, par = evidence.run, evidence.par
    gaps = [
        (start - end, -start, rank, steps[number + 1][0])
        for rank, (steps, starts, ends) in enumerate(zip(run.steps, run.starts, run.ends, strict=True))
        for number, (end, start) in enumerate(zip(ends, starts[1:], strict=False))
    ]
    fields = {**_size(evidence), "got": f"{run.bubble_fraction:.1%}", "limit": f"{par.bubble_fraction:.1%}"}
    fields |= {"par": evidence.check.par}
    if not gaps or max(gaps)[0] < 1e-9:
        return _found(evidence, Said("timetable.slow", fields))
    slots, _, rank, action = max(gaps)
    about = {"rank": rank, "slots": f"{slots:.4g}", "action": _name(action, evidence.size.chunks)}
    return _found(evidence, Said("timetable.slow_gap", {**fields, **about}))


def _held(evidence: Untimely) -> Finding:
    """Who holds too much; all microbatches, or some too many."""
    run, par, size = evidence.run, evidence.par, evidence.size
    over = [rank for rank in range(size.ranks) if run.peak_activations[rank] > par.peak_activations[rank] + 1e-9]
    if not evidence.check.alike or not over:
        over = [max(range(size.ranks), key=lambda rank: run.peak_activations[rank])]
    rank = over[0]
    limit = par.peak_activations[rank] if evidence.check.alike else max(par.peak_activations)
    fields = {**_size(evidence), "rank": rank, "got": f"{run.peak_activations[rank]:.4g}", "limit": f"{limit:.4g}"}
    everything = run.peak_activations[rank] >= size.microbatches
    return _found(evidence, Said("timetable.held_all" if everything else "timetable.held", fields))


def _holds(program: Callable[..., Iterator[Action]], evidence: Untimely) -> bool:
    """Whether a changed program is right, and quick enough, wherever the learner's is not."""
    changed = PipelineSchedule(evidence.function, program, flexible=True)
    try:
        return not any(evidence.check.is_slow(changed, size) for size in evidence.where)
    except Exception:  # refused
        return False


def _actions(evidence: Untimely) -> list[list[Action]]:
    """What each rank does at the size that is looked at."""
    size = evidence.size
    return [[action for step in evidence.schedule.steps(rank, *size) for action in step] for rank in range(size.ranks)]


def _all(evidence: Untimely) -> list[Action]:
    return [action for actions in _actions(evidence) for action in actions]


def _name(action: Action, chunks: int) -> str:
    """As one types it."""
    about = f"{action.microbatch}, {action.chunk}" if chunks > 1 else f"{action.microbatch}"
    return f"{type(action).__name__}({about})"


def _size(evidence: Untimely) -> dict[str, object]:
    size = evidence.size
    return {"ranks": size.ranks, "microbatches": size.microbatches, "chunks": size.chunks}


def _found(evidence: Untimely, said: Said) -> Finding:
    from sim.pipeline import play

    from ..checks.timetable import clock

    try:
        run = play(evidence.schedule, *evidence.size, clock(evidence.size))
        picture = tuple(timeline_lines(run, _actions(evidence), evidence.say))
    except (ValueError, IndexError):  # the program raises, or there is no such chunk
        picture = ()
    return Finding(said, evidence.function, evidence.size.ranks, picture)


def _only(what: str, *rules: Rule) -> tuple[Rule, ...]:
    """Rules for what is wrong in one of the ways."""

    def bound(rule: Rule) -> Rule:
        return lambda evidence: rule(evidence) if evidence.what == what else None

    return tuple(bound(rule) for rule in rules)


RULES: Sequence[Rule] = (
    _lookalike,
    *_only(
        "wrong",
        _negative,
        _few,
        _raised,
        _from_one,
        _reversed,
        _no_backward,
        _foreign,
        _twice,
        _missing,
        _before,
        _stuck,
    ),
    *_only("wrong", _refused),
    *_only("slow", _reversed, _one_at_a_time, _slow),
    _held,
)
