"""What is wrong with a schedule that the prover refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from collectives.contract import CONTRACTS
from collectives.errors import ScheduleError
from collectives.proof import prove
from collectives.schedule import Schedule
from collectives.sentence import Sentence

from ..diagnosis import Rule, Unproved
from ..picture import program_lines
from ..repair import find_repair
from ..said import Finding, Said, Speech

_TRIED = (5, 4, 3, 2, 6, 8, 9, 12)  # small ones are quick, and 5 is no power of two
_AT_THE_END = ("proof.without", "proof.wrong_data", "proof.lacking")  # what the prover says when all steps are done


def _other_collective(evidence: Unproved) -> Finding | None:
    """A right program for another promise."""
    asked = evidence.schedule(evidence.size).collective
    sizes = [size for size in evidence.errors if size > 2][:3] or list(evidence.errors)
    for name in CONTRACTS:
        if name not in (asked, "barrier") and all(_is(evidence.schedule(size), name, size) for size in sizes):
            return _finding(evidence, Said("program.other", {"found": name, "asked": asked}))
    return None


def _is(schedule: Schedule, collective: str, size: int) -> bool:
    try:
        prove(Schedule(collective, schedule.programs, schedule.chunks), size)
    except Exception:  # refused, or the learner's program raised
        return False
    return True


def _slip(evidence: Unproved) -> Finding | None:
    """One slip that explains everything."""
    known = {*evidence.errors, *evidence.right}
    sizes = [evidence.size, *(size for size in _TRIED if size in known and size != evidence.size)]
    sentence = find_repair(evidence.schedule, sizes)
    return _finding(evidence, sentence) if sentence else None


def _powers(evidence: Unproved) -> Finding | None:
    """Right for powers of two, and for them alone."""
    if not set(evidence.right) - {2} or any(size & (size - 1) for size in evidence.right):
        return None
    if not all(size & (size - 1) for size in evidence.errors):
        return None
    return _finding(evidence, Said("program.powers", {"right": evidence.right, "wrong": tuple(evidence.errors)}))


def square(given: Callable[[int], Mapping[str, int]]) -> Rule:
    """Right where there are as many nodes as ranks in a node, and nowhere else.

    given: what the function is called with for each number of ranks; ``local`` is how many ranks a node has.
    """

    def rule(evidence: Unproved) -> Finding | None:
        def is_square(size: int) -> bool:
            return given(size).get("local", 0) ** 2 == size

        if not evidence.right or not all(map(is_square, evidence.right)) or any(map(is_square, evidence.errors)):
            return None
        return _finding(evidence, Said("program.square", {"right": evidence.right, "wrong": tuple(evidence.errors)}))

    return rule


def _only_some(evidence: Unproved) -> Finding | None:
    """Right for some numbers of ranks, and not by the luck that with two ranks both neighbours are one."""
    if not evidence.right or max(evidence.right) < min(evidence.errors):  # small numbers hide much
        return None
    return _finding(evidence, Said("program.only_some", {"right": evidence.right, "wrong": tuple(evidence.errors)}))


def _refused(evidence: Unproved) -> Finding:
    """What the prover says."""
    return _finding(evidence, None)


def _finding(evidence: Unproved, sentence: Said | None) -> Finding:
    error = evidence.error
    plain: Speech = error.args[0] if error.args else str(error)
    rank, step = (error.rank, error.step) if isinstance(error, ScheduleError) else (None, None)
    if isinstance(plain, Sentence) and plain.id in _AT_THE_END:
        step = None  # every step could be carried out
    schedule, size = evidence.schedule(evidence.size), evidence.size
    picture = tuple(islice(program_lines(schedule, size, rank, step, evidence.say), 40))
    if sentence is None:
        return Finding(plain, evidence.function, size, picture)
    return Finding(sentence, evidence.function, size, picture, (plain,))


RULES: Sequence[Rule] = (_slip, _powers, _other_collective, _only_some, _refused)
