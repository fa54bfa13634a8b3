"""The benchmark: its data and checks, its arguments, tables and files. Nothing here depends on how long things take.

What replaces a part of the benchmark (a wrong algorithm, say) reaches the ranks because they are forked.
"""

import argparse
import csv
import dataclasses
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from collectives import __main__ as commands
from collectives import launch, pattern, span
from collectives.bench import plot, report
from collectives.bench.contender import Operands, Problem, check
from collectives.bench.entrants import split_algorithms
from collectives.bench.measure import Timing
from collectives.bench.report import Line, Row
from collectives.bench.settings import DTYPES, REDOPS, parse_size, settings_of
from collectives.contract import CONTRACTS
from collectives.pattern import PERIOD, Pattern, count_wrong, fill
from collectives.reduction import combiner

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]
KEYS = [field.name for field in dataclasses.fields(Row)]
forks = pytest.mark.skipif(sys.platform != "linux", reason="these tests fork")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is a rank of somebody's torchrun."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


# The data.


def allowed(dtype: str, redop: str) -> bool:
    whole = dtype.startswith(("int", "uint"))
    return redop != "avg" if whole else not redop.startswith("b")


CASES = [(dtype, redop) for dtype in DTYPES for redop in REDOPS if allowed(dtype, redop)]


@pytest.mark.parametrize(("dtype", "redop"), CASES)
@pytest.mark.parametrize("ranks", [1, 2, 7, 200])
def test_every_order_of_combining_gives_exactly_what_is_expected(dtype: str, redop: str, ranks: int) -> None:
    kind = getattr(torch, DTYPES[dtype][0])
    data = Pattern(redop, ranks, kind, CPU)
    parts = [data.contribution(rank) for rank in range(ranks)]
    combine = combiner(redop.upper(), kind)
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = combine(one_by_one, part)
    halves = parts[::-1]
    while len(halves) > 1:
        pairs = [combine(a, b) for a, b in zip(halves[::2], halves[1::2], strict=False)]
        halves = pairs + halves[2 * len(pairs) :]
    expected = data.combined()
    for result in (one_by_one, halves[0]):
        assert torch.equal(result / ranks if redop == "avg" else result, expected)
    assert expected.dtype == kind
    assert len(expected.unique()) > 1, "data that are all the same hide permutations"


@pytest.mark.parametrize("redop", ["none", *REDOPS])
def test_data_differ_by_rank_and_position(redop: str) -> None:
    kind = torch.uint8 if redop in ("band", "bor", "bxor") else torch.float32
    mine, its = (Pattern(redop, 8, kind, CPU).contribution(rank) for rank in (2, 3))
    assert mine.ne(its).sum() > PERIOD // 8
    assert all(mine.ne(mine.roll(shift)).sum() > PERIOD // 8 for shift in (1, 2, 64, 1000, 4096))


def test_without_a_rank_the_result_is_another() -> None:
    for redop in REDOPS:
        kind = torch.int32 if redop.startswith("b") else torch.float64
        everybody = Pattern(redop, 8, kind, CPU)
        combine = combiner(redop.upper(), kind)
        for missing in range(8):
            left = [everybody.contribution(rank) for rank in range(8) if rank != missing]
            total = left[0]
            for part in left[1:]:
                total = combine(total, part)
            total = total / 8 if redop == "avg" else total
            assert total.ne(everybody.combined()).any(), (redop, missing)


@pytest.mark.parametrize("offset", [0, 5, PERIOD - 1, 3 * PERIOD + 17])
@pytest.mark.parametrize("numel", [0, 1, 999, 1000, 2 * PERIOD + 3])
def test_what_is_filled_block_by_block_is_right(monkeypatch: pytest.MonkeyPatch, numel: int, offset: int) -> None:
    monkeypatch.setattr(pattern, "BLOCK", 1000)
    period = Pattern("none", 3, torch.int32, CPU).contribution(1)
    tensor = torch.full((numel,), -1, dtype=torch.int32)
    fill(tensor, period, offset)
    assert tensor.tolist() == [period[(offset + i) % PERIOD].item() for i in range(numel)]
    assert count_wrong(tensor, period, offset) == 0
    if numel > 1:
        assert count_wrong(tensor, period, offset + 1) > 0


@pytest.mark.parametrize("where", [0, 999, 1000, 5321, PERIOD, 2 * PERIOD + 2])
def test_one_wrong_element_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch, where: int) -> None:
    monkeypatch.setattr(pattern, "BLOCK", 1000)
    period = Pattern("sum", 4, torch.bfloat16, CPU).combined()
    tensor = torch.empty(2 * PERIOD + 3, dtype=torch.bfloat16)
    fill(tensor, period)
    for wrong in (tensor[where].item() + 16, float("nan"), float("inf")):
        tensor[where] = wrong
        assert count_wrong(tensor, period) == 1
        assert count_wrong(tensor, period, ulps=4) == 1


