"""What is measured once all functions are right: strategies beside each other, a run foretold, runs that hang."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch

from collectives.launch import RankFailed
from lessons.answer import Answer
from lessons.catalogue import Catalogue
from lessons.checks import hung, rehearsal
from lessons.checks.compared import WAYS, Compared, Row, _words
from lessons.checks.hung import Hung
from lessons.checks.ledger import Passing
from lessons.checks.references import REFERENCES
from lessons.checks.references.capstone import TRAINED
from lessons.checks.rehearsal import Rehearsal, Trained
from lessons.checks.shows import Shows
from lessons.planning import Run
from lessons.said import Finding, Passed, Said, Shown

SAY = Catalogue()


def answer(**functions: object) -> Answer:
    module = ModuleType("answer")
    vars(module).update(functions)
    return Answer(Path("answer.py"), "", module)


def right(*names: str) -> Answer:
    return answer(**{name: REFERENCES[name].answer for name in names})


def ids(events: list[object]) -> list[str]:
    return [event.id if isinstance(event, Said) else event.sentence.id for event in events]  # type: ignore[attr-defined]


def test_whatever_goes_wrong_is_a_sentence_and_no_verdict() -> None:
    class Fails(Shows):
        def measure(self, answer: Answer, say: Catalogue) -> Iterator[Said]:
            yield Said("rehearsal.pieces")
            raise ValueError("no such thing")

    began, shown = Fails().shown(answer(), SAY)
    assert began == Said("rehearsal.pieces")
    assert isinstance(shown, Shown)
    assert "no such thing" in SAY.say(shown.sentence)


def test_what_comes_and_goes_is_counted_and_what_stays_is_not() -> None:
    with Passing() as passing:
        stays = torch.ones(100)
        one, two = torch.ones(1000), torch.ones(500)
        del one
        three = torch.ones(250)
        del two, three
    assert stays.numel() == 100
    assert passing.most() == 4 * 1500


def _pretend(monkeypatch: pytest.MonkeyPatch, states: int = 3_708_928, dp: float = 927_232) -> None:
    """Runs that need no ranks: what eight ranks have shown, and pieces that cost nothing."""

    def run(function: object, ranks: int, *arguments: object) -> list[object]:
        if function is not rehearsal._train:
            return [[size * 1e-9 for size in rehearsal.MESSAGES]] * ranks
        sent = (dp, 327_696.0, 2_365_448.0)
        return [Trained(states, sent if ranks == 8 else (0.0, 0.0, 0.0), 0.2 if ranks == 8 else 0.1)] * ranks

    monkeypatch.setattr(rehearsal, "_run", run)


FORETELLS = ("parameters", "state_bytes", "sent", "step_seconds")


def test_a_right_prediction_of_a_run_passes_and_time_is_only_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch)
    events = list(Rehearsal().shown(right(*FORETELLS), SAY))
    assert ids(events)[:2] == ["rehearsal.pieces", "rehearsal.foretold"]
    assert [type(event) for event in events[2:]] == [Passed] * 4 + [Shown]
    shown = events[-1]
    assert isinstance(shown, Shown)
    assert len(shown.lines) == 7
    said = {detail.id for detail in shown.details if isinstance(detail, Said)}
    assert said & {"rehearsal.reached", "rehearsal.missed"}  # either is fine


@pytest.mark.parametrize(("states", "dp", "function"), [(3_600_000, 927_232, "state_bytes"), (3_708_928, 1e6, "sent")])
def test_bytes_that_are_off_by_more_than_a_hundredth_are_a_finding(
    monkeypatch: pytest.MonkeyPatch, states: int, dp: float, function: str
) -> None:
    _pretend(monkeypatch, states, dp)
    events = list(Rehearsal().shown(right(*FORETELLS), SAY))
    (finding,) = [event for event in events if isinstance(event, Finding)]
    assert finding.function == function
    assert "you foretell" in SAY.say(finding.sentence)
    assert isinstance(events[-1], Shown)  # the whole table all the same


def test_the_run_of_the_capstone_is_the_one_in_its_formulas() -> None:
    assert Rehearsal().run() == TRAINED
    assert isinstance(TRAINED, Run)


def test_the_broken_prediction_agrees_where_ranks_share_cores_and_only_there() -> None:
    broken, solved = (
        import_module(f"lessons.course.32_capstone.{name}").step_seconds for name in ("broken", "solution")
    )
    for run, pieces in REFERENCES["step_seconds"].examples:
        if run.dp * run.pp * run.tp > pieces.cores:
            assert broken(run, pieces) == solved(run, pieces)
        else:
            stretch = 1 + (run.pp - 1) / run.microbatches
            assert solved(run, pieces) == pytest.approx(stretch * broken(run, pieces))


def test_every_strategy_is_named_and_the_best_are_told() -> None:
    rows = [Row(way, 10 + place, 20 - place, 5.0, None, 0.1) for place, way in enumerate(WAYS)]
    said = [SAY.say(one) for one in _words(rows)]
    assert said[0] == f"Fewest bytes of states: {SAY(f'compared.way.{rows[1].way}')}."
    assert said[1] == f"Fewest bytes of what comes and goes: {SAY(f'compared.way.{rows[-1].way}')}."
    for language in ("en", "zh"):
        assert all(Catalogue(language)(f"compared.way.{way}") for way in WAYS)
    assert isinstance(Compared(), Shows)


@pytest.mark.timeout(120)
def test_runs_that_hang_are_read_like_the_library_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hung, "RUNS", {"skips": hung._skips})
    try:
        events = list(Hung().shown(right("blame", "differing"), SAY))
    except RankFailed:
        pytest.skip("the machine is too busy")
    assert [type(event) for event in events] == [Said, Passed, Passed, Shown]
    assert "rank 2 never entered" in SAY.say(events[-1].details[0])  # type: ignore[union-attr]
    wrong = answer(blame=lambda records: [], differing=lambda records: [])
    finding = list(Hung().shown(wrong, SAY))[-1]
    assert isinstance(finding, Finding)
    assert "right is [(2, '0', 1)]" in SAY.say(finding.sentence)
