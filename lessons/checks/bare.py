"""A function of tensors with ``dist.send`` and ``dist.recv`` in it: recorded on real ranks, replayed, priced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..answer import Answer
from ..catalogue import Catalogue
from ..diagnosis import Broken, Came, Rule, Wrong, diagnose
from ..said import Finding, Passed, Said
from .cases import CASES, Case, Variant
from .limit import Limit
from .price import price, whole_buffers

if TYPE_CHECKING:
    from collectives.log import Log, Operation
    from collectives.recorder import Recording

SECONDS = 15.0  # for some small messages: a run takes a fifth of one, and one that hangs is ended at once
ITEM = 8  # bytes of a float64


@dataclass(frozen=True)
class Bare:
    """``function(…)`` of the learner's file does on real ranks what ``case`` (of ``cases.py``) says."""

    function: str
    case: str
    limit: Limit = field(default_factory=Limit)
    ranks: tuple[int, ...] = (2, 3, 4, 5)
    rules: tuple[Rule, ...] = ()

    def dear(self, answer: Answer, say: Catalogue, ranks: tuple[int, ...]) -> Iterator[Passed | Finding]:
        """Run it: what goes wrong on the way, then what comes out, then what it cost."""
        from .ledger import warm

        warm()
        case, sizes = CASES[self.case], ranks or self.ranks
        first: dict[int, Recording] = {}
        calls: list[tuple[int, Variant, Sequence[Came], Log]] = []
        for size in sizes:
            main, *others = case.variants(size)
            for variants in ([main], others):
                recording = self._record(answer.path, case, size, variants)
                if recording.failure is not None:
                    broken = Broken(self.function, size, recording.failure, recording.log, answer.path, say, variants)
                    yield diagnose(broken, self.rules)
                    return
                assert recording.results is not None
                for number, variant in enumerate(variants):
                    calls.append((size, variant, [came[number] for came in recording.results], recording.log))
                first.setdefault(size, recording)
        given = next(
            (o for one in first.values() for row in one.log.operations.values() for o in row if _does_it(o)), None
        )
        if given is not None:
            said = Said("bare.collective", {"call": given.call or given.op, "where": given.where})
            yield Finding(said, self.function)
            return
        hazard = self._hazard(first, say)
        if hazard is not None:
            yield hazard
            return
        costs = {size: self._costs(case, size, recording) for size, recording in first.items()}
        wrong = self._wrong(case, calls, sizes, say)
        if wrong is not None:
            yield diagnose(wrong, self.rules)
            yield from whole_buffers(self.function, self.limit, costs)
            return
        yield Passed(Said("check.right", {"calls": len(calls)}), self.function, sizes)
        yield self._unbuffered(first, say)
        yield from price(self.function, self.limit, costs, self.rules)

    def _record(self, path: Path, case: Case, size: int, variants: Sequence[Variant]) -> Recording:
        from collectives.recorder import record

        with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
            return record(_play, size, folder, path, self.function, case.name, variants, timeout=SECONDS, grace=0.5)

    def _wrong(
        self,
        case: Case,
        calls: list[tuple[int, Variant, Sequence[Came], Log]],
        sizes: tuple[int, ...],
        say: Catalogue,
    ) -> Wrong | None:
        """The plainest call that went wrong: three ranks or more, the priced one before others, then the largest."""
        right: set[tuple[int, Variant]] = set()
        wrong: list[Wrong] = []
        for size, variant, came, log in calls:
            data = tuple(case.data(variant, rank) for rank in range(size))
            call = Wrong(self.function, case, size, variant, came, log, data, say, self.limit)
            if all(is_right(call, rank) for rank in range(size)):
                right.add((size, variant))
            else:
                wrong.append(call)
        if not wrong:
            return None
        worst = min(wrong, key=lambda call: (call.size < 3, not call.is_main, -call.variant.numel, call.size))
        return replace(worst, sizes={size: (size, case.variants(size)[0]) in right for size in sizes})

    def _hazard(self, recordings: dict[int, Recording], say: Catalogue) -> Finding | None:
        """What is wrong whatever came out: nobody waited, or memory was used too early."""
        from collectives.recorder import explain

        from ..picture import log_lines

        for size, recording in sorted(recordings.items(), key=lambda item: (item[0] < 3, item[0])):
            sentence = explain(recording.log)
            if sentence is not None:
                return Finding(sentence, self.function, size, tuple(log_lines(recording.log, say)))
        return None

    def _unbuffered(self, recordings: dict[int, Recording], say: Catalogue) -> Passed | Finding:
        """Whether it would run, too, if nothing were buffered on the way."""
        from collectives.rendezvous import replay

        from ..picture import log_lines

        for size, recording in recordings.items():
            deadlock = replay(recording.log).deadlock
            if deadlock is not None:
                said = Said("bare.buffered", {"cycle": deadlock})
                return Finding(said, self.function, size, tuple(log_lines(recording.log, say)))
        return Passed(Said("check.unbuffered"), self.function, tuple(recordings))

    def _costs(self, case: Case, size: int, recording: Recording) -> dict[str, int | Fraction]:
        """Of the worst rank, in the first call."""
        from collectives.rendezvous import replay

        buffer = ITEM * case.variants(size)[0].numel
        sends = {
            rank: [o for o in operations if o.op == "send"] for rank, operations in recording.log.operations.items()
        }
        assert recording.results is not None
        return {
            "steps": replay(recording.log).rounds,
            "messages": max((len(one) for one in sends.values()), default=0),
            "sent": Fraction(max((sum(o.bytes for o in one) for one in sends.values()), default=0), buffer),
            "memory": Fraction(max(came[0].peak for came in recording.results), buffer),
        }


def _does_it(operation: Operation) -> bool:
    """Whether this is a collective of the backend's, which would be no answer."""
    return operation.is_collective and operation.op != "barrier"


def is_right(call: Wrong, rank: int) -> bool:
    """Whether one rank got every element as one process computes it."""
    came, wanted = call.came[rank], call.expected(rank)
    return (
        came.result is not None
        and came.result.shape == wanted.shape
        and came.result.dtype == wanted.dtype
        and bool((came.result == wanted).all())
        and (came.kept or not call.case.keeps)
    )


def _play(path: Path, function: str, case_name: str, variants: Sequence[Variant]) -> list[Came]:
    """In a rank: what comes of every call."""
    import torch
    import torch.distributed as dist

    from ..answer import load_answer
    from .ledger import Ledger

    os.environ["OMP_NUM_THREADS"] = "1"
    answer = load_answer(path)
    assert isinstance(answer, Answer)
    case, rank, results = CASES[case_name], dist.get_rank(), []
    for variant in variants:
        arguments = case.arguments(variant, rank)
        tensors = arguments[0] if case.chunks else [arguments[0]]
        before = [tensor.clone() for tensor in tensors]
        with Ledger(tensors) as ledger:
            returned: Any = getattr(answer.module, function)(*arguments)
        result = arguments[0] if case.in_place else returned
        kept = all(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))
        is_tensor = isinstance(result, torch.Tensor)
        kind = type(returned).__name__
        after = [tensor.clone() for tensor in tensors]
        results.append(Came(result.detach().clone() if is_tensor else None, kind, kept, after, ledger.peak))
    return results
