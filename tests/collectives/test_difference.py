"""Two benchmark runs compared: what is noise and what is a change."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from collectives import __main__ as commands
from collectives.bench.contest import blank_row
from collectives.bench.difference import Change, changes, noise_of, read_run
from collectives.bench.report import Row, write_json

ROW = replace(
    blank_row("all_reduce", 1 << 20, "float32", "sum", 4),
    algorithm="ring",
    time_us=100.0,
    native_time_us=90.0,
    native_busbw=1.0,
    ratio=1.1,
    null=1.0,
    iqr_us=2.0,
)


def file(folder: Path, name: str, *rows: Row, baselines: tuple[Row, ...] = (), **environment: object) -> str:
    write_json(folder / name, {"backend": "gloo", "torch": "2.13", **environment}, rows, baselines)
    return str(folder / name)


def test_noise_is_the_larger_of_its_two_signs() -> None:
    assert noise_of(asdict(ROW)) == pytest.approx(0.02)
    assert noise_of(asdict(replace(ROW, null=0.9))) == pytest.approx(0.1)
    assert noise_of({"time_us": 100.0, "null": 1.03}) == pytest.approx(0.03)  # a file of before
    assert noise_of({"time_us": 100.0}) == 0


@pytest.mark.parametrize(
    ("after", "verdict"), [(104.0, "same"), (106.0, "slower"), (96.0, "same"), (94.0, "faster"), (200.0, "slower")]
)
def test_a_change_counts_beyond_the_noise_of_both(tmp_path: Path, after: float, verdict: str) -> None:
    """Each row has 2 % of noise, and 5 % count as none."""
    runs = [read_run(file(tmp_path, f"{t}.json", replace(ROW, time_us=t, iqr_us=0.02 * t))) for t in (100.0, after)]
    (change,) = changes(*runs)
    assert (change.noise, change.verdict) == (pytest.approx(0.05), verdict)
    assert change.change == pytest.approx(after / 100 - 1)
    (back,) = changes(*reversed(runs))
    assert back.verdict == {"same": "same", "slower": "faster", "faster": "slower"}[verdict]


def test_a_noisy_row_hides_what_a_quiet_one_shows(tmp_path: Path) -> None:
    noisy = read_run(file(tmp_path, "a.json", replace(ROW, iqr_us=30.0)))
    after = read_run(file(tmp_path, "b.json", replace(ROW, time_us=125.0)))
    assert [change.verdict for change in changes(noisy, after)] == ["same"]
    quiet = read_run(file(tmp_path, "c.json", ROW))
    assert [change.verdict for change in changes(quiet, after)] == ["slower"]


def test_exchanging_the_runs_exchanges_the_verdicts() -> None:
    for factor in (1.04, 1.0499, 1.0501, 1.06, 1.2):
        up, down = Change((), 100.0, 100.0 * factor, 0.05), Change((), 100.0 * factor, 100.0, 0.05)
        assert (up.verdict == "slower") == (down.verdict == "faster") == (factor > 1.05)


def test_rows_are_matched_by_what_they_are_of(tmp_path: Path) -> None:
    before = read_run(file(tmp_path, "a.json", ROW, replace(ROW, bytes=4), replace(ROW, dtype="float64")))
    wire = replace(ROW, algorithm="wire")
    after = read_run(file(tmp_path, "b.json", replace(ROW, bytes=8), replace(ROW, bytes=4), ROW, baselines=(wire,)))
    assert [change.key[2:4] for change in changes(before, after)] == [(4, "float32"), (1 << 20, "float32")]


def test_a_slower_machine_is_no_regression_by_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = file(tmp_path, "a.json", ROW)
    b = file(tmp_path, "b.json", replace(ROW, time_us=200.0, native_time_us=180.0), torch="2.12")
    assert commands.DOOR.main(["diff", a, b]) == 1
    out = capsys.readouterr().out
    assert "# not alike: torch: 2.13 before, 2.12 after" in out
    assert "# 1 slower, 0 faster, 0 same" in out
    assert "+100.0 %" in out
    assert commands.DOOR.main(["diff", a, b, "--by", "ratio"]) == 0


def test_the_file_of_a_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "diff.json"
    a, b = file(tmp_path, "a.json", ROW), file(tmp_path, "b.json", replace(ROW, time_us=50.0))
    assert commands.DOOR.main(["diff", a, b, "--json", str(out)]) == 0
    content = json.loads(out.read_text())
    assert (content["slower"], content["faster"], content["same"], content["unlike"]) == (0, 1, 0, [])
    assert list(content["rows"][0]) == [
        "collective", "algorithm", "bytes", "dtype", "redop", "ranks", "before", "after", "change", "noise", "verdict",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("missing.json", "missing.json"),
        ("text.json", "no JSON"),
        ("other.json", '"environment"'),
        ("alien.json", "no row in common"),
    ],
)
def test_what_cannot_be_compared(
    first: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.json").write_text("once upon a time")
    (tmp_path / "other.json").write_text('{"rings": []}')
    file(tmp_path, "alien.json", replace(ROW, collective="broadcast"))
    file(tmp_path, "b.json", ROW)
    assert commands.DOOR.main(["diff", first, "b.json"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
