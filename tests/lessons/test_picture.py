"""Pictures of what happened: none where nothing did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from collectives.log import Log, Operation
from collectives.schedule import Schedule, Send, Step
from lessons.catalogue import Catalogue
from lessons.checks.cases import CASES, Case, Variant
from lessons.checks.limit import Limit
from lessons.diagnosis import Came, Wrong
from lessons.judge import judge
from lessons.manifest import COURSE
from lessons.picture import log_lines, program_lines, value_lines
from lessons.said import Finding

SAY = Catalogue()


def test_a_log_without_messages_has_no_picture() -> None:
    ended = {rank: [Operation(rank, 1, "barrier", "done")] for rank in range(2)}
    assert list(log_lines(Log(), SAY)) == []
    assert list(log_lines(Log(ended), SAY)) == []
    sent = {0: [Operation(0, 1, "send", "done", 1)], 1: [Operation(1, 1, "recv", "done", 0)]}
    assert list(log_lines(Log(sent), SAY)) == ["rank 0  →1", "rank 1  ←0", SAY("picture.log")]


def _nothing(rank: int, size: int) -> Iterator[Step]:
    yield from ()


def _sends(rank: int, size: int) -> Iterator[Step]:
    if rank == 0:
        yield (Send(0, to=1),)


def test_a_program_without_steps_has_no_picture() -> None:
    def lines(program: object) -> list[str]:
        schedule = Schedule("broadcast", program, chunks=1)  # type: ignore[arg-type]
        return list(program_lines(schedule, 2, None, None, SAY))

    assert lines(_nothing) == []
    assert lines(_sends)[-1] == SAY("picture.program")


def _wrong(case: Case, results: list[torch.Tensor | None]) -> Wrong:
    variant = case.variants(2)[0]
    came = [Came(result, None, "NoneType", True, (), 0) for result in results]
    data = tuple(case.data(variant, rank) for rank in range(2))
    return Wrong("f", case, 2, variant, came, Log(), data, SAY, Limit())


def test_values_that_there_are_none_of_have_no_picture() -> None:
    case = CASES["rotate"]
    variant: Variant = case.variants(2)[0]
    assert list(value_lines(_wrong(case, [None, None]))) == []
    assert list(value_lines(_wrong(case, [None, case.data(variant, 0)])))[-1] == SAY("picture.values")


def test_no_legend_stands_alone_in_a_check(tmp_path: Path) -> None:
    file = tmp_path / "01_send_and_receive.py"
    stub = Path(__file__).parents[2] / "lessons" / "course" / "01_send_and_receive" / "stub.py"
    file.write_text(stub.read_text().replace("raise NotImplementedError", "return None"))
    findings = [one for one in judge(COURSE[1], file, SAY, ranks=(2,)) if isinstance(one, Finding)]
    legends = {SAY(f"picture.{name}") for name in ("log", "program", "values")}
    assert findings
    assert not [one for one in findings if one.picture and set(one.picture) <= legends]
    assert not [one for one in findings if one.picture and not any(sign in "".join(one.picture[:-1]) for sign in "→←:")]
