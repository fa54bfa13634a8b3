"""What stands beside a benchmark row: wire, baselines, orders, groups, cycles, predictions, other logs, computations.

Nothing here depends on how long things take.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import collectives
from collectives import __main__ as commands
from collectives.bench import report, wire
from collectives.bench.against import check_sizes, read_against
from collectives.bench.baseline import Baseline, baselines_of, make_group
from collectives.bench.compute import Compute
from collectives.bench.contest import blank_row, compared
from collectives.bench.cycles import iqr, merged
from collectives.bench.division import groups_of
from collectives.bench.entrants import parse_baselines
from collectives.bench.expectation import IN_A_ROW, TINY, Expectation, Probes, expect
from collectives.bench.measure import Stopwatch, Timing
from collectives.bench.nccl_settings import Evidence, nccl_log
from collectives.bench.order import orders_here, parse_order
from collectives.bench.settings import least_busbw
from collectives.combinators import ordered
from collectives.cost import Machine, predict
from collectives.registry import arranged, find
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


# The wire.


class Tape:
    """A transport that only remembers."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int, int]] = []

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Tape:
        self.said.append(("send", peer, tensors[0].nbytes))
        return self

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Tape:
        self.said.append(("recv", peer, tensors[0].nbytes))
        return self

    def wait(self) -> None: ...


def wired(collective: str, order: list[int] | None) -> list[tuple[str, int, int]] | None:
    from collectives.communicator import communicator

    held, tape = communicator(), Tape()
    real, held.link = held.link, replace(held.link, wire=tape)
    try:
        call = wire.wire(collective, torch.zeros(5), None, order)
        if call is None:
            return None
        call()
    finally:
        held.link = real
    return tape.said


@pytest.mark.parametrize(("collective", "steps"), [("all_reduce", 4), ("all_gather", 2), ("reduce_scatter", 2)])
def test_the_wire_moves_what_the_ring_moves(ranks, collective: str, steps: int) -> None:
    for rank, said in enumerate(ranks(3, wired, collective, None)):
        assert said == [("recv", (rank - 1) % 3, 20), ("send", (rank + 1) % 3, 20)] * steps


def test_the_wire_goes_round_in_the_order_that_is_given(ranks) -> None:
    around = [2, 0, 1, 3]
    for rank, said in enumerate(ranks(4, wired, "all_gather", around)):
        place = around.index(rank)
        assert said == [("recv", around[place - 1], 20), ("send", around[(place + 1) % 4], 20)] * 3


def moves() -> float:
    call = wire.wire("all_reduce", torch.full((1000,), float(dist.get_rank())), None)
    assert call is not None
    for _ in range(3):
        call()
    return 1.0


def test_the_wire_runs_and_there_is_none_without_a_ring(ranks) -> None:
    assert ranks(3, moves) == [1.0] * 3
    assert ranks(2, wired, "broadcast", None) == [None, None]
    assert wire.steps_of("all_reduce", 1) == 0


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


# Baselines.


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


# Groups and orders.


def test_groups_of_nccl_tests_split() -> None:
    assert groups_of("MOD:4", 8) == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert groups_of("div:4", 8) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert groups_of("DIV 2", 4) == ((0, 1), (2, 3))
    for text, ranks in (
        ("MOD:8", 8),
        ("DIV:1", 8),
        ("MOD:3", 8),
        ("DIV:3", 8),
        ("DIV:0", 8),
        ("ROW:2", 8),
        ("MOD:", 8),
    ):
        with pytest.raises(ValueError, match=f"--split {text}: .*(write|use) "):
            groups_of(text, ranks)


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("order", [[0, 2, 3, 1], [3, 1, 4, 0, 2]])
def test_any_order_of_any_algorithm_is_proved(collective: str, order: list[int]) -> None:
    for schedule in collectives.algorithms(collective):
        try:
            collectives.prove(schedule, len(order))
        except ValueError:
            continue  # it does not do this number of ranks in the first place
        placed = ordered(schedule, order)
        assert collectives.prove(placed, len(order)).steps == collectives.prove(schedule, len(order)).steps


def test_an_ordered_ring_sends_to_the_next_in_the_order() -> None:
    order = [0, 2, 3, 1]
    placed = ordered(find("all_reduce", "ring"), order)
    for place, rank in enumerate(order):
        for step in placed.steps(rank, 4):
            to = {operation.to for operation in step if isinstance(operation, collectives.Send)}
            assert to == {order[(place + 1) % 4]}


