"""Every strategy on this machine: what a rank holds, what it sends and how long a step takes. No verdict."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ..answer import Answer
from ..catalogue import Catalogue
from ..said import Said, Shown
from .measurement import table
from .shows import Shows

if TYPE_CHECKING:
    from parallel.training.recipe import Recipe

STEPS = 3  # the first is not timed
SECONDS = 20.0  # for the strategies of one launch
RANKS = 4  # so many strategies need
MODEL, BATCH, SEQUENCE = "small", 8, 32
# the fields of its recipe, by name
WAYS: Mapping[str, Mapping[str, int | str]] = {
    "single": {},
    "dp": {"dp": 4},
    "zero_1": {"dp": 4, "zero": 1},
    "zero_2": {"dp": 4, "zero": 2},
    "zero_3": {"dp": 4, "zero": 3},
    "recompute": {"dp": 4, "recompute": "full"},
    "tp": {"tp": 4},
    "pp": {"pp": 4, "microbatches": 4},
    "dp_pp": {"dp": 2, "pp": 2, "microbatches": 4},
    "pp_tp": {"pp": 2, "tp": 2, "microbatches": 4},
}
LAUNCHES = (("single",), ("dp", "zero_1", "zero_2", "zero_3", "recompute"), ("tp", "pp", "dp_pp", "pp_tp"))


@dataclass(frozen=True)
class Row:
    """One strategy, of the rank with most. states: bytes of parameters, gradients and optimizer; passing: of what comes
    and goes within a step, at the worst moment of rank 0; sent: bytes in a step, predicted: by the learner's formula,
    where it says; seconds: of a step."""

    way: str
    states: int
    passing: int
    sent: float
    predicted: float | None
    seconds: float


@dataclass(frozen=True)
class Compared(Shows):
    """The pros and cons of the strategies, as a table; ``zero_elements`` of the learner's file stands in it."""

    def measure(self, answer: Answer, say: Catalogue) -> Iterator[Said | Shown]:
        import parallel.training.training  # noqa: F401  # here, and not in every rank
        from collectives.bench.settings import cores

        found: dict[str, list[_Found]] = {}
        for ways in LAUNCHES:
            yield Said("compared.at", {"ways": [Said(f"compared.way.{way}") for way in ways]})
            found |= _run({way: WAYS[way] for way in ways}, 1 if ways == ("single",) else RANKS)
        rows = [_row(way, found[way], answer) for way in WAYS]
        unit = 2**10
        head = [say(f"compared.column.{name}") for name in ("way", "states", "passing", "sent", "yours", "step")]
        lines = [
            [
                say(f"compared.way.{row.way}"),
                *(f"{nbytes / unit:,.0f}" for nbytes in (row.states, row.passing, row.sent)),
                "–" if row.predicted is None else f"{row.predicted / unit:,.0f}",
                f"{row.seconds * 1e3:.0f}",
            ]
            for row in rows
        ]
        fields = {"model": MODEL, "ranks": RANKS, "cores": cores(), "batch": BATCH, "sequence": SEQUENCE}
        yield Shown(
            Said("compared.table", fields),
            table([head, *lines]),
            tuple(_words(rows)),
            {"rows": list(map(asdict, rows))},
        )


def _words(rows: Sequence[Row]) -> Iterator[Said]:
    """Who is best at what, of those that share the work."""
    shared = [row for row in rows if row.way != "single"]
    for what in ("states", "passing", "sent", "seconds"):
        best = min(shared, key=lambda row: float(getattr(row, what)))
        yield Said(f"compared.least.{what}", {"way": Said(f"compared.way.{best.way}")})
    yield Said("compared.shared_cores")


def _row(way: str, found: Sequence[_Found], answer: Answer) -> Row:
    recipe = _recipe(way, WAYS[way])
    predicted = None
    if way in ("dp", "zero_1", "zero_2", "zero_3"):
        predicted = 4 * float(answer.module.zero_elements(recipe.zero, found[0].elements, recipe.dp, 1))
    return Row(
        way,
        max(one.states for one in found),
        max(one.passing for one in found),
        max(one.sent for one in found),
        predicted,
        max(one.seconds for one in found),
    )


def _recipe(way: str, fields: Mapping[str, int | str]) -> Recipe:
    from parallel.training.recipe import Recipe

    given: dict[str, Any] = dict(fields)
    return Recipe(model=MODEL, batch=BATCH, sequence=SEQUENCE, **given)


def _run(ways: Mapping[str, Mapping[str, int | str]], ranks: int) -> dict[str, list[_Found]]:
    """What each rank found, by strategy."""
    from collectives import launch
    from collectives.bench.settings import cores

    batch = 2 * ranks > cores()
    found: list[list[_Found]] = launch.run(_train, ranks, dict(ways), timeout=SECONDS, grace=0.5, batch=batch)
    return {way: [of_rank[number] for of_rank in found] for number, way in enumerate(ways)}


# In a rank.


@dataclass(frozen=True)
class _Found:
    states: int
    passing: int
    sent: float
    seconds: float
    elements: int


def _train(ways: Mapping[str, Mapping[str, int | str]]) -> list[_Found]:
    return [_trained(_recipe(way, fields)) for way, fields in ways.items()]


def _trained(recipe: Recipe) -> _Found:
    """A few steps of one strategy: timed, counted, and one more watched."""
    import torch
    import torch.distributed as dist

    from parallel.training.training import Training

    from .ledger import Passing

    training, times = Training(recipe), []
    rows = torch.randint(256, (BATCH, SEQUENCE + 1), generator=torch.Generator().manual_seed(0))
    with training.counted() as sent:
        for _ in range(STEPS):
            start = time.perf_counter()
            training.step(rows)
            times.append(time.perf_counter() - start)
    rest = training.memory()
    passing = Passing()
    with passing if dist.get_rank() == 0 else contextlib.nullcontext():  # watching takes time
        training.step(rows)
    states = rest["parameters"] + rest["gradients"] + rest["optimizer"]
    return _Found(states, passing.most(), sum(sent.values()) / STEPS, median(times[1:]), training.parameters())
