"""From what happened to the sentence that names the mistake.

A check that fails hands over its evidence; rules look at it one after the other, and the first that knows the mistake
names it. A rule is a function from evidence to a finding or None. The general rules are in ``rules/``, one file for
each kind of evidence, most telling first; a check may bring rules of its own, which come before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from collectives.schedule import Schedule

from .catalogue import Catalogue
from .said import Finding, Said

if TYPE_CHECKING:
    from torch import Tensor

    from collectives.launch import RankFailed, RankTimeout
    from collectives.log import Log
    from parallel.pipeline import PipelineSchedule
    from sim.pipeline import PipelineRun

    from .checks.cases import Case, Variant
    from .checks.experiment import Difference, Experiment
    from .checks.limit import Limit
    from .checks.timetable import Size, Timetable


@dataclass(frozen=True)
class Unproved:
    """A schedule that the prover refuses: the error for each number of ranks where it does, and those where it is
    right.

    schedule: makes it for a number of ranks.
    """

    function: str
    schedule: Callable[[int], Schedule]
    errors: dict[int, Exception]
    right: tuple[int, ...]
    path: Path
    say: Catalogue
    limit: Limit

    @property
    def size(self) -> int:
        """The number of ranks at which to look: 3 or more show more than 2."""
        return min(self.errors, key=lambda size: (size < 3, size))

    @property
    def error(self) -> Exception:
        return self.errors[self.size]


@dataclass(frozen=True)
class Broken:
    """Real ranks that raised, died or hung, and what they had sent and received until then."""

    function: str
    size: int
    failure: RankFailed | RankTimeout
    log: Log
    path: Path
    say: Catalogue
    variants: Sequence[Variant] = ()


@dataclass(frozen=True)
class Came:
    """What came of one call on one rank.

    returned: what was, if a tensor; kind: its type. kept: whether the tensors that were passed have not changed. after:
    those tensors. peak: bytes that were allocated at the worst moment.
    """

    result: Tensor | None
    returned: Tensor | None
    kind: str
    kept: bool
    after: Sequence[Tensor]
    peak: int


@dataclass(frozen=True)
class Wrong:
    """Real ranks that ended with wrong data: for one call, what came on every rank, and the data they began with.

    sizes: number of ranks → whether the plain call came out right there.
    """

    function: str
    case: Case
    size: int
    variant: Variant
    came: Sequence[Came]
    log: Log
    data: Sequence[Tensor]
    say: Catalogue
    limit: Limit
    sizes: Mapping[int, bool] = field(default_factory=dict)

    @property
    def is_main(self) -> bool:
        """Whether this is the plain call, which is priced."""
        return self.variant == self.case.variants(self.size)[0]

    def expected(self, rank: int) -> Tensor:
        return self.case.expected(self.data, self.variant, rank)


@dataclass(frozen=True)
class Dear:
    """An answer that costs too much: the worst rank's ``got`` against ``limit``, of ``what`` (steps, sent …).

    shares: a message may be less than the whole buffer.
    """

    function: str
    what: str
    size: int
    got: int | Fraction
    limit: int | Fraction
    costs: Mapping[str, int | Fraction]
    shares: bool = False


@dataclass(frozen=True)
class Unlike:
    """Ranks whose outcomes were held against one process: what came on each rank, for each example.

    wrong: (example, rank) → the first part that differs.
    """

    function: str
    experiment: Experiment
    size: int
    examples: Sequence[Any]
    came: Sequence[Sequence[Any]]
    log: Log
    say: Catalogue

    @cached_property
    def expected(self) -> Sequence[Sequence[Any]]:
        return [self.experiment.expected(example, self.size) for example in self.examples]

    @cached_property
    def wrong(self) -> Mapping[tuple[int, int], Difference]:
        from .checks.experiment import differences

        found = {}
        for number, (came, expected) in enumerate(zip(self.came, self.expected, strict=True)):
            for rank in range(self.size):
                first = next(differences(came[rank], expected[rank], self.experiment.tolerance), None)
                if first is not None:
                    found[number, rank] = first
        return found


@dataclass(frozen=True)
class Untimely:
    """A pipeline's timetable that is ``wrong`` (refused), ``slow`` or ``held`` (holds too much): ``what``.

    where: the sizes at which it is so; errors: of the proof, at these.
    """

    check: Timetable
    what: str
    schedule: PipelineSchedule
    where: Sequence[Size]
    errors: Mapping[Size, Exception]
    say: Catalogue

    @property
    def function(self) -> str:
        return self.check.function

    @property
    def size(self) -> Size:
        """At which to look: 3 ranks or more show more than 2, and a small picture more than a large one."""
        return min(
            self.where, key=lambda at: (at.ranks < 3, at.microbatches < 3, at.ranks * at.microbatches * at.chunks)
        )

    @cached_property
    def run(self) -> PipelineRun:
        """As far as it gets, in slots."""
        from sim.pipeline import play

        from .checks.timetable import clock

        return play(self.schedule, *self.size, clock(self.size, self.check.p2p))

    @cached_property
    def par(self) -> PipelineRun:
        from sim.pipeline import simulate

        from .checks.timetable import clock

        return simulate(self.check.par, *self.size, clock(self.size, self.check.p2p))


Evidence: TypeAlias = Unproved | Broken | Wrong | Dear | Unlike | Untimely
Rule: TypeAlias = Callable[[Any], Finding | None]


def diagnose(evidence: Evidence, own: Sequence[Rule] = ()) -> Finding:
    """What the first rule that knows the mistake says of it."""
    from .rules import costs, processes, programs, timetables, trials, values

    general: dict[type, Sequence[Rule]] = {
        Unproved: programs.RULES,
        Broken: processes.RULES,
        Wrong: values.RULES,
        Dear: costs.RULES,
        Unlike: trials.RULES,
        Untimely: timetables.RULES,
    }
    for rule in (*own, *general[type(evidence)]):
        finding = rule(evidence)
        if finding is not None:
            return finding
    raise AssertionError(f"no rule knows {evidence!r}")  # the last rule of each kind always has something to say


__all__ = [
    "Broken",
    "Came",
    "Dear",
    "Evidence",
    "Finding",
    "Rule",
    "Said",
    "Unlike",
    "Unproved",
    "Untimely",
    "Wrong",
    "diagnose",
]
