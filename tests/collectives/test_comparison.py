"""What stands beside a benchmark row: baselines, cycles, other logs, computations; and whole runs with all of it.

Nothing here depends on how long things take.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from collectives import __main__ as commands
from collectives.bench import report
from collectives.bench.against import check_sizes, read_against
from collectives.bench.baseline import Baseline, baselines_of, make_group
from collectives.bench.compute import Compute
from collectives.bench.contest import blank_row, compared
from collectives.bench.cycles import iqr, merged
from collectives.bench.entrants import parse_baselines
from collectives.bench.measure import Stopwatch, Timing
from collectives.bench.nccl_settings import Evidence, nccl_log
from collectives.bench.settings import least_busbw
from collectives.surroundings import surroundings

CPU = torch.device("cpu")
forks = pytest.mark.skipif(sys.platform != "linux", reason="these tests fork")
LOG = """# nThread 1 nGpus 4 minBytes 1024 maxBytes 4096
# Collective test starting: {test}
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1    10.00    0.10    {low}      0     20.00    0.05    {high}      0
        4096          1024     float     sum      -1    40.00    0.10    {low}      0     80.00    0.05    {high}      0
# Avg bus bandwidth    : 0.1
"""


def bench(words: str) -> int:
    return commands.DOOR.main(["bench", "--backend", "gloo", *words.split()])


# Baselines.


def test_the_share_of_the_wire_is_its_time_by_ours() -> None:
    from collectives.bench.contest import Times

    ours, wired_, second = (
        Timing([4.0] * 3, [1.0] * 3, []),
        Timing([3.0] * 3, [1.0] * 3, []),
        Timing([2.0] * 3, [1.0] * 3, []),
    )
    times = Times({"ring": ours}, {"wire": wired_, "nccl-ring": second}, Timing([8.0] * 3, [1.0] * 3, []), None)
    row = compared(times, ours, blank_row("all_reduce", 1000, "float32", "sum", 2), 1.0)
    assert (row.of_wire, row.ratios, row.ratio, row.null, row.iqr_us) == (0.75, {"nccl-ring": 2.0}, 0.5, None, 0.0)
    assert row.busbw == pytest.approx(1000 / 4.0 / 1e9)


def test_nccl_has_three_of_itself_and_only_forced_ones_are_to_be_confirmed() -> None:
    ring, simple = baselines_of("nccl")
    assert (ring.name, ring.forced) == ("nccl-ring", {"NCCL_ALGO": "Ring"})
    assert (simple.name, simple.forced) == ("nccl-ring-simple", {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"})
    assert {dict(one.environment)["NCCL_NVLS_ENABLE"] for one in (ring, simple)} == {"0"}
    assert [one.name for one in baselines_of("gloo")] == ["gloo-2"]


def made_under_an_environment() -> tuple[Any, ...]:
    os.environ.pop("NEW", None)
    os.environ["OLD"] = "before"
    seen: list[tuple[str | None, str | None]] = []
    real = dist.new_group

    def spy(*args: Any, **kwargs: Any) -> Any:
        seen.append((os.environ.get("NEW"), os.environ.get("OLD")))
        return real(*args, **kwargs)

    dist.new_group = spy  # type: ignore[assignment]
    try:
        group = make_group(Baseline("b", {"NEW": "1", "OLD": "2"}), ((0, 2), (1, 3)), "gloo", CPU)
    finally:
        dist.new_group = real
    return dist.get_process_group_ranks(group), seen, os.environ.get("NEW"), os.environ.pop("OLD")


def test_a_group_is_made_under_its_environment_and_the_old_one_comes_back(ranks) -> None:
    for rank, found in enumerate(ranks(4, made_under_an_environment)):
        assert found == ([rank % 2, rank % 2 + 2], [("1", "2"), ("1", "2")], None, "before")


def test_ncclss_log_confirms_what_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCCL_DEBUG", raising=False)
    simple = baselines_of("nccl")[1].forced
    line = "node:1:2 [0] NCCL INFO {} set by environment to {}\n"
    with nccl_log():
        assert (os.environ["NCCL_DEBUG"], os.environ["NCCL_DEBUG_SUBSYS"]) == ("INFO", "ENV")
        file = Path(os.environ["NCCL_DEBUG_FILE"].replace("%p", str(os.getpid())))
        evidence = Evidence()
        assert not evidence.confirms(simple)
        file.write_text(line.format("NCCL_ALGO", "Ring"))
        assert not evidence.confirms(simple)
        with file.open("a") as log:
            log.write(line.format("NCCL_PROTO", "Simple"))
        assert evidence.confirms(simple)
        evidence.forget()
        assert not evidence.confirms(simple), "what an earlier group was told counts no more"
        with file.open("a") as log:
            log.write(line.format("NCCL_ALGO", "Tree") + line.format("NCCL_PROTO", "Simple"))
        assert not evidence.confirms(simple)
        assert evidence.confirms({})
    assert "NCCL_DEBUG_FILE" not in os.environ
    assert not file.parent.exists()


def test_a_users_own_log_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    with nccl_log():
        assert os.environ["NCCL_DEBUG"] == "WARN"
        assert "NCCL_DEBUG_FILE" not in os.environ
        assert not Evidence().confirms({"NCCL_ALGO": "Ring"})


def test_surroundings_come_back_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="stop"), surroundings({"A_B_C": "1"}):
        raise RuntimeError("stop")
    assert "A_B_C" not in os.environ


def test_names_of_baselines() -> None:
    assert parse_baselines("auto") is None
    assert parse_baselines("none") == ()
    assert parse_baselines("wire,nccl-ring") == ("wire", "nccl-ring")
    with pytest.raises(ValueError, match="'rings' is none; use auto, none, or some of wire, gloo-2"):
        parse_baselines("wire,rings")


# Cycles.


def test_interquartile_ranges() -> None:
    assert iqr([5.0]) == 0
    assert iqr([1.0, 2.0, 3.0, 4.0, 5.0]) == 2
    assert iqr([1.0, 1.0, 1.0, 1.0, 100.0]) == 0


def test_cycles_become_medians() -> None:
    base = blank_row("all_reduce", 8, "float32", "sum", 2)
    cycles = [
        [replace(base, time_us=t, wrong=w, ratio=t / 10, ratios={"b": t}, picked="ring")]
        for t, w in ((10.0, 0), (30.0, 1), (20.0, 0), (50.0, 0), (40.0, 2))
    ]
    (row,) = merged(cycles)
    assert (row.time_us, row.iqr_us, row.wrong, row.ratio, row.ratios, row.picked) == (
        30.0,
        20.0,
        3,
        3.0,
        {"b": 30.0},
        "ring",
    )
    assert (row.bytes, row.native_time_us) == (8, None)
    assert merged(cycles[:1]) == cycles[0]


# Other logs, and least bandwidths.


def test_another_benchmarks_times(tmp_path: Path) -> None:
    log = tmp_path / "theirs.log"
    log.write_text(LOG.format(test="all_reduce_perf", low="0.15", high="0.08"))
    assert read_against(log, "all_reduce", 4) == {1024: 20e-6, 4096: 80e-6}  # in place, as ours


@pytest.mark.parametrize(
    ("test", "factors", "collective", "ranks", "words"),
    [
        ("all_reduce_perf", ("0.15", "0.08"), "broadcast", 4, "a log of all_reduce, not of broadcast"),
        ("all_reduce_perf", ("0.15", "0.08"), "all_reduce", 64, "ranks, this one 64; use --ranks"),
    ],
)
def test_a_log_of_something_else(
    test: str, factors: tuple[str, str], collective: str, ranks: int, words: str, tmp_path: Path
) -> None:
    log = tmp_path / "theirs.log"
    header = "".join(f"# Rank  {r} Group  0 Pid  {r} on node-a device  {r} [0x01] NVIDIA H100\n" for r in range(4))
    log.write_text(header + LOG.format(test=test, low=factors[0], high=factors[1]))
    with pytest.raises(ValueError, match=words):
        read_against(log, collective, ranks)


def test_a_log_without_any_of_the_sizes() -> None:
    check_sizes("their.log", {1024: 1e-5, 4096: 1e-5}, [4096, 16384])
    with pytest.raises(ValueError, match=r"none of this run's sizes, but 1024, 4096 bytes; choose -b, -e and -f so"):
        check_sizes("their.log", {4096: 1e-5, 1024: 1e-5}, [2048, 16384])


def test_the_least_bandwidth() -> None:
    assert least_busbw(None, None) is None
    assert least_busbw(None, "") is None
    assert least_busbw(5.0, "100") == 5.0
    assert least_busbw(None, "100") == pytest.approx(90.0)
    assert least_busbw(None, "-1") is None
    with pytest.raises(ValueError, match="--min-busbw 0: use"):
        least_busbw(0.0, None)
    with pytest.raises(ValueError, match="--min-busbw inf: use"):
        least_busbw(float("inf"), None)
    with pytest.raises(ValueError, match="NCCL_TESTS_MIN_BW='lots' is no number"):
        least_busbw(None, "lots")


def test_the_last_line_says_whether_it_was_reached() -> None:
    rows = [replace(blank_row("all_reduce", 8, "float32", "sum", 2), busbw=busbw) for busbw in (1.0, 3.0)]
    assert report.closing(0, rows, 2.0)[1] == "# Avg bus bandwidth    : 2 OK"
    assert report.closing(0, rows, 2.5)[1] == "# Avg bus bandwidth    : 2 FAILED (at least 2.5 was asked for)"


# Computations.


def beside(kind: str) -> dict[str, tuple[float, float | None]]:
    watch = Stopwatch(CPU, blocking=False)
    compute = Compute(kind, watch)
    tensor = torch.ones(100)
    found = compute.beside({"sum": lambda: dist.all_reduce(tensor), "nothing": lambda: None}, 2, 3)
    assert compute.rate > 0
    return found


@pytest.mark.parametrize("kind", ["gemm", "copy"])
def test_a_computation_runs_beside_the_calls_and_ends(ranks, kind: str) -> None:
    import threading

    for found in ranks(2, beside, kind):
        assert list(found) == ["sum", "nothing"]
        assert all(seconds > 0 and (slower is None or slower > 0) for seconds, slower in found.values())
    assert ranks(2, computing_threads) == [[], []]
    assert "compute" not in [thread.name for thread in threading.enumerate()]


def computing_threads() -> list[str]:
    import threading

    return [thread.name for thread in threading.enumerate() if thread.name == "compute"]


# Whole runs.


@forks
@pytest.mark.timeout(200)
def test_a_run_with_everything_beside_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    log, file, plot = tmp_path / "theirs.log", tmp_path / "out.json", tmp_path / "out.svg"
    log.write_text(LOG.format(test="all_reduce_perf", low="0.10", high="0.05"))
    words = "--ranks 2 -b 1K -e 4K -f 4 -n 2 -w 0 --algorithm ring,direct --order 1,0 --cycles 2 --predict"
    assert bench(f"{words} --with-compute gemm --against {log} --json {file} --plot {plot} --min-busbw 1e-9") == 0
    out = capfd.readouterr().out
    data = [line.split() for line in out.splitlines() if not line.startswith("#")]
    assert [(cells[0], cells[15]) for cells in data] == [
        (size, name) for size in ("1024", "4096") for name in ("ring", "direct", "wire", "gloo-2")
    ]
    assert out.splitlines()[-1].endswith(" OK")
    for words in ("# expected ratio of ring, by bytes: 1024: ", "# ring: median residual of the ratio", "order 1,0"):
        assert words in out
    result = json.loads(file.read_text())
    assert [row["algorithm"] for row in result["rows"]] == ["ring", "direct"] * 2
    assert [row["algorithm"] for row in result["baselines"]] == ["wire", "gloo-2"] * 2
    assert (result["environment"]["cycles"], result["environment"]["orders"]) == (2, [[1, 0]])
    for row in result["rows"]:
        assert list(row["ratios"]) == ["gloo-2"]
        theirs = {1024: 20.0, 4096: 80.0}[row["bytes"]]
        assert (row["wrong"], row["against_us"]) == (0, pytest.approx(theirs))
        assert row["residual"] is not None
        for key in ("of_wire", "expected_us", "expected_ratio", "loaded_us", "slowdown", "cpu_us", "iqr_us"):
            assert row[key] > 0, key
    for row in result["baselines"]:
        assert row["wrong"] == (None if row["algorithm"] == "wire" else 0)
    assert "wire" in plot.read_text() or "<path" in plot.read_text()


@forks
@pytest.mark.parametrize("collective", ["all_reduce", "reduce", "all_gather", "scatter", "barrier"])
@pytest.mark.parametrize("split", ["MOD:2", "DIV:2"])
def test_groups_that_work_at_once_are_right(
    collective: str, split: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    words = f"--ranks 4 --split {split} --op {collective} -b 4K -e 4K -n 2 -w 0 -r 1 --algorithm auto --json {file}"
    assert bench(words) == 0, capfd.readouterr()
    result = json.loads(file.read_text())
    groups = {"MOD:2": [[0, 2], [1, 3]], "DIV:2": [[0, 1], [2, 3]]}[split]
    assert (result["environment"]["groups"], result["environment"]["ranks"]) == (groups, 4)
    assert [(row["ranks"], row["wrong"]) for row in result["rows"]] == [(2, 0)]


@forks
@pytest.mark.parametrize("asked", ["--graph", "--no-graph", ""])
def test_graph_on_gloo_is_one_line_and_goes_on(asked: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    words = f"--ranks 2 -b 4K -e 4K -n 2 -w 0 --channels 2 --algorithm ring,auto --baselines none --json {file} {asked}"
    assert bench(words) == 0
    said = [line for line in capfd.readouterr().out.splitlines() if line.startswith("# --graph")]
    assert len(said) == (asked == "--graph")
    result = json.loads(file.read_text())
    assert (result["environment"]["graph"], result["environment"]["channels"]) == (False, 2)
    assert [(row["algorithm"], row["wrong"]) for row in result["rows"]] == [("ring:channels=2", 0), ("auto", 0)]


@pytest.mark.parametrize(("version", "refused"), [((2, 9, 5), True), ((2, 9, 6), False), ((2, 29, 7), False)])
def test_what_nccl_is_too_old_for_is_refused(
    version: tuple[int, ...], refused: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from collectives.commands import bench as command

    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: version)
    monkeypatch.setattr(command, "backend_for", lambda *_: "nccl")
    monkeypatch.setattr(command, "on_ranks", lambda *_, **__: command.sys.exit(3))  # ranks would have been started
    with pytest.raises(SystemExit) if not refused else contextlib.nullcontext():
        assert bench("--ranks 2 --graph") == 2
    error = capsys.readouterr().err
    said = "error: --graph: it needs NCCL 2.9.6, torch has 2.9.5; install a newer torch, or use --no-graph\n"
    assert error.endswith(said) == refused


@forks
@pytest.mark.parametrize(("asked", "status"), [("--min-busbw 1e9", 1), ("--min-busbw 1e-9", 0)])
def test_too_little_bandwidth_fails(asked: str, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert bench(f"--ranks 2 -b 4K -e 4K -n 2 -w 0 --algorithm ring --baselines none {asked}") == status
    assert ("FAILED" in capfd.readouterr().out) == bool(status)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("--order 0,1,2 --ranks 4", "it lacks 3"),
        ("--op broadcast --order 1,0,2,3", "has a root"),
        ("--split MOD:3", "--split MOD:3: 4 ranks make unequal groups"),
        ("--split MOD:2 --trace x.json", "--trace x.json with --split MOD:2"),
        ("--baselines nccl", "--baselines nccl"),
        ("--cycles 0", "-N/--cycles 0"),
        ("--channels 0", "--channels 0: use at least 1"),
        ("--min-busbw -1", "--min-busbw -1"),
        ("--against nowhere.log", "nowhere.log"),
        ("--print-launch slurm --nodes 3 --ranks 4", "--nodes 3 with --ranks 4"),
    ],
)
def test_wrong_arguments(argv: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(argv) == 2
    out, error = capsys.readouterr()
    assert words in error
    assert (out, error.count("\n")) == ("", 1)


@forks
@pytest.mark.skipif(sys.platform == "win32", reason="nvidia-smi is played by a shell script")
def test_the_file_holds_the_topology_and_no_host_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    script, file = tmp_path / "nvidia-smi", tmp_path / "out.json"
    script.write_text('#!/bin/sh\n[ "$*" = "topo -m" ] && echo "the matrix"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(socket, "gethostname", lambda: "very-secret-name")
    words = (
        f"--ranks 2 -b 4K -e 4K -n 2 -w 0 --algorithm ring --baselines none --json {file} --trace {tmp_path / 't.json'}"
    )
    assert bench(words) == 0
    environment = json.loads(file.read_text())["environment"]
    assert environment["topology"] == {"host0": "the matrix\n"}
    assert environment["hosts"] == {"host0": 2}
    assert "very-secret-name" not in file.read_text() + (tmp_path / "t.json").read_text()
