"""The capstone: what the learner foretells of a run, beside the run. Bytes are judged, time is shown."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..answer import Answer
from ..catalogue import Catalogue
from ..planning import Pieces, Run
from ..said import Finding, Passed, Said, Shown
from .measurement import table
from .shows import Shows

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = "small"
STEPS = 4  # the first is not timed
SECONDS = 25.0  # for each of the three launches
WITHIN = 0.01  # of bytes
AIMS = {False: 0.25, True: 0.10}  # of seconds, by whether every rank has a core
MESSAGES = (1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20)


@dataclass(frozen=True)
class Trained:
    """One rank's: bytes of states at rest, bytes sent in a step along dp, pp and tp, seconds of a step."""

    states: int
    sent: tuple[float, float, float]
    seconds: float


@dataclass(frozen=True)
class Rehearsal(Shows):
    """Trains ``run`` on real ranks, and holds ``state_bytes``, ``sent`` and ``step_seconds`` of the file against it."""

    dp: int = 2
    pp: int = 2
    tp: int = 2
    microbatches: int = 4
    batch: int = 16
    sequence: int = 64

    def measure(self, answer: Answer, say: Catalogue) -> Iterator[Said | Shown | Passed | Finding]:
        """Pieces first, then what they foretell, then the run."""
        import parallel.training.training  # noqa: F401  # here, and not in every rank
        from collectives.bench.settings import cores

        run, module = self.run(), answer.module
        yield Said("rehearsal.pieces")
        pieces = self._pieces(cores())
        foretold = [float(module.state_bytes(run)), *map(float, module.sent(run))]
        seconds = float(module.step_seconds(run, pieces))
        size = run.dp * run.pp * run.tp
        yield Said("rehearsal.foretold", {"seconds": _time(seconds), "ranks": size})
        trained: list[Trained] = _launch(size, self)
        most = [max(one.states for one in trained), *(max(one.sent[axis] for one in trained) for axis in range(3))]
        names = ("states", "dp", "pp", "tp")
        yield from self._judged(names, foretold, most, size)
        took = max(one.seconds for one in trained)
        yield self._shown(say, names, foretold, most, (seconds, took), pieces, size)

    def run(self) -> Run:
        from parallel.model import SIZES

        config = SIZES[MODEL]
        return Run(
            config.layers, config.hidden, config.vocabulary, config.positions,
            self.dp, self.pp, self.tp, self.microbatches, self.batch, self.sequence,
        )  # fmt: skip

    def _judged(
        self, names: Sequence[str], foretold: Sequence[float], most: Sequence[float], size: int
    ) -> Iterator[Passed | Finding]:
        for name, said, found in zip(names, foretold, most, strict=True):
            function = "state_bytes" if name == "states" else "sent"
            fields = {"what": Said(f"rehearsal.what.{name}"), "ranks": size}
            if abs(said - found) > WITHIN * found:
                numbers = {"said": round(said), "found": round(found)}
                yield Finding(Said("rehearsal.off", {**fields, **numbers}), function, size)
                return
            yield Passed(Said("rehearsal.within", fields), function, (size,))

    def _shown(
        self,
        say: Catalogue,
        names: Sequence[str],
        foretold: Sequence[float],
        most: Sequence[float],
        seconds: tuple[float, float],
        pieces: Pieces,
        size: int,
    ) -> Shown:
        head = [say(f"rehearsal.column.{name}") for name in ("what", "yours", "run", "off")]
        rows = [
            [say(f"rehearsal.what.{name}"), f"{said:,.0f}", f"{found:,.0f}", f"{said / found - 1:+z.2%}"]
            for name, said, found in zip(names, foretold, most, strict=True)
        ]
        off = seconds[0] / seconds[1] - 1
        rows.append([say("rehearsal.what.step"), *map(_time, seconds), f"{off:+z.0%}"])
        own_core = size <= pieces.cores
        fields = {"ranks": size, "cores": pieces.cores, "aim": f"{AIMS[own_core]:.0%}"}
        reached = "reached" if abs(off) <= AIMS[own_core] else "missed"
        details = [Said(f"rehearsal.{reached}", fields)] + [Said("rehearsal.shared", fields)] * (not own_core)
        numbers: dict[str, Any] = {
            "ranks": size,
            "cores": pieces.cores,
            "replica": pieces.replica,
            "alpha": pieces.alpha,
            "beta": pieces.beta,
            "predicted_s": seconds[0],
            "measured_s": seconds[1],
        }
        return Shown(Said("rehearsal.table", {"ranks": size}), table([head, *rows]), tuple(details), numbers)

    def _pieces(self, cores: int) -> Pieces:
        """The step of one replica without a pipeline, and messages between two ranks."""
        from .measured import time_messages

        alone = Rehearsal(1, 1, self.tp, self.microbatches, self.batch // self.dp, self.sequence)
        replica = max(one.seconds for one in _launch(self.tp, alone)) * min(self.tp, cores)
        times = _run(time_messages, 2, MESSAGES)[0]
        beta, alpha = statistics.linear_regression(MESSAGES, times)
        return Pieces(replica, max(0.0, alpha), max(0.0, beta), cores)


def _launch(ranks: int, rehearsal: Rehearsal) -> list[Trained]:
    found: list[Trained] = _run(_train, ranks, rehearsal)
    return found


def _run(function: Any, ranks: int, *arguments: Any) -> list[Any]:
    from collectives import launch
    from collectives.bench.settings import cores

    return launch.run(function, ranks, *arguments, timeout=SECONDS, grace=0.5, batch=2 * ranks > cores())


def _train(rehearsal: Rehearsal) -> Trained:
    """In a rank: some steps as ``python -m parallel train`` makes them."""
    import torch

    from parallel.training.recipe import Recipe
    from parallel.training.training import Training

    recipe = Recipe(
        MODEL, rehearsal.dp, rehearsal.pp, rehearsal.tp,
        microbatches=rehearsal.microbatches, batch=rehearsal.batch, sequence=rehearsal.sequence,
    )  # fmt: skip
    training, times = Training(recipe), []
    shape = (rehearsal.batch, rehearsal.sequence + 1)
    rows = torch.randint(256, shape, generator=torch.Generator().manual_seed(0))
    with training.counted() as sent:
        for _ in range(STEPS):
            start = time.perf_counter()
            training.step(rows)
            times.append(time.perf_counter() - start)
    rest = training.memory()
    states = rest["parameters"] + rest["gradients"] + rest["optimizer"]
    along = (sent["dp"] / STEPS, sent["pp"] / STEPS, sent["tp"] / STEPS)
    return Trained(states, along, statistics.median(times[1:]))


def _time(seconds: float) -> str:
    from sim.units import show_time

    return show_time(float(f"{seconds:.3g}"))
