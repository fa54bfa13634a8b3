"""Proved schedules on real ranks: our executor runs them, one process computes what must come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..said import Finding, Passed, Said
from .marks import mark

if TYPE_CHECKING:
    from torch import Tensor

    from ..answer import Answer
    from .program import Answered, Program

SECONDS = 20.0
LENGTHS = (0, 1, 3, 13)  # of one rank's block


def run_programs(checks: Sequence[Program], answer: Answer, ranks: tuple[int, ...] = ()) -> Iterator[Passed | Finding]:
    """Run the schedules of a file one after the other, on every number of ranks at which one of them is to run.

    Args:
        ranks: in place of those of the checks.
    """
    import collectives.moving
    import collectives.reducing  # noqa: F401  what each rank would import, before ranks are forked
    from collectives.launch import RankFailed, RankTimeout, run

    wrong: dict[str, Finding] = {}
    for size in ranks or sorted({size for check in checks for size in check.ranks}):
        sound = [check for check in checks if check.function not in wrong and size in (ranks or check.ranks)]
        answered = [check.answered(size) for check in sound]
        try:
            came = run(_play, size, answered, answer.path, answer.source, timeout=SECONDS)
        except (RankFailed, RankTimeout) as error:
            said = Said("program.failed", {"error": str(error).splitlines()[0]})
            yield Finding(said, ", ".join(check.function for check in sound), size, details=(str(error),))
            return
        for number, one in enumerate(answered):
            finding = _compare(one, size, [came[rank][number] for rank in range(size)])
            if finding is not None:
                wrong[one.function] = finding
                yield finding
    for check in checks:
        if check.function not in wrong:
            yield Passed(Said("check.ran"), check.function, ranks or check.ranks)


def _compare(answered: Answered, size: int, came: Sequence[Sequence[list[float]]]) -> Finding | None:
    for number, length in enumerate(LENGTHS):
        data = [_data(answered.collective, rank, size, length) for rank in range(size)]
        for rank in range(size):
            wanted = _expected(answered.collective, data, rank)
            if wanted is not None and came[rank][number] != wanted.tolist():
                said = Said("program.differs", {"rank": rank, "length": length})
                return Finding(said, answered.function, size)
    return None


def _play(programs: Sequence[Answered], path: Path, source: str) -> list[list[list[float]]]:
    """In a rank: what this rank ends with, for each program and length."""
    import torch.distributed as dist

    import collectives

    from ..answer import Answer, load_answer

    answer = load_answer(path, source)
    assert isinstance(answer, Answer)
    rank, size = dist.get_rank(), dist.get_world_size()
    results = []
    for program in programs:
        schedule = program.schedule(answer)
        given = [_data(program.collective, rank, size, length) for length in LENGTHS]
        results.append([_call(collectives, schedule, data, rank, size).tolist() for data in given])
    return results


def _data(collective: str, rank: int, size: int, length: int) -> Tensor:
    """What ``rank`` starts with: one block, or one for each rank."""
    import torch

    whole = collective in ("reduce_scatter", "scatter", "all_to_all")
    count = length * (size if whole else 1)
    return torch.tensor([mark(rank, position) for position in range(count)], dtype=torch.float64)


def _call(collectives: Any, schedule: Any, data: Tensor, rank: int, size: int) -> Tensor:
    import torch

    name = schedule.collective
    if name in ("all_reduce", "broadcast", "reduce"):
        arguments = () if name == "all_reduce" else (0,)
        getattr(collectives, name)(data, *arguments, algorithm=schedule)
        return data
    if name == "all_gather":
        whole = data.new_empty(size * data.numel())
        collectives.all_gather_into_tensor(whole, data, algorithm=schedule)
        return whole
    if name == "gather":
        pieces = [torch.empty_like(data) for _ in range(size)] if rank == 0 else None
        collectives.gather(data, pieces, 0, algorithm=schedule)
        return torch.cat(pieces) if pieces else data
    if name == "all_to_all":
        result = torch.empty_like(data)
        collectives.all_to_all_single(result, data, algorithm=schedule)
        return result
    block = data.new_empty(data.numel() // size)
    if name == "scatter":
        collectives.scatter(block, list(data.chunk(size)) if rank == 0 else None, 0, algorithm=schedule)
    else:
        collectives.reduce_scatter_tensor(block, data, algorithm=schedule)
    return block


def _expected(collective: str, data: Sequence[Tensor], rank: int) -> Tensor | None:
    """What one process makes of all ranks' data; None where nothing is promised to ``rank``."""
    import torch

    size = len(data)
    if collective in ("reduce", "gather") and rank != 0:
        return None
    if collective in ("all_reduce", "reduce"):
        return torch.stack(list(data)).sum(0)
    if collective == "broadcast":
        return data[0]
    if collective in ("all_gather", "gather"):
        return torch.cat(list(data))
    blocks = [one.reshape(size, -1) for one in data]
    if collective == "all_to_all":
        return torch.cat([block[rank] for block in blocks])
    return blocks[0][rank] if collective == "scatter" else torch.stack([block[rank] for block in blocks]).sum(0)
