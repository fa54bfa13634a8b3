"""Timetables of pipelines: the library's own pass, mistaken ones are told apart, and what stands still is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from lessons.answer import Answer, load_answer
from lessons.catalogue import Catalogue
from lessons.checks.lookalikes import LOOKALIKES
from lessons.checks.pipelined import run_timetables
from lessons.checks.score import Score
from lessons.checks.timetable import Size, Timetable, clock
from lessons.manifest import COURSE
from lessons.said import Finding, Passed, Said, Shown
from lessons.timelines import timeline_lines
from parallel.pipeline import Action, Backward, Forward, PipelineSchedule, find
from sim.pipeline import play

SAY = Catalogue()
CHECKS = {check.function: check for lesson in COURSE for check in lesson.checks if isinstance(check, Timetable)}
LIBRARY = {
    "naive": "from parallel.pipeline.one_chunk import naive",
    "gpipe": "from parallel.pipeline.one_chunk import gpipe",
    "one_forward_one_backward": "from parallel.pipeline.one_chunk import one_forward_one_backward",
    "interleaved": "from parallel.pipeline.looped import interleaved",
    "golf": "from parallel.pipeline.zero_bubble import zb_h1 as golf",
}
IMPORTS = "from parallel.pipeline import *\n"


def answered(source: str) -> Answer:
    answer = load_answer(Path("answer.py"), source)
    assert isinstance(answer, Answer)
    return answer


def found(function: str, source: str) -> Finding:
    (finding,) = [one for one in CHECKS[function].cheap(answered(source), SAY) if isinstance(one, Finding)]
    return finding


def named(function: str, body: str) -> str:
    first = f"def {function}(rank, ranks, microbatches, chunks):\n"
    return getattr(found(function, IMPORTS + first + body).sentence, "id", "")


def test_there_is_a_check_for_each() -> None:
    assert CHECKS.keys() == LIBRARY.keys() == LOOKALIKES.keys()


@pytest.mark.parametrize("function", LIBRARY)
def test_the_librarys_own_pass(function: str) -> None:
    results = list(CHECKS[function].cheap(answered(LIBRARY[function]), SAY))
    assert [type(one) for one in results] == [Passed] * 3


def test_the_librarys_own_train_on_real_ranks() -> None:
    answer = answered("\n".join(LIBRARY.values()))
    results = list(run_timetables(list(CHECKS.values()), answer, ranks=(2,)))
    assert [(type(one), one.function) for one in results] == [(Passed, name) for name in CHECKS]


@pytest.mark.parametrize("function", LOOKALIKES)
def test_no_two_mistakes_are_alike(function: str) -> None:
    right = find(CHECKS[function].par).program
    programs = {"right": right, **LOOKALIKES[function]} if function != "golf" else LOOKALIKES[function]

    def everything(name: str) -> list[list[Action]]:
        sizes = [(rank, *size) for size in CHECKS[function].proved for rank in range(size.ranks)]
        return [list(programs[name](*each)) for each in sizes]  # type: ignore[misc]

    read = {name: everything(name) for name in programs}
    assert [pair for pair in combinations(programs, 2) if read[pair[0]] == read[pair[1]]] == []


@pytest.mark.parametrize(("function", "id"), [(function, id) for function, those in LOOKALIKES.items() for id in those])
def test_every_mistake_is_named(function: str, id: str) -> None:
    source = f"from lessons.checks.lookalikes import LOOKALIKES\n{function} = LOOKALIKES[{function!r}][{id!r}]\n"
    finding = found(function, source)
    assert getattr(finding.sentence, "id", "") == id
    assert finding.picture
    assert Catalogue("zh").say(finding.sentence) != SAY.say(finding.sentence)


BOTH = "    for i in range(microbatches): yield Forward(i)\n    for i in range(microbatches): yield Backward(i)\n"

SHUFFLED = BOTH.replace("range(microbatches)", "sorted(range(microbatches), key=lambda i: (i + rank) % 2)", 1)


@pytest.mark.parametrize(
    ("body", "id"),
    [
        ("    return None\n", "program.none"),
        ("    return Forward(0)\n", "timetable.returned_one"),
        ("    while True: yield Forward(0)\n", "program.endless"),
        ("    yield 1 / 0\n", "program.raised"),
        ("    yield Forward\n", "timetable.no_action"),
        ("    yield Forward(0), Backward(0)\n", "timetable.no_action"),
        ("    yield Forward('a')\n", "timetable.no_action"),
        ("    yield 'F0'\n", "timetable.no_action"),
        ("    import torch.distributed as dist\n    yield Forward(dist.get_rank())\n", "program.no_ranks"),
        ("    for i in range(microbatches): yield Forward(i)\n", "timetable.no_backward"),
        (BOTH + "    yield Backward(0)\n", "timetable.twice"),
        (BOTH + "    yield BackwardInput(0)\n", "timetable.both"),
        (BOTH.replace("Forward(i)", "Forward(i, 1)"), "timetable.foreign_chunk"),
        (BOTH.replace("(microbatches)", "(microbatches + 1)"), "timetable.foreign"),
        (BOTH.replace("(i)\n    for", "(i)\n    if rank == 1: return\n    for"), "timetable.missing.backwards"),
        (BOTH.replace("range(m", "range(1, m", 1), "timetable.missing.forwards"),
        ("    for i in range(microbatches): yield Backward(i); yield Forward(i)\n", "timetable.before"),
        (SHUFFLED, "timetable.slow_gap"),
        ("    if microbatches == 2: raise ValueError('two')\n" + BOTH, "timetable.raised"),
        ("    if microbatches == 4: raise SystemExit\n" + BOTH, "timetable.raised"),
        ("    if microbatches == 4: 1 / 0\n" + BOTH, "timetable.raised"),
    ],
)
def test_what_is_no_right_timetable_is_told(body: str, id: str) -> None:
    assert named("gpipe", body) == id


def test_another_first_line_is_told() -> None:
    assert getattr(found("gpipe", "def gpipe(rank, size):\n    yield 1\n").sentence, "id", "") == "program.signature"


def test_ranks_that_wait_in_a_circle_are_named() -> None:
    body = (
        "    n = microbatches\n"
        "    if rank % 2: yield from [Forward(i) for i in range(n)] + [Backward(i) for i in range(n)]\n"
        "    else:\n"
        "        for i in range(n): yield Forward(i); yield Backward(i)\n"
    )
    source = IMPORTS + "def gpipe(rank, ranks, microbatches, chunks):\n" + body
    finding = found("gpipe", source)
    assert getattr(finding.sentence, "id", "") == "timetable.circle"
    assert "rank 0 wants to do Backward(0) and waits for the gradient of microbatch 0" in SAY.say(finding.sentence)
    assert any("✗B0" in line for line in finding.picture)


def test_wrong_for_few_microbatches_only() -> None:
    body = (
        "    ahead = ranks - rank - 1\n"
        "    yield from map(Forward, range(ahead))\n"
        "    for i in range(microbatches - ahead): yield Forward(ahead + i); yield Backward(i)\n"
        "    yield from map(Backward, range(microbatches - ahead, microbatches))\n"
    )
    assert named("one_forward_one_backward", body) == "timetable.few"


def test_holding_too_much_is_told_with_the_rank() -> None:
    body = (
        "    ahead = min(microbatches, ranks - rank - 1 + (rank == 0 and microbatches > 4))\n"
        "    yield from map(Forward, range(ahead))\n"
        "    for i in range(microbatches - ahead): yield Forward(ahead + i); yield Backward(i)\n"
        "    yield from map(Backward, range(microbatches - ahead, microbatches))\n"
    )
    source = IMPORTS + "def one_forward_one_backward(rank, ranks, microbatches, chunks):\n" + body
    finding = found("one_forward_one_backward", source)
    assert "rank 0 holds 5 microbatches at once, where 4 are enough" in SAY.say(finding.sentence)


def test_one_forward_one_backward_is_no_better_than_itself() -> None:
    body = "    return find('1f1b').program(rank, ranks, microbatches, chunks)\n"
    assert named("golf", body) == "pipelines.golf.whole"


def test_the_picture_is_the_drawing_of_the_library() -> None:
    schedule = find("1f1b")
    run = play(schedule, 3, 4, times=clock(Size(3, 4)))
    actions = [[action for step in schedule.steps(rank, 3, 4) for action in step] for rank in range(3)]
    drawn = [line.strip() for line in (schedule.program.__doc__ or "").split("\n") if line.strip().startswith("rank")]
    mine = [line.removesuffix(" ..").removesuffix(" ..").rstrip(" .") for line in timeline_lines(run, actions, SAY)]
    assert mine[:3] == [line.rstrip(" .") for line in drawn]


def test_what_stands_still_is_drawn_with_a_cross() -> None:
    def program(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
        yield from (Backward(0), Forward(0)) if rank == 0 else (Forward(0), Backward(0))

    schedule = PipelineSchedule("stuck", program)
    run = play(schedule, 2, 1)
    lines = list(timeline_lines(run, [list(program(rank, 2, 1, 1)) for rank in range(2)], SAY))
    assert [line.split()[2] for line in lines[:2]] == ["✗B0", "✗F0"]


def test_a_score_is_the_simulators() -> None:
    score = Score("golf", ("1f1b", "zb-h1", "zb-h2"), ((Size(4, 8), 1.0),))
    (shown,) = [one for one in score.shown(answered(LIBRARY["golf"]), SAY) if isinstance(one, Shown)]
    assert "p=4 m=8 W=1: 11.1%" in SAY.say(shown.sentence)
    rows = {row["schedule"]: (row["bubble"][0], row["held"][0]) for row in shown.numbers["score"]}
    assert rows["golf"] == rows["zb-h1"] == (pytest.approx(1 / 9), 4)
    assert rows["1f1b"] == (pytest.approx(3 / 11), 4)
    assert rows["zb-h2"] == (pytest.approx(0), 7)
    assert any("→ golf" in line for line in shown.lines)


@pytest.mark.parametrize(
    ("against", "id"),
    [
        (("1f1b", "zb-h1", "zb-h2"), "score.level"),  # zb-h2 waits less, and holds more
        (("1f1b", "zbv"), "score.under"),  # zbv has two pieces of the model a rank
        (("gpipe",), "score.alone"),
    ],
)
def test_par_is_the_best_of_those_that_hold_no_more(against: tuple[str, ...], id: str) -> None:
    (shown,) = Score("golf", against, ((Size(4, 8), 1.0),)).shown(answered(LIBRARY["golf"]), SAY)
    assert isinstance(shown, Shown)
    par, legend = shown.details
    assert isinstance(par, Said)
    assert par.id == id
    assert "microbatches held" in SAY.say(legend)


def test_who_waits_longer_than_another_that_holds_no_more_is_over_par() -> None:
    golf = "from parallel.pipeline.one_chunk import one_forward_one_backward as golf"
    (shown,) = Score("golf", ("zb-h1",), ((Size(4, 8), 1.0),)).shown(answered(golf), SAY)
    assert isinstance(shown, Shown)
    assert "Par is 11.1%, what zb-h1 scores" in SAY.say(shown.details[0])
    assert "over par" in SAY.say(shown.details[0])