def test_an_average_may_be_off_by_some_units_in_the_last_place_if_that_is_allowed() -> None:
    period = Pattern("avg", 3, torch.float32, CPU).combined()
    tensor = torch.nextafter(period, torch.tensor(torch.inf))
    assert count_wrong(tensor, period) == PERIOD
    assert count_wrong(tensor, period, ulps=3) == period.eq(0).sum()


def _checks(ranks: int) -> dict[str, tuple[int, int, int, int]]:
    """Per collective, wrong elements on this rank: of the backend, of ours, of doing nothing, of a spoilt input."""
    import torch.distributed as dist

    found = {}
    for number, collective in enumerate(CONTRACTS):
        redop = "sum" if CONTRACTS[collective].reduces else "none"
        root = 1 if CONTRACTS[collective].rooted else -1
        operands = Operands(Problem(collective, torch.int32, redop, root, dist.get_rank(), ranks, 3000, CPU))
        ours = operands.ours("auto")

        def spoilt(operands: Operands = operands, call: Callable = ours) -> None:
            call()
            if operands.given is not None and operands.given is not operands.result:
                operands.given[-1] += 1

        found[collective] = (
            check(operands, operands.native(), False, f"{number}/native"),
            check(operands, ours, True, f"{number}/ours"),
            check(operands, lambda: None, True, f"{number}/nothing"),
            check(operands, spoilt, True, f"{number}/spoilt"),
        )
    return found


@forks
def test_the_check_passes_what_is_right_and_finds_what_is_not() -> None:
    results = launch.run(_checks, 3, 3, batch=True, timeout=60)
    for collective in CONTRACTS:
        native, ours, nothing, spoilt = (sum(result[collective][i] for result in results) for i in range(4))
        assert (native, ours) == (0, 0), collective
        assert nothing > 0, collective
        in_place = collective in ("all_reduce", "reduce", "broadcast", "barrier")
        assert spoilt == (0 if in_place else 1 if collective == "scatter" else 3), collective


# Arguments.


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("8", 8),
        ("8B", 8),
        ("1K", 1 << 10),
        ("64k", 1 << 16),
        ("1KiB", 1 << 10),
        ("16 MiB", 1 << 24),
        ("2MB", 1 << 21),
        ("1.5M", 3 << 19),
        ("2G", 1 << 31),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1Q", "0.3K", "1e6", "1KM"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "algorithms"),
    [
        ("ring,auto", ["ring", "auto"]),
        ("ring:channels=2,chunks=8,auto", ["ring:channels=2,chunks=8", "auto"]),
        ("a.py:mine:x=1,y=2,ring,b.py:other", ["a.py:mine:x=1,y=2", "ring", "b.py:other"]),
        ("ring, auto ,ring,", ["ring", "auto"]),
    ],
)
def test_commas_between_options_and_between_algorithms(text: str, algorithms: list[str]) -> None:
    assert split_algorithms(text) == algorithms


def settings(*argv: str) -> Any:
    return settings_of(commands.DOOR.build(["bench"]).parse_args(["bench", *argv]), None, None, first=True)


def test_sizes_of_a_run() -> None:
    assert list(settings().sizes()) == [1024 * 4**i for i in range(8)]
    assert list(settings("-b", "8", "-e", "100", "-f", "2").sizes()) == [8, 16, 32, 64]
    assert list(settings("-b", "0", "-e", "64", "-f", "4").sizes()) == [0, 4, 16, 64]
    assert list(settings("-b", "1K", "-e", "4K", "-i", "1K").sizes()) == [1024, 2048, 3072, 4096]
    assert list(settings("-b", "5", "-e", "5").sizes()) == [5]
    assert list(settings("--op", "barrier").sizes()) == [0]


def test_counts_are_rounded_down_to_whole_blocks() -> None:
    assert [settings("--op", "all_gather", "--ranks", "3").count(n) for n in (0, 11, 12, 100)] == [0, 0, 1, 8]
    assert [settings("--ranks", "3", "-d", "half").count(n) for n in (0, 11, 12, 100)] == [0, 5, 6, 50]


