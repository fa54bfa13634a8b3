"""A schedule of the learner's: proved, priced, then run on real ranks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

from collectives.messages import unroll
from collectives.proof import Proof, prove
from collectives.schedule import Recv, Reduce, Schedule, Send
from collectives.sentence import sentence_of

from ..answer import Answer, describe, own_lines
from ..catalogue import Catalogue
from ..diagnosis import Rule, Unproved, diagnose
from ..rules.programs import square
from ..said import Finding, Passed, Said
from .limit import Limit
from .price import price

MOST_STEPS = 1000  # of a rank; a program that yields more does not end


_OPERATIONS = (Send, Recv, Reduce)


class Endless(Exception):
    """A program that goes on yielding."""


@dataclass(frozen=True)
class Answered:
    """Which function of a file is the schedule, for one number of ranks: plain data, that travels to ranks."""

    function: str
    collective: str
    chunks: int
    options: dict[str, int]

    def schedule(self, answer: Answer) -> Schedule:
        function = getattr(answer.module, self.function)

        def program(rank: int, size: int) -> Iterator[Any]:
            for count, step in enumerate(function(rank, size, **self.options)):
                if count >= MOST_STEPS:
                    raise Endless
                yield step

        return Schedule(self.collective, program, self.chunks, self.function)


@dataclass(frozen=True)
class Program:
    """``function(rank, size, **options)`` of the learner's file carries out ``collective``.

    chunks: of the buffer; one a rank by default. options: for each number of ranks, what the function is called with
    beside (rank, size). proved: numbers of ranks for the proof; ranks: for the real run. rules: come before the general
    ones.
    """

    function: str
    collective: str
    chunks: int | Callable[[int], int] | None = None
    limit: Limit = field(default_factory=Limit)
    options: Callable[[int], Mapping[str, int]] | None = None
    proved: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8)
    ranks: tuple[int, ...] = (2, 3, 4)
    rules: tuple[Rule, ...] = ()

    def schedule(self, answer: Answer, size: int) -> Schedule:
        """The learner's function as a schedule for ``size`` ranks, that ends."""
        return self.answered(size).schedule(answer)

    def answered(self, size: int) -> Answered:
        """What ranks are told."""
        return Answered(self.function, self.collective, self._cut(size), self._given(size))

    def _cut(self, size: int) -> int:
        return self.chunks(size) if callable(self.chunks) else self.chunks or size

    def _given(self, size: int) -> dict[str, int]:
        return dict(self.options(size)) if self.options else {}

    def cheap(self, answer: Answer, say: Catalogue) -> Iterator[Passed | Finding]:
        """Proof and price; no process is started."""
        shape = self._shape(answer)
        if shape is not None:
            yield shape
            return
        proofs: dict[int, Proof] = {}
        errors: dict[int, Exception] = {}
        for size in self.proved:
            try:
                proofs[size] = prove(self.schedule(answer, size), size)
            except ValueError as error:
                errors[size] = error
            except BaseException as error:  # whatever the learner's program raises: it must not end the check
                errors[size] = ValueError(describe(error))
        if errors:
            make = partial(self.schedule, answer)
            evidence = Unproved(self.function, make, errors, tuple(proofs), answer.path, say, self.limit)
            yield diagnose(evidence, (*self.rules, square(self._given)))
            return
        sizes = tuple(proofs)
        yield Passed(Said("check.proved", {"collective": self.collective}), self.function, sizes)
        costs = {size: self.costs(answer, size, proof) for size, proof in proofs.items()}
        yield from price(self.function, self.limit, costs, self.rules)

    def _shape(self, answer: Answer) -> Finding | None:
        """Whether the function gives steps at all."""
        fields: dict[str, object] = {"function": self.function}
        function = getattr(answer.module, self.function)
        odd = self._signature(function)
        if odd is not None:
            return Finding(odd, self.function)
        flat: type | None = None
        try:
            for rank in range(3):
                steps = function(rank, 3, **self._given(3))
                if steps is None:
                    return Finding(Said("program.none", fields), self.function)
                if isinstance(steps, _OPERATIONS) or (isinstance(steps, type) and issubclass(steps, _OPERATIONS)):
                    return Finding(Said("program.returned_one", fields), self.function)
                flat = flat or (type(steps) if _is_flat(steps) else None)
                count = 0
                for count, _ in enumerate(steps):
                    if count >= MOST_STEPS:
                        return Finding(Said("program.endless", {**fields, "steps": MOST_STEPS}), self.function)
        except BaseException as error:  # SystemExit too
            fields |= {"error": sentence_of(error) or describe(error)}
            about = "no_ranks" if "process group has not been initialized" in str(error) else "raised"
            details = (own_lines(error, answer.path),)
            return Finding(Said(f"program.{about}", fields), self.function, 3, details=details)
        return Finding(Said("program.returned", fields), self.function) if self._is_step(answer, flat) else None

    def _signature(self, function: Callable[..., Any]) -> Said | None:
        """Whether it takes what the check passes."""
        given = self._given(3)
        names = ["rank", "size", *given]
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # a callable that does not tell
            return None
        takes = list(signature.parameters)
        try:
            signature.bind(0, 3, **given)
        except TypeError:
            pass
        else:
            if takes[:2] != names[1::-1]:  # the other way round
                return None
        return Said("program.signature", {"function": self.function, "takes": takes, "names": names})

    def _is_step(self, answer: Answer, flat: type | None) -> bool:
        """Whether what is returned is wrong or too long as it is, and right as one step.

        A tuple need not be the only step: it may have been returned inside a loop.
        """
        for size in self.proved if flat else ():
            if not self._is_good(self.schedule(answer, size), size):
                sizes = [size] if flat is tuple else self.proved
                return all(self._is_right_in_one(self.schedule(answer, one), one) for one in sizes)
        return False

    def _is_good(self, schedule: Schedule, size: int) -> bool:
        try:
            steps = prove(schedule, size).steps
        except ValueError:
            return False
        return self.limit.steps is None or steps <= self.limit.steps(size)

    def _is_right_in_one(self, schedule: Schedule, size: int) -> bool:
        def program(rank: int, size: int) -> Iterator[Any]:
            yield tuple(operation for step in schedule.steps(rank, size) for operation in step)

        return self._is_good(Schedule(self.collective, program, schedule.chunks), size)

    def costs(self, answer: Answer, size: int, proof: Proof) -> dict[str, int | Fraction]:
        """Of the worst rank."""
        schedule, local = self.schedule(answer, size), self._given(size).get("local", size)
        messages, across, peers = [], [], []
        for rank in range(size):
            sends = [
                (to, len(p)) for step in unroll(schedule, rank, size) for to, p in step.sends.items() if to != rank
            ]
            messages.append(len(sends))
            peers.append(len({to for to, _ in sends}))
            across.append(sum(chunks for to, chunks in sends if to // local != rank // local))
        return {
            "steps": proof.steps,
            "messages": max(messages),
            "peers": max(peers),
            "sent": max(proof.sent.values()),
            **({"across": Fraction(max(across), schedule.chunk_count(size))} if local < size else {}),
        }


def _is_flat(steps: object) -> bool:
    """Operations without steps, in a tuple or a list."""
    return isinstance(steps, (tuple, list)) and bool(steps) and all(isinstance(one, _OPERATIONS) for one in steps)
