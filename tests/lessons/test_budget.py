"""The formulas of memory, operations and scaling against published numbers, and the library's ring."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectives.cost import Machine, predict
from collectives.registry import find
from lessons.answer import Answer, load_answer
from lessons.catalogue import Catalogue
from lessons.checks.measurement import Measurement
from lessons.checks.planned import Planned
from lessons.checks.references import REFERENCES
from lessons.checks.references.scaling import _ring
from lessons.checks.weighed import Weighed
from lessons.manifest import lesson_numbered
from lessons.said import Said, Shown
from lessons.source import source_of

SAY = Catalogue()


def right(name: str, *arguments: object) -> float:
    return float(REFERENCES[name].answer(*arguments))


def shown(measurement: Measurement, lesson: int, folder: Path, change: tuple[str, str] = ("", "")) -> Shown:
    """What it shows of the solution of a lesson."""
    path = folder / "answer.py"
    path.write_text(source_of(lesson_numbered(lesson), "solution", SAY).replace(*change), encoding="utf-8")
    answer = load_answer(path, path.read_text(encoding="utf-8"))
    assert isinstance(answer, Answer)
    (found,) = [one for one in measurement.shown(answer, SAY) if isinstance(one, Shown)]
    return found


def test_parameters_are_those_of_published_models() -> None:
    assert right("gpt_parameters", 12, 768, 50257, 1024) == 124_439_808
    assert right("gpt_parameters", 48, 1600, 50257, 1024) == 1_557_611_200
    assert right("gpt_parameters", 96, 12288, 50257, 2048) == 174_604_259_328


def test_the_example_of_three_dimensions() -> None:
    """GPT-3 on DP 8, TP 8, PP 16."""
    own = right("rank_parameters", 96, 12288, 50257, 2048, 8, 16)
    assert own == pytest.approx(1.4393e9, rel=1e-4)
    stages = [16 * own, 4 * own + 12 * own / 8, 2 * own + 14 * own / 8, 2 * own]
    assert [round(nbytes / 1e9, 2) for nbytes in stages] == [23.03, 7.92, 5.40, 2.88]


def test_activations_are_those_of_the_paper() -> None:
    """GPT-3: 5as/h = 80 (Korthikanti et al. 2022)."""
    tokens = 2048 * 12288
    kept = [right("activation_bytes", 1, 2048, 12288, 96, how) / tokens for how in ("none", "selective", "full")]
    assert kept == [114, 34, 2]


def test_operations_are_the_published_ones() -> None:
    """nanoGPT's count of GPT-2, forward and backward; the days of Narayanan et al. 2021."""
    assert right("step_flops", 1, 1024, 12, 768, 50257) == 874_944_921_600
    assert right("layer_flops", 1, 1024, 768) == 17_716_740_096
    days = right("training_days", 174_604_259_328, 300_000_000_000, 1024, 312e12, 105 / 312)
    assert days == pytest.approx(34, rel=0.02)


@pytest.mark.parametrize("gpus", [1, 2, 3, 5, 8])
def test_the_exchange_of_scaling_curves_is_the_ring(gpus: int) -> None:
    ring = predict(find("all_reduce", "ring"), gpus, 1000, Machine(1e-5, 1e-9))
    assert _ring(gpus, 1000, 1e-5, 1e-9) == pytest.approx(ring, rel=1e-9)


def test_caches_are_those_of_the_models() -> None:
    """Llama 2 7B: half a MiB a token; Llama 3 8B with a quarter of the heads: a quarter."""
    assert right("cache_bytes", 32, 32, 32, 128, 1, 2) == 512 << 10
    assert right("cache_bytes", 32, 32, 8, 128, 1, 2) == 128 << 10


def test_at_the_critical_batch_both_times_are_the_same() -> None:
    parameters, cache, peak, bandwidth = 8e9, 2e7, 989.4e12, 3352e9
    batch = right("critical_batch", parameters, cache, peak, bandwidth)
    assert 2 * parameters * batch / peak == pytest.approx((2 * parameters + batch * cache) / bandwidth)


def test_states_are_counted_to_the_byte(tmp_path: Path) -> None:
    *states, layer = shown(Weighed(), 11, tmp_path).numbers["rows"]
    assert [row["name"] for row in states] == ["fp32_adam", "mixed_adam", "fp32_momentum", "mixed_sgd"]
    assert all(row["predicted"] == row["counted"] for row in states)
    assert 0.9 < layer["counted"] / layer["predicted"] < 1


def test_what_raises_while_it_is_counted_is_told(tmp_path: Path) -> None:
    found = shown(Weighed(), 11, tmp_path, ("tokens = sequence * batch", "tokens = sequence / 0"))
    assert isinstance(found.sentence, Said)
    assert found.sentence.id == "weighed.failed"
    assert "ZeroDivisionError" in SAY.say(found.sentence)


def test_the_planner_is_slower_than_the_model_and_bends_with_it(tmp_path: Path) -> None:
    rows = shown(Planned(), 27, tmp_path).numbers["rows"]
    assert all(row["predicted"] < row["planned"] < 2 * row["predicted"] for row in rows)


def test_a_planner_that_cannot_be_asked_is_told(tmp_path: Path) -> None:
    found = shown(Planned(), 27, tmp_path, ("compute / gpus, nbytes", "compute / 0, nbytes"))
    assert isinstance(found.sentence, Said)
    assert found.sentence.id == "planned.failed"