def test_default_algorithms() -> None:
    assert settings().algorithms == ("ring", "auto")
    assert settings("--op", "broadcast").algorithms[-1] == "auto"
    assert "binomial" in settings("--op", "broadcast").algorithms
    assert {"ring", "naive", "auto"} <= set(settings("--algorithm", "all").algorithms)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("--ranks 0", "--ranks 0: start at least 1"),
        ("--algorithm rong", "--algorithm rong"),
        ("--algorithm rong", "use ring"),
        ("--algorithm ring,channels=2", "write ring:channels=2"),
        ("--algorithm ring:colour=2", "colour"),
        ("--algorithm nowhere.py:mine", "nowhere.py"),
        ("-b 2M -e 1M", "-b/--minbytes 2097152 is more than -e/--maxbytes 1048576"),
        ("-b 1Q", "-b/--minbytes: '1Q'"),
        ("-f 0", "-f/--stepfactor 0"),
        ("-b 1 -e 1G -i 1", "-i/--stepbytes 1: more than"),
        ("-n 0", "-n/--iters 0"),
        ("--rounds 4", "use at least 5"),
        ("-d floaty", "use one of float"),
        ("-d int8 -o avg", "use sum"),
        ("-d float -o band", "-d int32"),
        ("--op reduce -r 4", "-r/--root 4"),
        ("--op all_redus", "all_reduce"),
        ("--backend nccl --ranks 99", "ranks on this host: 99, GPUs that torch sees: 0"),
        ("--timeout 0", "--timeout 0"),
        ("--json no/such/folder/x.json", "does not exist; make it first"),
        ("--trace .", "folder; name a file"),
        ("--plot x.gif", ".svg"),
        ("--op barrier --plot x.png", "leave --plot out"),
        ("--frobnicate", "--frobnicate"),
    ],
)
def test_wrong_arguments_are_one_line_and_start_nothing(
    argv: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "run", None)
    try:
        status = bench(argv)
    except SystemExit as exit:
        status = exit.code
    out, error = capsys.readouterr()
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert words in error


def test_a_plot_needs_matplotlib(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert bench("--plot x.png") == 2
    assert "pip install 'ringlab[viz]'" in capsys.readouterr().err


def test_an_algorithm_that_is_wrong_does_not_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from collectives import Recv, Send\n"
        "def mine(rank, size):\n"
        "    yield Send(0, to=(rank + 1) % size), Recv(0, source=(rank - 1) % size)\n"
    )
    assert bench(f"--algorithm {file}:mine") == 2
    assert "mine.py:mine" in capsys.readouterr().err


# What is reported.


def test_ratios_are_of_rounds_and_percentiles_of_operations() -> None:
    slow, quick = Timing([2.0, 9.0, 4.0], [1.0] * 3, [4.0, 1.0, 3.0, 2.0]), Timing([1.0, 1.0, 4.0], [1.0] * 3, [])
    assert slow.over(quick) == 2.0
    assert slow.typical == 4.0
    assert (slow.percentile(50), slow.percentile(99), quick.percentile(50)) == (2.0, 4.0, None)


def row(**changes: object) -> Row:
    values = dict.fromkeys(KEYS) | {
        "collective": "all_reduce", "algorithm": "auto", "bytes": 1 << 20, "dtype": "float32", "redop": "sum",
        "ranks": 4, "time_us": 1234.56, "cpu_us": 100.0, "algbw": 0.849, "busbw": 1.274, "wrong": 0,
        "native_time_us": 1000.0, "native_busbw": 1.573, "ratio": 1.2346, "null": 1.01, "picked": "ring", "iqr_us": 0.0,
        "ratios": {},
    }  # fmt: skip
    return Row(**{**values, **changes})  # type: ignore[arg-type]


def test_a_row_reads_like_one_of_nccl_tests() -> None:
    cells = report.table_line(Line(row(), 1 << 18, "float", -1, 1.049, 0), ()).split()
    assert cells[13:] == ["1.23", "1.01", "auto(ring)"]
    size, count, kind, redop, root, *rest = cells[:13]
    assert (int(size), int(count), kind, redop, int(root)) == (1 << 20, 1 << 18, "float", "sum", -1)
    assert [float(cell) for cell in rest] == [1234.6, 0.849, 1.274, 0, 1000.0, 1.049, 1.573, 0]


def test_what_there_is_not_is_not_a_number() -> None:
    without = row(wrong=None, native_time_us=None, native_busbw=None, ratio=None, null=None, p50_us=1.0, p99_us=2e4)
    cells = report.table_line(Line(without, 1, "float", -1, None, None), ("p50_us", "p99_us")).split()
    assert cells[8:15] == ["N/A"] * 7
    assert cells[15:] == ["auto(ring)", "1.00", "20000"]


