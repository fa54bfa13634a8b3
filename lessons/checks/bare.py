"""A function of tensors with ``dist.send`` and ``dist.recv`` in it: recorded on real ranks, replayed, priced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import collectives

from ..answer import Answer
from ..catalogue import Catalogue
from ..diagnosis import Broken, Came, Rule, Wrong, diagnose
from ..said import Finding, Passed, Said
from .cases import CASES, Case, Variant
from .limit import Limit
from .price import price, whole_buffers

if TYPE_CHECKING:
    from torch import Tensor

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
                recording = self._record(answer, case, size, variants)
                if recording.failure is not None:
                    wrong = self._wrong(case, calls, sizes, say) if variants == others else None
                    if wrong is not None:  # the plain call says more than what comes of it with other shapes
                        yield diagnose(wrong, self.rules)
                        return
                    broken = Broken(self.function, size, recording.failure, recording.log, answer.path, say, variants)
                    yield diagnose(broken, self.rules)
                    return
                assert recording.results is not None
                gone = [rank for rank, came in enumerate(recording.results) if came is None]
                if gone:  # launch takes sys.exit(0) for a good end
                    said = Said("process.exited", {"rank": gone[0], "code": 0})
                    yield Finding(said, self.function, size)
                    return
                for number, variant in enumerate(variants):
                    calls.append((size, variant, [came[number] for came in recording.results], recording.log))
                first.setdefault(size, recording)
        done_by_others = [self._not_own(o, answer.path) for one in first.values() for o in _operations(one.log)]
        if any(done_by_others):
            yield Finding(next(said for said in done_by_others if said is not None), self.function)
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
        if not any(one.log.is_threaded(rank) for one in first.values() for rank in one.log.operations):
            yield self._unbuffered(first, say)
        for result in price(self.function, self.limit, costs, self.rules):
            yield self._pickled(first, result) or result

    def _pickled(self, recordings: dict[int, Recording], result: Passed | Finding) -> Finding | None:
        """What is too dear because objects were sent in place of tensors."""
        if not isinstance(result, Finding):
            return None
        for operation in _operations(recordings[result.ranks].log):
            if operation.call in ("send_object_list", "recv_object_list"):
                said = Said("bare.objects", {"call": operation.call, "where": operation.where})
                return Finding(said, self.function, result.ranks, details=(result.sentence,))
        return None

    def _record(self, answer: Answer, case: Case, size: int, variants: Sequence[Variant]) -> Recording:
        from collectives.recorder import record

        call = answer.path, answer.source, self.function, case.name, variants
        with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
            return record(_play, size, folder, *call, timeout=SECONDS, grace=0.5)

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

    def _not_own(self, operation: Operation, path: Path) -> Said | None:
        """What does the work in the learner's place: the backend's collective, or the library's."""
        if operation.is_collective and operation.op not in ("barrier", "new_group"):
            return Said("bare.collective", {"call": operation.call or operation.op, "where": operation.where})
        file = operation.where.partition(":")[0]
        if file != path.name and (Path(collectives.__file__).parent / file).is_file():
            return Said("bare.library")
        return None

    def _costs(self, case: Case, size: int, recording: Recording) -> dict[str, int | Fraction]:
        """Of the worst rank, in the first call."""
        from collectives.rendezvous import replay

        log = recording.log
        buffer = ITEM * case.variants(size)[0].numel
        sends = {
            rank: [o for o in operations if o.op == "send"] for rank, operations in recording.log.operations.items()
        }
        assert recording.results is not None
        threaded = any(log.is_threaded(rank) for rank in log.operations)
        return {
            **({} if threaded else {"steps": replay(log).rounds}),
            "peers": max((len({o.peer for o in one}) for one in sends.values()), default=0),
            "messages": max((len(one) for one in sends.values()), default=0),
            "sent": Fraction(max((sum(o.bytes for o in one) for one in sends.values()), default=0), buffer),
            "memory": Fraction(max(came[0].peak for came in recording.results), buffer),
        }


def _operations(log: Log) -> Iterator[Operation]:
    for operations in log.operations.values():
        yield from operations


def equal(call: Wrong, result: Tensor, wanted: Tensor) -> Tensor:
    """Element by element; a mean may be rounded in another order."""
    import torch

    return torch.isclose(result, wanted, rtol=1e-12, atol=0.0) if call.case.mean else result == wanted


def is_right(call: Wrong, rank: int) -> bool:
    """Whether one rank got every element as one process computes it."""
    came, wanted = call.came[rank], call.expected(rank)
    return (
        came.result is not None
        and came.result.shape == wanted.shape
        and came.result.dtype == wanted.dtype
        and bool(equal(call, came.result, wanted).all())
        and (came.kept or not call.case.keeps)
    )


def _play(path: Path, source: str, function: str, case_name: str, variants: Sequence[Variant]) -> list[Came]:
    """In a rank: what comes of every call."""
    import torch
    import torch.distributed as dist

    from ..answer import load_answer
    from .ledger import Ledger

    os.environ["OMP_NUM_THREADS"] = "1"
    answer = load_answer(path, source)
    assert isinstance(answer, Answer)
    # memory that nobody has written is not a number then, on every run
    torch.use_deterministic_algorithms(True, warn_only=True)
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
        given = returned.detach().clone() if isinstance(returned, torch.Tensor) else None
        results.append(Came(result.detach().clone() if is_tensor else None, given, kind, kept, after, ledger.peak))
    return results
