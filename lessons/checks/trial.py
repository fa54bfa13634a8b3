"""A function with any call of ``torch.distributed`` in it, run on real ranks beside one process, and priced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..answer import Answer
from ..catalogue import Catalogue
from ..diagnosis import Broken, Rule, Unlike, diagnose
from ..said import Finding, Passed, Said, Speech

if TYPE_CHECKING:
    from collections.abc import Iterable

    from collectives.log import Log, Operation
    from collectives.recorder import Recording

    from .experiment import Experiment

SECONDS = 30.0  # for all examples on one number of ranks


@dataclass(frozen=True)
class Trial:
    """``function(…)`` of the learner's file gives on every rank what its entry of ``EXPERIMENTS`` computes alone."""

    function: str
    ranks: tuple[int, ...] = (2, 3, 4)
    rules: tuple[Rule, ...] = ()

    def dear(self, answer: Answer, say: Catalogue, ranks: tuple[int, ...]) -> Iterator[Passed | Finding]:
        """Run it: what goes wrong on the way, then what comes out, then what it cost."""
        sizes = ranks or self.ranks
        for result in self._results(answer, say, sizes):
            yield replace(result, sentence=_alone(result.sentence, say)) if sizes == (1,) else result

    def _results(self, answer: Answer, say: Catalogue, sizes: tuple[int, ...]) -> Iterator[Passed | Finding]:
        from collectives.recorder import explain

        from ..picture import log_lines
        from .experiments import EXPERIMENTS
        from .ledger import warm

        warm()
        experiment, count = EXPERIMENTS[self.function], 0
        first: dict[int, Recording] = {}
        experiment.warm()
        for size in sizes:
            examples = experiment.examples(size)
            recording = self._record(answer, size)
            if recording.failure is not None:
                broken = Broken(self.function, size, recording.failure, recording.log, answer.path, say)
                yield diagnose(broken, self.rules)
                return
            assert recording.results is not None
            gone = [rank for rank, came in enumerate(recording.results) if came is None]
            if gone:  # launch takes sys.exit(0) for a good end
                yield Finding(Said("process.exited", {"rank": gone[0], "code": 0}), self.function, size)
                return
            came = [[rank[number].outcome for rank in recording.results] for number in range(len(examples))]
            unlike = Unlike(self.function, experiment, size, examples, came, recording.log, say)
            if unlike.wrong:
                yield diagnose(unlike, self.rules)
                return
            hazard = explain(recording.log)  # right by luck: nobody waited, or memory was used too early
            if hazard is not None:
                yield Finding(hazard, self.function, size, tuple(log_lines(recording.log, say)))
                return
            first[size], count = recording, count + len(examples)
        yield Passed(Said("check.right", {"calls": count}), self.function, sizes)
        yield from self._price(experiment, first)

    def _record(self, answer: Answer, size: int) -> Recording:
        from collectives.recorder import record

        with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
            return record(_play, size, folder, answer.path, answer.source, self.function, timeout=SECONDS, grace=0.5)

    def _price(self, experiment: Experiment, recordings: dict[int, Recording]) -> Iterator[Passed | Finding]:
        """The bytes of the first example, sent and held, of the rank that sends or holds most."""
        for what in ("sent", "memory"):
            allowed = getattr(experiment, what)
            if allowed is None:
                continue
            for size, recording in recordings.items():
                limit = allowed(experiment.examples(size)[0], size)
                assert recording.results is not None
                peaks = [came[0].peak for came in recording.results]
                got = (
                    max(_sent(recording.log, [came[0].until for came in recording.results]))
                    if what == "sent"
                    else max(peaks)
                )
                fields = {"ranks": size, "got": round(got), "limit": round(limit)}
                if got > limit * (1 + 1e-6):
                    yield Finding(Said(f"trial.dear.{what}", fields), self.function, size)
                    return
            yield Passed(Said(f"trial.{what}", {"ranks": size}), self.function, (size,), f"{got:.0f}", f"{limit:.0f}")


@dataclass(frozen=True)
class Ended:
    """What came of one call in a rank. peak: bytes allocated at the worst moment; until: operations when it ended."""

    outcome: Any
    peak: int
    until: int


def _alone(what: Speech, say: Catalogue) -> Speech:
    """What is said of ranks, in the words for one process, where there are such."""
    if isinstance(what, Said) and say.has(f"alone.{what.id}"):
        return replace(what, id=f"alone.{what.id}")
    return what


def _play(path: Path, source: str, function: str) -> list[Ended]:
    """In a rank: what comes of every example."""
    import torch
    import torch.distributed as dist
    from torch.utils._pytree import tree_leaves

    from collectives.recorder import RecordingGroup

    from ..answer import load_answer
    from .experiments import EXPERIMENTS
    from .ledger import Ledger

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    answer, experiment = load_answer(path, source), EXPERIMENTS[function]
    assert isinstance(answer, Answer)
    called, group = getattr(answer.module, function), dist.group.WORLD
    assert isinstance(group, RecordingGroup)
    rank, size = dist.get_rank(), dist.get_world_size()
    ended = []
    for example in experiment.examples(size):
        arguments = experiment.arguments(example, rank, size)
        known = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
        with Ledger(known) as ledger:
            value = called(*arguments)
        ended.append(Ended(plain(experiment.outcome(arguments, value)), ledger.peak, group.count))
    return ended


def plain(value: Any) -> Any:
    """Tensors without their history, so that they can go to another process."""
    import torch
    from torch.utils._pytree import tree_map

    def detached(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    try:
        return tree_map(detached, value)
    except Exception:  # a learner may return anything
        return repr(value)


def _sent(log: Log, until: Sequence[int]) -> list[float]:
    """Bytes that each rank has sent in its operations up to the number in ``until``."""
    return [sum(map(_bytes, _first(log.operations.get(rank, []), end))) for rank, end in enumerate(until)]


def _first(operations: Iterable[Operation], end: int) -> Iterator[Operation]:
    return (operation for operation in operations if operation.seq <= end)


_COLLECTIVES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "allgather_base": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_base": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}


def _bytes(operation: Operation) -> float:
    """What a rank sends for it; a collective as a ring does it, which no other way beats."""
    from collectives.contract import contract_of

    if operation.op == "send":
        return operation.bytes
    if operation.op not in _COLLECTIVES:
        return 0.0
    return operation.bytes * contract_of(_COLLECTIVES[operation.op]).factor(len(operation.members))