def test_columns_are_named() -> None:
    lines = report.title(["p50_us", "p99_us"])
    assert all(line.startswith("#") for line in lines)
    nccl_tests = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
    assert " ".join(lines[1].split()) == f"# {nccl_tests} ratio null algorithm p50 p99"


def test_last_lines() -> None:
    rows = [row(busbw=1.0), row(busbw=2.0)]
    assert report.closing(0, rows) == ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.5"]
    assert report.closing(3, [])[0] == "# Out of bounds values : 3 FAILED"


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    report.write_json(file, {}, [row()])
    before = file.read_text()
    with pytest.raises(TypeError):
        report.write_json(file, {"no": object()}, [])  # type: ignore[dict-item]
    assert file.read_text() == before
    assert os.listdir(tmp_path) == ["rows.json"]


def test_a_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row(), row(bytes=2 << 20), row(bytes=0), row(algorithm="ring", ratio=None, native_busbw=None)]
    plot.write_plot(tmp_path / "plot.svg", {"backend": "gloo", "ranks": 4, "devices": {"a CPU": 4}}, rows)
    assert "<svg" in (tmp_path / "plot.svg").read_text()


def assert_well_formed(trace: dict[str, list[dict[str, Any]]]) -> None:
    """Slices of a thread do not overlap, and every arrow runs forward from inside a send to inside a receive."""
    threads = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in threads.values():
        slices.sort()
        assert all(after[0] >= before[1] - 1e-6 for before, after in pairwise(slices))
    ends = defaultdict(dict)
    for event in trace["traceEvents"]:
        if event["ph"] in "sf":
            ends[event["id"]][event["ph"]] = event
            inside = threads[event["pid"], event["tid"]]
            assert any(start <= event["ts"] <= end for start, end in inside)
    assert all(end["s"]["ts"] <= end["f"]["ts"] for end in ends.values())


def test_spans_that_overlap_lie_in_lanes(tmp_path: Path) -> None:
    spans = [
        span.Span(0, "send 0", "send to 1", 10.0, 12.0, 64, "0->1", "first"),
        span.Span(1, "recv 0", "receive from 0", 9.0, 13.0, 64, "0->1", "first"),
        span.Span(1, "recv 0", "receive from 0", 9.5, 14.0, 64, "0->1", "unmatched"),
        span.Span(1, "recv 0", "receive from 0", 13.0, 15.0, 64),
    ]
    span.write(tmp_path / "trace.json", spans, {0: "zero"}, {"about": "this"})
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert_well_formed(trace)
    events = trace["traceEvents"]
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["zero", "rank 1"]
    names = sorted(e["args"]["name"] for e in events if e["name"] == "thread_name")
    assert names == ["recv 0", "recv 0 lane 1", "send 0"]
    assert sum(e["ph"] == "s" for e in events) == 1
    assert min(e["ts"] for e in events if e["ph"] == "X") == 0
    assert trace["displayTimeUnit"] == "ns"


# Whole runs.


def bench(words: str) -> int:
    """The command in this process; its ranks are forked."""
    return commands.DOOR.main(["bench", *words.split()])


