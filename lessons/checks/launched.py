"""A training function that makes its own process group: launched as ``torchrun`` would, held against one process."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..answer import Answer
from ..catalogue import Catalogue
from ..diagnosis import Broken, Rule, Unlike, diagnose
from ..said import Finding, Passed, Said

SECONDS = 20.0  # for one example on one number of ranks
AGENT = "TORCHELASTIC_USE_AGENT_STORE"  # ranks meet in the launcher's store, as under torchrun


@dataclass(frozen=True)
class Launched:
    """``function(…)`` of the learner's file, on ranks without a group, gives what its entry of ``EXPERIMENTS`` says.

    Its all-reduces must be those of the schedule that the file calls ``program``, on backend ``ring``.
    """

    function: str
    program: str
    ranks: tuple[int, ...] = (2, 3, 4)
    rules: tuple[Rule, ...] = ()

    def dear(self, answer: Answer, say: Catalogue, ranks: tuple[int, ...]) -> Iterator[Passed | Finding]:
        """Run it: what goes wrong on the way, then what comes out, then who moved it."""
        from collectives.launch import RankFailed, RankTimeout, run
        from collectives.log import Log

        from .experiments import EXPERIMENTS

        experiment, sizes, count = EXPERIMENTS[self.function], ranks or self.ranks, 0
        experiment.warm()
        importlib.import_module("collectives.torch_backend")  # once, before ranks are forked
        for size in sizes:
            examples, came, wrong = experiment.examples(size), [], []
            for number in range(len(examples)):
                try:
                    call = answer.path, answer.source, self.function, self.program, number
                    ended = run(_play, size, *call, timeout=SECONDS, grace=0.5)
                except (RankFailed, RankTimeout) as failure:
                    yield diagnose(Broken(self.function, size, failure, Log(), answer.path, say), self.rules)
                    return
                gone = [rank for rank, one in enumerate(ended) if one is None]
                if gone:  # launch takes sys.exit(0) for a good end
                    yield Finding(Said("process.exited", {"rank": gone[0], "code": 0}), self.function, size)
                    return
                came.append([outcome for outcome, _ in ended])
                wrong += [Said(*moved) for _, moved in ended if moved is not None]
            unlike = Unlike(self.function, experiment, size, examples, came, Log(), say)
            if unlike.wrong:
                yield diagnose(unlike, self.rules)
                return
            if wrong:
                yield Finding(wrong[0], self.function, size)
                return
            count += len(examples)
        yield Passed(Said("check.right", {"calls": count}), self.function, sizes)
        yield Passed(Said("data_parallel.launched.moved", {"program": self.program}), self.function, sizes)


def _play(path: Path, source: str, function: str, program: str, number: int) -> tuple[Any, Any]:
    """In a rank: what comes of one example, and what is wrong with who moved it."""
    import torch
    import torch.distributed as dist

    from ..answer import load_answer
    from .experiments import EXPERIMENTS
    from .trial import plain

    dist.destroy_process_group()
    os.environ[AGENT] = "True"
    torch.set_num_threads(1)
    answer, experiment = load_answer(path, source), EXPERIMENTS[function]
    assert isinstance(answer, Answer)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    arguments = experiment.arguments(experiment.examples(size)[number], rank, size)
    value = getattr(answer.module, function)(*arguments)
    return plain(experiment.outcome(arguments, value)), _moved(getattr(answer.module, program, None))


def _moved(program: Any) -> tuple[str, dict[str, str]] | None:
    """Why the all-reduces were not those of the program, if so."""
    import torch.distributed as dist

    from collectives.backend.group import RingGroup

    group = dist.group.WORLD
    if group is None:
        return "data_parallel.launched.destroyed", {}
    if not isinstance(group, RingGroup):
        return "data_parallel.launched.other_backend", {"backend": dist.get_backend()}
    schedule = group.algorithms.get("all_reduce")
    if schedule is None:
        return "data_parallel.launched.chosen", {}
    mine = getattr(program, "__code__", None)
    if not any(getattr(one, "__code__", None) == mine for one in schedule.programs):
        return "data_parallel.launched.other_schedule", {"schedule": str(schedule)}
    return None
