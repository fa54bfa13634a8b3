"""A pipeline's timetable of the learner's: proved, priced on a clock, then run on real ranks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..answer import Answer, describe, own_lines
from ..catalogue import Catalogue
from ..diagnosis import Rule, Untimely, diagnose
from ..said import Finding, Passed, Said

if TYPE_CHECKING:
    from parallel.pipeline import PipelineSchedule
    from sim.pipeline import PipelineRun, Times

MOST_STEPS = 1000  # of a rank; a program that yields more does not end
NAMES = ("rank", "ranks", "microbatches", "chunks")  # what a program is called with


class Size(NamedTuple):
    """For how many ranks, microbatches and chunks a timetable is made."""

    ranks: int
    microbatches: int
    chunks: int = 1


class Endless(Exception):
    """A program that goes on yielding."""


SMALL = (*map(Size, (1, 2, 3, 4, 3, 4, 2, 5), (3, 1, 2, 1, 4, 4, 5, 3)), Size(4, 8))  # the last one is shown


@dataclass(frozen=True)
class Timetable:
    """``function(rank, ranks, microbatches, chunks)`` yields what a rank of a pipeline does.

    par: the library's schedule that it must not be slower than, nor hold more; faster: its bubble must be smaller than
    par's, where par has one. alike: the memory is held against par's on each rank, not only on the fullest. p2p: of the
    price, a transfer in units of a stage's forward. proved: sizes for proof and price; shown is the last. chunks: for
    the real run on ``ranks``. rules: come before the general ones.
    """

    function: str
    par: str
    faster: bool = False
    alike: bool = True
    p2p: float = 0.0
    proved: tuple[Size, ...] = SMALL
    chunks: int = 1
    ranks: tuple[int, ...] = (2, 3, 4)
    rules: tuple[Rule, ...] = ()

    def cheap(self, answer: Answer, say: Catalogue) -> Iterator[Passed | Finding]:
        """Proof and price; no process is started."""
        from parallel.pipeline import validate

        shape = self._shape(answer)
        if shape is not None:
            yield shape
            return
        schedule, errors = timetable(answer, self.function), {}
        for size in self.proved:
            try:
                validate(schedule, *size)
            except Exception as error:  # refused, or the learner's program raised
                errors[size] = error
            except BaseException as error:  # SystemExit too: it must not end the check
                errors[size] = ValueError(describe(error))
        if errors:
            yield self._diagnosed("wrong", schedule, tuple(errors), say, errors)
            return
        sizes = tuple(sorted({size.ranks for size in self.proved}))
        yield Passed(Said("timetable.proved"), self.function, sizes)
        yield from self._price(schedule, say)

    def _price(self, schedule: PipelineSchedule, say: Catalogue) -> Iterator[Passed | Finding]:
        """The bubble, then what is held."""
        from sim.pipeline import play, simulate

        pairs = {
            size: (play(schedule, *size, clock(size, self.p2p)), simulate(self.par, *size, clock(size, self.p2p)))
            for size in self.proved
        }
        for what, over in (("slow", self._is_slow), ("held", self._is_full)):
            wrong = tuple(size for size, (run, par) in pairs.items() if over(run, par))
            if wrong:
                yield self._diagnosed(what, schedule, wrong, say)
                return
        size = self.proved[-1]
        fields = {"ranks": size.ranks, "microbatches": size.microbatches, "chunks": size.chunks}
        run, par = pairs[size]
        bubble = (
            Said("timetable.bubble_sent", {**fields, "p2p": self.p2p}) if self.p2p else Said("timetable.bubble", fields)
        )
        got, limit = (f"{one.bubble_fraction:.1%}" for one in (run, par))
        yield Passed(bubble, self.function, (size.ranks,), got, limit)
        peaks = Said("timetable.peaks" if self.alike else "timetable.peak", fields)
        yield Passed(peaks, self.function, (size.ranks,), self._peaks(run), self._peaks(par))

    def is_slow(self, schedule: PipelineSchedule, size: Size) -> bool:
        """Whether its bubble is too large.

        Raises:
            ValueError: it is wrong.
        """
        from sim.pipeline import simulate

        run, par = (simulate(one, *size, clock(size, self.p2p)) for one in (schedule, self.par))
        return self._is_slow(run, par)

    def _is_slow(self, run: PipelineRun, par: PipelineRun) -> bool:
        if self.faster and par.bubble_fraction > 1e-9:
            return run.stage_span >= par.stage_span * (1 - 1e-9)
        return run.stage_span > par.stage_span * (1 + 1e-9)

    def _is_full(self, run: PipelineRun, par: PipelineRun) -> bool:
        if not self.alike:
            return max(run.peak_activations) > max(par.peak_activations) + 1e-9
        return any(mine > most + 1e-9 for mine, most in zip(run.peak_activations, par.peak_activations, strict=True))

    def _peaks(self, run: PipelineRun) -> str:
        """What each rank holds at most, or the fullest."""
        peaks = run.peak_activations if self.alike else [max(run.peak_activations)]
        return " ".join(f"{peak:.4g}" for peak in peaks)

    def _diagnosed(
        self,
        what: str,
        schedule: PipelineSchedule,
        wrong: tuple[Size, ...],
        say: Catalogue,
        errors: dict[Size, Exception] | None = None,
    ) -> Finding:
        return diagnose(Untimely(self, what, schedule, wrong, errors or {}, say), self.rules)

    def _shape(self, answer: Answer) -> Finding | None:
        """Whether the function yields actions at all."""
        from collectives.sentence import sentence_of
        from parallel.pipeline.schedule import LETTERS

        fields: dict[str, object] = {"function": self.function}
        function = getattr(answer.module, self.function)
        if not _fits(function):
            takes = list(inspect.signature(function).parameters)
            return Finding(Said("program.signature", {**fields, "takes": takes, "names": NAMES}), self.function)
        size = max(self.proved, key=lambda size: size.microbatches)
        try:
            for rank in range(size.ranks):
                actions = function(rank, *size)
                if actions is None:
                    return Finding(Said("program.none", fields), self.function)
                if type(actions) in LETTERS or actions in LETTERS:
                    return Finding(Said("timetable.returned_one", fields), self.function)
                for count, action in enumerate(actions):
                    if count >= MOST_STEPS:
                        return Finding(Said("program.endless", {**fields, "steps": MOST_STEPS}), self.function)
                    if type(action) not in LETTERS or type(action.microbatch) is not int:
                        got = action.__name__ if isinstance(action, type) else repr(action)[:60]
                        said = Said("timetable.no_action", {**fields, "got": got})
                        return Finding(said, self.function, size.ranks)
        except BaseException as error:  # SystemExit too
            fields |= {"error": sentence_of(error) or describe(error)}
            about = "no_ranks" if "process group has not been initialized" in str(error) else "raised"
            return Finding(
                Said(f"program.{about}", fields), self.function, size.ranks, details=(own_lines(error, answer.path),)
            )
        return None


def timetable(answer: Answer, function: str) -> PipelineSchedule:
    """The learner's function as a schedule, that ends."""
    from parallel.pipeline import PipelineSchedule

    called: Callable[..., Any] = getattr(answer.module, function)

    def program(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Any]:
        for count, action in enumerate(called(rank, ranks, microbatches, chunks)):
            if count >= MOST_STEPS:
                raise Endless
            yield action

    return PipelineSchedule(function, program, flexible=True)


def clock(size: Size, p2p: float = 0.0) -> Times:
    """A chunk's forward is one slot, its backward two: the gradients of input and weights are one each."""
    from sim.pipeline import Times

    return Times(size.chunks, 2 * size.chunks, size.chunks, p2p * size.chunks)


def _fits(function: Callable[..., Any]) -> bool:
    """Whether it takes what the check passes."""
    try:
        inspect.signature(function).bind(0, 2, 2, 1)
    except TypeError:
        return False
    except ValueError:  # a callable that does not tell
        return True
    return True