def command(words: str) -> subprocess.CompletedProcess[str]:
    """The command as a user gives it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", *words.split()], env=environment, capture_output=True, text=True, timeout=90, check=False
    )


def test_help_is_quick_because_it_leaves_torch_out() -> None:
    code = (
        "import sys\nfrom collectives.__main__ import DOOR\n"
        "try: DOOR.main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'rich', 'matplotlib'} & set(sys.modules)"
    )
    for argv in ([], ["--help"], ["bench", "--help"]):
        words = [sys.executable, "-c", code, *argv]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "bench" in done.stdout
    block = pattern.BLOCK.bit_length() - 1
    assert f"5 * 2**{block} * itemsize + 128 * {PERIOD} bytes" in done.stdout


@forks
def test_a_run_with_all_its_files(tmp_path: Path) -> None:
    files = {flag: tmp_path / f"out.{flag}" for flag in ("json", "csv", "trace")}
    flags = " ".join(f"--{flag} {file}" for flag, file in files.items())
    algorithms = "ring:channels=2,direct,auto"
    done = command(
        f"collectives bench --ranks 2 -b 1K -e 16K -f 16 -n 3 -w 1 --baselines none --algorithm {algorithms} {flags}"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[-2] == "# Out of bounds values : 0 OK"
    assert lines[-1].startswith("# Avg bus bandwidth    : ")
    data = [line.split() for line in lines if not line.startswith("#")]
    assert [(cells[0], cells[1], cells[8], cells[12]) for cells in data] == [("1024", "256", "0", "0")] * 3 + [
        ("16384", "4096", "0", "0")
    ] * 3
    assert any(line.startswith("# ringlab ") and "torch" in line and "python" in line for line in lines)
    assert any("loopback TCP" in line for line in lines)

    result = json.loads(files["json"].read_text())
    assert list(result) == ["environment", "rows", "baselines"]
    assert [list(row) for row in result["rows"]] == [KEYS] * 6
    first = result["rows"][0]
    assert (first["collective"], first["algorithm"], first["bytes"]) == ("all_reduce", "ring:channels=2", 1024)
    assert (first["dtype"], first["redop"], first["ranks"], first["wrong"]) == ("float32", "sum", 2, 0)
    assert (first["p50_us"], first["p99_us"], first["picked"]) == (None, None, None)
    assert result["rows"][2]["picked"]
    assert all(row[key] > 0 for row in result["rows"] for key in ("time_us", "cpu_us", "ratio", "null"))
    assert first["busbw"] == pytest.approx(first["bytes"] / first["time_us"] / 1e3 * 2 * (2 - 1) / 2)

    with files["csv"].open() as table:
        assert [list(row) for row in csv.DictReader(table)] == [KEYS] * 6
    trace = json.loads(files["trace"].read_text())
    assert_well_formed(trace)
    events = trace["traceEvents"]
    assert [e["args"]["name"][:6] for e in events if e["name"] == "process_name"] == ["rank 0", "rank 1"]
    sends, receives, arrows = (
        sum(e["ph"] == phase and e["cat"] == category for e in events if "cat" in e)
        for phase, category in (("X", "send"), ("X", "recv"), ("s", "message"))
    )
    assert sends == receives == arrows > 0
    assert sum(e["ph"] == "X" and e["cat"] == "operation" for e in events) == 6 * 2
    streams = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"operation", "send 0", "send 1", "recv 0", "recv 1", "reduce 0", "reduce 1"} <= streams
    assert sorted(os.listdir(tmp_path)) == sorted(file.name for file in files.values())


@pytest.mark.timeout(120)
def test_under_torchrun(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    done = command(
        "torch.distributed.run --nproc-per-node 2 -m collectives bench --op all_gather -b 0 -e 8K -f 2048 -n 2 -w 1 "
        f"-d half --mode blocking --algorithm bruck -c 0 --baselines none --json {file}"
    )
    assert done.returncode == 0, done.stderr
    data = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [cells[:5] for cells in data] == [[str(n), str(n // 4), "half", "none", "-1"] for n in (0, 0, 4096)]
    rows = json.loads(file.read_text())["rows"]
    assert [(row["bytes"], row["wrong"], row["redop"]) for row in rows] == [(n, None, "none") for n in (0, 0, 4096)]
    assert all(0 < row["p50_us"] <= row["p99_us"] for row in rows)


@forks
def test_a_wrong_result_fails(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    right = Operands.ours

    def wrong(self: Operands, algorithm: str) -> Callable[[], object]:
        call = right(self, algorithm)

        def spoil() -> None:
            call()
            if self.result is not None and self.problem.rank == 1 and algorithm == "direct":
                self.result[-1] += 1

        return spoil

    monkeypatch.setattr(Operands, "ours", wrong)
    file = tmp_path / "out.json"
    assert bench(f"--ranks 2 -b 4K -e 4K -n 1 -w 0 --backend gloo --algorithm ring,direct --json {file}") == 1
    out = capfd.readouterr().out.splitlines()
    assert out[-2] == "# Out of bounds values : 1 FAILED"
    assert [row["wrong"] for row in json.loads(file.read_text())["rows"]] == [0, 1]


@forks
def test_ours_run_where_the_backend_refuses(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise RuntimeError("Invalid scalar type")

    monkeypatch.setattr(Operands, "native", lambda self, group=None: refuse)
    assert bench("--ranks 2 -b 4K -e 4K -n 1 -w 0 --backend gloo --op all_to_all --algorithm direct") == 0
    (cells,) = [line.split() for line in capfd.readouterr().out.splitlines() if not line.startswith("#")]
    assert cells[8:15] == ["0"] + ["N/A"] * 6


@forks
def test_a_rank_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Operands, "ours", lambda self, algorithm: lambda: 1 // 0)
    assert bench("--ranks 2 -b 4K -e 4K --backend gloo") == 1
    error = capfd.readouterr().err
    assert "failed first: ZeroDivisionError" in error