def test_what_an_order_is_made_of(tmp_path: Path) -> None:
    emitted, plain = tmp_path / "order.json", tmp_path / "order.txt"
    emitted.write_text(json.dumps({"machine": "m", "gpus": [4, 5, 6, 7], "orders": [[4, 6, 5, 7], [4, 5, 6, 7]]}))
    plain.write_text("0 2 1 3\n")
    assert parse_order("natural", 4) == parse_order("auto", 4) == parse_order("0,1,2,3", 4) == ()
    assert parse_order("3,2,1,0", 4) == ((3, 2, 1, 0),)
    assert parse_order(str(plain), 4) == ((0, 2, 1, 3),)
    assert parse_order(str(emitted), 4) == ((0, 2, 1, 3), (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,1,1,3", "it lacks 2; it repeats 1"),
        ("0,1,2", "it lacks 3"),
        ("0,1,2,3,4", "it names 4"),
        ("nowhere.json", "neither auto, natural, a list"),
    ],
)
def test_what_is_no_order(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_order(text, 4)


@pytest.mark.parametrize("content", ["{", '{"rings": []}', '{"gpus": [0, 1], "orders": [[0, 9]]}', "one two"])
def test_files_that_hold_no_order(content: str, tmp_path: Path) -> None:
    (tmp_path / "o").write_text(content)
    with pytest.raises(ValueError, match="--order"):
        parse_order(str(tmp_path / "o"), 2)


def test_several_orders_are_as_many_rings_and_auto_keeps_its_own() -> None:
    orders = ((0, 1, 2, 3), (0, 2, 1, 3))
    both = arranged("ring", "all_reduce", orders)
    assert isinstance(both, collectives.Schedule)
    assert both.channels == 2
    assert arranged("auto", "all_reduce", orders) == "auto"
    assert arranged("ring", "all_reduce", ()) == "ring"
    one = arranged("ring:channels=2", "all_reduce", orders)
    assert isinstance(one, collectives.Schedule)
    assert one.channels == 2


@pytest.mark.skipif(sys.platform == "win32", reason="nvidia-smi is played by a shell script")
def test_auto_asks_what_the_machine_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four GPUs whose NVLinks form the ring 0 2 1 3 and no other."""
    links = {(0, 2), (1, 2), (1, 3), (0, 3)}
    lines = ["\t" + "\t".join(f"GPU{i}" for i in range(4)) + "\tCPU Affinity"]
    for i in range(4):
        cells = ["X" if i == j else "NV1" if (min(i, j), max(i, j)) in links else "PHB" for j in range(4)]
        lines.append(f"GPU{i}\t" + "\t".join(cells) + "\t0-7")
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
    script.chmod(0o755)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    orders, sentence = orders_here(4, 4)
    assert "from nvidia-smi topo -m" in sentence
    assert orders
    for order in orders:
        edges = {(min(a, b), max(a, b)) for a, b in zip(order, order[1:] + order[:1], strict=True)}
        assert edges == links
    twice, _ = orders_here(4, 8)
    assert twice == tuple((*order, *(4 + rank for rank in order)) for order in orders)
    script.write_text("#!/bin/sh\nexit 9\n")
    assert orders_here(4, 4) == ((), "order natural: nvidia-smi topo -m tells nothing here")


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


# Predictions.


def test_a_probe_finds_the_machine_that_it_looks_at() -> None:
    """Calls whose times are those of the model: what is found must be the model's constants."""
    size, truth = 4, Machine(alpha=20e-6, beta=1e-9, gamma=0.2e-9, base=50e-6, overhead=30e-6)
    steps = 2 * (size - 1)
    step = truth.alpha + truth.overhead
    seconds = {
        "tiny": steps * (step + TINY * truth.beta),
        "large": steps * (step + (1 << 20) * truth.beta),
        "add": (1 << 20) * truth.gamma,
        "ours": truth.base + steps * step,
        "native": 70e-6,
    }
    clock = [0.0]

    def call(name: str) -> Any:
        def run() -> None:
            clock[0] += seconds[name]

        return run

    def once(work: Any) -> float:
        before = clock[0]
        work()
        return clock[0] - before

    probes = Probes(1 << 20, **{name: call(name) for name in seconds})
    found = expect(probes, once, Machine(alpha=2e-6, beta=9.0, overhead=3e-6), size)
    for name in ("alpha", "beta", "gamma", "base", "overhead"):
        assert getattr(found.machine, name) == pytest.approx(getattr(truth, name), rel=0.01), name
    assert found.native_latency == pytest.approx(70e-6)
    assert IN_A_ROW > 1
    ring = find("all_reduce", "ring")
    parts = found.ours(ring, 1 << 24)
    assert parts.seconds == pytest.approx(predict(ring, size, 1 << 24, truth), rel=0.01)
    assert parts.wire == pytest.approx(2 * 3 / 4 * (1 << 24) * truth.beta, rel=0.01)
    assert parts.addition == pytest.approx(3 / 4 * (1 << 24) * truth.gamma, rel=0.01)
    assert found.native("all_reduce", 1 << 24) == pytest.approx(70e-6 + parts.wire + parts.addition, rel=0.01)
    assert found.native("broadcast", 1 << 24) is None


def test_a_large_ring_on_a_slow_wire_is_expected_to_be_even_with_the_backend() -> None:
    slow = Expectation(Machine(alpha=1e-4, beta=4e-8, gamma=1e-10, base=1e-4, overhead=1e-4), 1e-4, 4)
    ring = find("all_reduce", "ring")
    ratios = [slow.ours(ring, n).seconds / slow.native("all_reduce", n) for n in (1 << 10, 1 << 20, 1 << 26)]  # type: ignore[operator]
    assert ratios[0] > 5
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] == pytest.approx(1, abs=0.01)


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
