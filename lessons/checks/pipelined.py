"""Proved timetables on real ranks: our engine trains a small model with them, one process says what must come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..said import Finding, Passed, Said
from .timetable import timetable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..answer import Answer
    from .timetable import Timetable

SECONDS = 20.0
WIDTH = 6
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Course:
    """One timetable to be run: plain data, that travels to ranks."""

    function: str
    microbatches: int
    chunks: int


@dataclass(frozen=True)
class Went:
    """What came of it on a rank. gradients: of all parameters of each of its stages."""

    loss: float | None
    gradients: dict[int, list[Tensor]]


def run_timetables(
    checks: Sequence[Timetable], answer: Answer, ranks: tuple[int, ...] = ()
) -> Iterator[Passed | Finding]:
    """Run the timetables of a file one after the other, on every number of ranks at which one of them is to run.

    Args:
        ranks: in place of those of the checks.
    """
    from collectives.launch import RankFailed, RankTimeout, run

    wrong: dict[str, Finding] = {}
    for size in ranks or sorted({size for check in checks for size in check.ranks}):
        sound = [check for check in checks if check.function not in wrong and size in (ranks or check.ranks)]
        courses = [Course(check.function, 2 * size, check.chunks) for check in sound]
        try:
            came = run(_play, size, courses, answer.path, answer.source, timeout=SECONDS)
        except (RankFailed, RankTimeout) as error:
            said = Said("timetable.failed", {"error": str(error).splitlines()[0]})
            yield Finding(said, ", ".join(check.function for check in sound), size, details=(str(error),))
            return
        for number, course in enumerate(courses):
            if not _is_right(course, size, [mine[number] for mine in came]):
                wrong[course.function] = Finding(Said("timetable.differs", {"ranks": size}), course.function, size)
                yield wrong[course.function]
    for check in checks:
        if check.function not in wrong:
            yield Passed(Said("timetable.ran"), check.function, ranks or check.ranks)


def _is_right(course: Course, size: int, came: Sequence[Went]) -> bool:
    """Loss and all gradients, beside the whole batch in one process."""
    import torch

    stages = [_stage(number) for number in range(size * course.chunks)]
    inputs, targets = _batch(course)
    loss = _loss(torch.nn.Sequential(*stages)(inputs), targets) / len(inputs)
    loss.backward()
    losses = [one.loss for one in came if one.loss is not None]
    if len(losses) != 1 or abs(losses[0] - loss.item()) > TOLERANCE:
        return False
    gradients = {number: found for one in came for number, found in one.gradients.items()}
    return all(
        torch.allclose(mine, parameter.grad, rtol=0.0, atol=TOLERANCE)
        for number, stage in enumerate(stages)
        for mine, parameter in zip(gradients[number], stage.parameters(), strict=True)
        if parameter.grad is not None
    )


def _play(courses: Sequence[Course], path: Path, source: str) -> list[Went]:
    """In a rank: what it ends with, for each timetable."""
    import torch

    from ..answer import Answer, load_answer

    torch.set_num_threads(1)
    answer = load_answer(path, source)
    assert isinstance(answer, Answer)
    return [_trained(answer, course) for course in courses]


def _trained(answer: Answer, course: Course) -> Went:
    import torch.distributed as dist

    from parallel.pipeline import Stages
    from parallel.pipeline.engine import Pipeline

    schedule = timetable(answer, course.function)
    numbers = Stages(schedule, dist.get_world_size(), course.chunks).stage[dist.get_rank()]
    chunks = [_stage(number) for number in numbers]
    pipeline = Pipeline(chunks, schedule, course.microbatches, _loss, timeout=SECONDS)
    loss = pipeline.step(*_batch(course))
    gradients = {
        number: [p.grad for p in chunk.parameters() if p.grad is not None]
        for number, chunk in zip(numbers, chunks, strict=True)
    }
    return Went(None if loss is None else loss.item(), gradients)


def _stage(number: int) -> nn.Module:
    """A layer, the same wherever it is made."""
    import torch

    layer = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
    seeded = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=seeded, dtype=torch.float64) / WIDTH**0.5)
    return torch.nn.Sequential(layer, torch.nn.Tanh())


def _batch(course: Course) -> tuple[Any, Any]:
    """Rows that the microbatches do not divide."""
    import torch

    seeded = torch.Generator().manual_seed(7)
    shape = (2, 2 * course.microbatches + 1, WIDTH)
    inputs, targets = torch.randn(shape, generator=seeded, dtype=torch.float64)
    return inputs, targets


def _loss(output: Any, targets: Any) -> Tensor:
    """Summed, as ``Pipeline`` asks."""
    total: Tensor = ((output - targets) ** 2).sum()
    return total
