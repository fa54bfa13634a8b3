"""The notebook of a day with two GPUs: all its cells, in order, in one process; here mostly on gloo."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(400)  # whichever test is first runs all cells
ROOT = Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / "lessons" / "gpu_day.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_it_is_a_plain_notebook_without_outputs() -> None:
    assert NOTEBOOK["nbformat"] == 4
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            assert len(cell["source"]) <= 12


def test_cells_are_python_without_magic() -> None:
    for code in CODE:
        ast.parse(code)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the cells leave behind: their names, and ``folder``."""
    folder = tmp_path_factory.mktemp("gpu_day")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("GPU_DAY_QUICK", "1")
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        names: dict[str, Any] = {"__name__": "__main__", "folder": folder}
        for number, code in enumerate(CODE):
            exec(compile(code, f"cell {number}", "exec"), names)
    return names


def test_every_result_is_right(day: dict[str, Any]) -> None:
    assert day["wrong"] == 0
    assert [row["bytes"] for row in day["bench"]["rows"]] == [65536, 1048576]
    for row in day["bench"]["rows"] + day["off"] + day["on"]:
        assert row["wrong"] == 0
        assert row["algorithm"] == "ring"
        assert row["ranks"] == day["ranks"]


def test_the_baselines_took_part(day: dict[str, Any]) -> None:
    wanted = {"nccl-ring", "nccl-ring-simple"} if day["on_gpus"] else {"gloo-2"}
    for row in day["bench"]["rows"]:
        assert set(row["ratios"]) == wanted
        assert row["expected_ratio"] > 0
    assert {row["algorithm"] for row in day["bench"]["baselines"]} == {"wire", *wanted}


def test_the_rings_are_those_of_the_machine(day: dict[str, Any]) -> None:
    if not day["on_gpus"]:  # the first two GPUs of a DGX-1V have one NVLink, which a ring uses in both directions
        assert day["rings"]["rings"] == [[0, 1]]
    assert day["crossover"] == pytest.approx(day["ranks"] * day["alpha"] * day["rings"]["busbw"] * 1e9)


def test_the_picture_is_a_ring(day: dict[str, Any]) -> None:
    for rank in range(day["ranks"]):
        assert f"rank {rank}" in day["picture"]


def test_graph_on_and_off_are_compared(day: dict[str, Any]) -> None:
    rows = day["verdicts"]["rows"]
    assert [row["bytes"] for row in rows] == [65536]
    assert day["verdicts"]["slower"] + day["verdicts"]["faster"] + day["verdicts"]["same"] == 1
    assert rows[0]["before"] == pytest.approx(day["off"][0]["time_us"])
    assert rows[0]["after"] == pytest.approx(day["on"][0]["time_us"])


def test_the_trace_shows_what_a_ring_does(day: dict[str, Any]) -> None:
    """2(n - 1) sends and receives a rank, and n - 1 additions."""
    ranks = day["ranks"]
    for rank in range(ranks):
        kinds = [event["cat"] for event in day["events"] if event["pid"] == rank]
        assert kinds.count("send") == kinds.count("recv") == 2 * (ranks - 1)
        assert kinds.count("reduce") == ranks - 1
