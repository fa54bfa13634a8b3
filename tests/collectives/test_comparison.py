"""What stands beside a benchmark row: wire, baselines, orders, groups, cycles, predictions, other logs, computations.

Nothing here depends on how long things take.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import astuple, replace
from functools import partial
from itertools import pairwise
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
from collectives.bench.entrants import in_channels, parse_baselines
from collectives.bench.expectation import IN_A_ROW, TINY, Expectation, Probes, expect
from collectives.bench.measure import Stopwatch, Timing
from collectives.bench.nccl_settings import Evidence, nccl_log
from collectives.bench.nics import said_of_nics, sent_by_nics, with_nics
from collectives.bench.order import Seat, orders_here, orders_over_interfaces, parse_order
from collectives.bench.probe import probes_of
from collectives.bench.residual import measured, verdicts
from collectives.bench.settings import least_busbw
from collectives.combinators import ordered, over_nodes, rings
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


def wired(collective: str, orders: list[list[int]]) -> list[tuple[str, int, int]] | None:
    from collectives.communicator import communicator

    held, tape = communicator(), Tape()
    real, held.link = held.link, replace(held.link, wire=tape)
    try:
        call = wire.wire(collective, torch.zeros(5), None, orders)
        if call is None:
            return None
        call()
    finally:
        held.link = real
    return tape.said


@pytest.mark.parametrize(("collective", "steps"), [("all_reduce", 4), ("all_gather", 2), ("reduce_scatter", 2)])
def test_the_wire_moves_what_the_ring_moves(ranks, collective: str, steps: int) -> None:
    for rank, said in enumerate(ranks(3, wired, collective, [])):
        assert said == [("recv", (rank - 1) % 3, 20), ("send", (rank + 1) % 3, 20)] * steps


def test_the_wire_goes_round_in_the_order_that_is_given(ranks) -> None:
    around = [2, 0, 1, 3]
    for rank, said in enumerate(ranks(4, wired, "all_gather", [around])):
        place = around.index(rank)
        assert said == [("recv", around[place - 1], 20), ("send", around[(place + 1) % 4], 20)] * 3


def test_the_wire_of_two_rings_moves_a_share_along_each(ranks) -> None:
    rings = [[0, 1, 2], [0, 2, 1]]
    for rank, said in enumerate(ranks(3, wired, "all_gather", rings)):
        right, left = (rank + 1) % 3, (rank - 1) % 3
        assert said == [("recv", left, 12), ("recv", right, 8), ("send", right, 12), ("send", left, 8)] * 2
    assert ranks(3, moves, tuple(rings)) == [1.0] * 3


def moves(orders: tuple[list[int], ...] = ()) -> float:
    call = wire.wire("all_reduce", torch.full((1000,), float(dist.get_rank())), None, orders)
    assert call is not None
    for _ in range(3):
        call()
    return 1.0


def test_the_wire_runs_and_there_is_none_without_a_ring(ranks) -> None:
    assert ranks(3, moves) == [1.0] * 3
    assert ranks(2, wired, "broadcast", []) == [None, None]
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
    assert parse_order("0,1,3,2+1,0,2,3", 4) == ((0, 1, 3, 2), (1, 0, 2, 3))
    assert parse_order(str(plain), 4) == ((0, 2, 1, 3),)
    assert parse_order(str(emitted), 4) == ((0, 2, 1, 3), (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,1,1,3", "it lacks 2; it repeats 1"),
        ("0,1,2", "it lacks 3"),
        ("0,1,2,3,4", "it names 4"),
        ("0,1,2,3+0,1,2", "it lacks 3"),
        ("0,1,2,3+", "no list of ranks"),
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
    assert arranged("hierarchical", "all_reduce", orders) == "hierarchical"
    one = arranged("ring:channels=2", "all_reduce", orders[1:])
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
    orders, sentence = orders_here([Seat("host0", "")] * 4)
    assert "from nvidia-smi topo -m" in sentence
    assert orders
    for order in orders:
        edges = {(min(a, b), max(a, b)) for a, b in zip(order, order[1:] + order[:1], strict=True)}
        assert edges == links
    seats = [Seat(f"host{rank % 2}", "") for rank in range(8)]  # the ranks of a host do not follow each other
    twice, _ = orders_here(seats)
    assert len(twice) > 1
    across = [(a, b) for order in twice for a, b in zip(order, order[1:] + order[:1], strict=True) if (a - b) % 2]
    assert len(set(across)) == len(across) == 2 * len(twice)  # no two rings by one NIC in one direction
    assert all(a // 2 == b // 2 for a, b in across)  # and each on its rail
    for order in twice:
        assert [rank % 2 for rank in order] == [0] * 4 + [1] * 4
        for half in (order[:4], order[4:]):
            steps = {(min(a, b) // 2, max(a, b) // 2) for a, b in pairwise(half)}
            assert steps < links
    script.write_text("#!/bin/sh\nexit 9\n")
    assert orders_here(seats) == ((), "order natural: nvidia-smi topo -m tells nothing here")


def test_on_gloo_a_ring_for_each_interface_of_a_host() -> None:
    def found(hosts: str, interfaces: str) -> tuple[tuple[int, ...], ...]:
        return orders_over_interfaces([Seat(h, i) for h, i in zip(hosts, interfaces, strict=True)])[0]

    assert found("aaaa", "0101") == ()  # one host: nothing to cross
    assert found("aabb", "0000") == ()  # the natural order crosses once each way
    assert found("abab", "0000") == ((0, 2, 1, 3),)  # which these ranks do not
    assert found("aabb", "0101") == ((0, 1, 3, 2), (1, 0, 2, 3))
    assert found("aaaabbbb", "00110011") == ((0, 1, 2, 3, 7, 6, 5, 4), (2, 3, 0, 1, 5, 4, 7, 6))
    assert found("aab", "000") == ()  # hosts that differ: nothing is known to be better


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


class Machinery:
    """Calls that take the seconds they are said to, on a clock of its own."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.now = 0.0
        self.calls = {name: partial(self.work, duration) for name, duration in seconds.items()}

    def work(self, duration: float) -> None:
        self.now += duration

    def once(self, call: Any) -> float:
        began = self.now
        call()
        return self.now - began


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
    machinery = Machinery(seconds)
    probes = Probes(1 << 20, **machinery.calls)
    found = expect(probes, machinery.once, Machine(alpha=2e-6, beta=9.0, overhead=3e-6), size)
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


def expectation(**changes: float) -> Expectation:
    machine = Machine(alpha=20e-6, beta=1e-9, gamma=0.2e-9, base=50e-6, overhead=30e-6)
    return Expectation(replace(machine, **changes), 70e-6, 4)  # type: ignore[arg-type]


def test_the_parts_of_a_time_are_those_of_its_formula() -> None:
    ring, S = find("all_reduce", "ring"), 1 << 24
    parts = expectation().ours(ring, S)
    assert parts.launch == pytest.approx(50e-6 + 6 * 50e-6)
    assert (parts.wire, parts.addition) == (pytest.approx(1.5 * S * 1e-9), pytest.approx(0.75 * S * 0.2e-9))
    assert parts.nics == pytest.approx(0, abs=1e-12)
    launching = expectation(launch=0.5).ours(ring, S)  # the host is slower than every step: nothing else counts much
    assert launching.seconds == pytest.approx(predict(ring, 4, S, expectation(launch=0.5).machine))
    assert launching.launch == pytest.approx(launching.seconds - parts.wire - parts.addition)
    assert (launching.wire, launching.addition) == (pytest.approx(parts.wire), pytest.approx(parts.addition))


def test_what_crosses_between_nodes_is_the_nics_part() -> None:
    """Two nodes of two: a ring of 4 sends 1.5 S over the NIC, at a tenth of the speed."""
    ring, S = find("all_reduce", "ring"), 1 << 24
    near = expectation(alpha=0.0, overhead=0.0, base=0.0, gamma=0.0)
    far = expectation(alpha=0.0, overhead=0.0, base=0.0, gamma=0.0, local=2, far_beta=1e-8)
    parts = far.ours(ring, S)
    assert parts.wire == pytest.approx(near.ours(ring, S).wire)
    assert parts.nics == pytest.approx(1.5 * S * (1e-8 - 1e-9))
    nccl = replace(far, ring_a_nic=True)
    assert nccl.native("all_reduce", S) == pytest.approx(
        70e-6 + 1.5 * S * 1e-8 / 2
    )  # a ring a NIC, of which there are 2
    assert far.native("all_reduce", S) == pytest.approx(70e-6 + 1.5 * S * 1e-8, rel=1e-3)  # gloo: one ring in all


def test_a_host_that_launches_hides_what_a_tiny_step_takes_below() -> None:
    usual = Machine(alpha=4e-6, beta=0.0, overhead=6e-6)
    hidden = expectation().launched(45e-6, usual).machine  # of a tiny step of 50 us
    assert (hidden.launch, hidden.alpha, hidden.overhead) == (45e-6, pytest.approx(4e-6), pytest.approx(6e-6))
    seen = expectation().launched(10e-6, usual).machine
    assert (seen.launch, seen.alpha, seen.overhead) == (10e-6, 20e-6, 30e-6)


def test_a_residual_is_found_where_it_is() -> None:
    """Rows that take what the model says, but for one part: that alone differs from what was expected."""
    ring, told = find("all_reduce", "ring"), expectation(local=2, far_alpha=30e-6, far_beta=4e-9)

    def rows(
        sizes: tuple[int, int], launch: float = 0.0, moving: float = 0.0, addition: float = 0.0
    ) -> tuple[Any, ...]:
        small, large = (told.ours(ring, size) for size in sizes)
        blank = [replace(blank_row("all_reduce", size, "float32", "sum", 4), algorithm="ring") for size in sizes]
        wired = [(1 + launch) * p.launch + (1 + moving) * (p.wire + p.nics) for p in (small, large)]
        added = [(1 + addition) * p.addition for p in (small, large)]
        ours = [replace(row, time_us=1e6 * (w + a)) for row, w, a in zip(blank, wired, added, strict=True)]
        wires = [replace(row, algorithm="wire", time_us=1e6 * w) for row, w in zip(blank, wired, strict=True)]
        return tuple(ours), tuple(wires), small, large

    for grown in ({"launch": 0.5}, {"moving": 0.5}, {"addition": 0.5}):
        *_, large = given = rows((1 << 10, 1 << 24), **grown)
        for name in ("launch", "wire", "nics", "addition"):
            part = {"wire": "moving", "nics": "moving"}.get(name, name)
            wanted = getattr(large, name) * (1 + grown.get(part, 0.0))
            assert getattr(measured(*given), name) == pytest.approx(wanted, rel=0.01, abs=1e-3 * large.seconds), name
    *_, large = given = rows((1 << 23, 1 << 24))  # however much the smallest has to move
    assert astuple(measured(*given)) == pytest.approx(astuple(large))
    ours, wires, *_ = rows((1 << 10, 1 << 24), addition=0.5)
    (line,) = verdicts(ours, wires, told, lambda *_: ring)
    assert "exposed addition" in line
    assert "NICs" in line
    assert list(verdicts(ours, wires, None, lambda *_: ring)) == []


def test_a_large_ring_on_a_slow_wire_is_expected_to_be_even_with_the_backend() -> None:
    slow = Expectation(Machine(alpha=1e-4, beta=4e-8, gamma=1e-10, base=1e-4, overhead=1e-4), 1e-4, 4)
    ring = find("all_reduce", "ring")
    ratios = [slow.ours(ring, n).seconds / slow.native("all_reduce", n) for n in (1 << 10, 1 << 20, 1 << 26)]  # type: ignore[operator]
    assert ratios[0] > 5
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] == pytest.approx(1, abs=0.01)


def test_over_hosts_a_probe_tells_links_inside_from_nics() -> None:
    """Two hosts of two ranks: once round all of them a step takes as long as between hosts, inside it is shorter."""
    inside, between, overhead = (2e-6, 1e-10), (50e-6, 1e-8), 3e-6
    seconds = {
        "tiny": 6 * (sum(between[:1]) + overhead + TINY * between[1]),
        "large": 6 * (between[0] + overhead + (1 << 20) * between[1]),
        "add": (1 << 20) * 1e-10,
        "ours": 6 * (between[0] + overhead) + 40e-6,
        "native": 90e-6,
        "tiny_inside": 2 * (inside[0] + overhead + TINY * inside[1]),
        "large_inside": 2 * (inside[0] + overhead + (1 << 20) * inside[1]),
    }
    machinery = Machinery(seconds)
    seats = [Seat("host0", "a"), Seat("host0", "b"), Seat("host1", "a"), Seat("host1", "b")]
    probes = Probes(1 << 20, **machinery.calls, seats=seats)
    found = expect(probes, machinery.once, Machine(alpha=2e-6, beta=9.0, overhead=3e-6), 4)
    truth = Machine(
        inside[0], inside[1], 1e-10, 40e-6, overhead, local=2, nics=2, far_alpha=between[0], far_beta=between[1]
    )
    for name in ("alpha", "beta", "gamma", "base", "overhead", "far_alpha", "far_beta", "local", "nics"):
        assert getattr(found.machine, name) == pytest.approx(getattr(truth, name), rel=0.02), name
    # 64 MiB, in which nothing else counts: the shares of it that the busiest NIC sends, and a rank inside its host
    size = 1 << 26
    native = found.native("all_reduce", size)
    assert native == pytest.approx(1.5 * size * between[1], rel=0.02)
    for schedule, away, within in (
        (find("all_reduce", "ring"), 1.5, 0.0),
        (rings(over_nodes([[0, 1]], 2, 2)), 0.75, 0.0),
        (find("all_reduce", "hierarchical:local=2"), 0.5, 1.0),
    ):
        seconds = found.ours(schedule, size).seconds
        assert seconds == pytest.approx((away * between[1] + within * inside[1]) * size, rel=0.02)
    together = with_nics(Machine(1.0, 1.0), [Seat(s.host, "a") for s in seats], 1.0, 1.0)
    assert (together.local, together.nics) == (2, 1)
    assert with_nics(Machine(1.0, 1.0), seats[:2], 1.0, 1.0) == Machine(1.0, 1.0)  # one host
    assert with_nics(Machine(1.0, 1.0), seats[::2] + seats[1::2], 1.0, 1.0) == Machine(1.0, 1.0)  # not in turn


@pytest.mark.parametrize(
    ("nics", "algorithm", "bytes_each"),
    [
        # 2 hosts of 2 ranks, 1 MB: 2(n-1)/n of it from the one rank that has a neighbour on the other host
        (2, "ring", {0: 0.0, 1: 1.5e6, 2: 0.0, 3: 1.5e6}),
        (1, "ring", {0: 1.5e6, 1: 1.5e6}),
        # along the rails an all-reduce of half of it by two
        (2, "hierarchical:local=2", {0: 0.5e6, 1: 0.5e6, 2: 0.5e6, 3: 0.5e6}),
        (1, "hierarchical:local=2", {0: 1e6, 1: 1e6}),
        (2, None, {0: 0.75e6, 1: 0.75e6, 2: 0.75e6, 3: 0.75e6}),
    ],
)
def test_what_each_nic_sends(nics: int, algorithm: str | None, bytes_each: dict[int, float]) -> None:
    schedule = find("all_reduce", algorithm) if algorithm else rings(over_nodes([[0, 1]], 2, 2))
    machine = Machine(0.0, 1.0, local=2, nics=nics, far_beta=1e-8)
    assert sent_by_nics(schedule, 4, 1e6, machine) == pytest.approx(bytes_each)
    assert sent_by_nics(schedule, 4, 1e6, Machine(0.0, 1.0)) == {}
    most = max(bytes_each.values())
    said = said_of_nics(schedule, 4, 1e6, machine, 0.02)
    assert (
        said
        == f"; the busiest of {len(bytes_each)} NICs sends {most:.0f} bytes, {most * 1e-6 / 0.02:.0f} % of that time"
    )


def inside_probes(hosts: str) -> bool:
    probes = probes_of(len(hosts), None, CPU, [Seat(host, "") for host in hosts])
    for call in (probes.tiny, probes.tiny_inside, probes.large_inside):
        if call is not None:
            call()
    return probes.tiny_inside is not None


@pytest.mark.parametrize(("hosts", "inside"), [("aabb", True), ("abab", False), ("aaaa", False), ("abcd", False)])
def test_the_wire_inside_hosts_is_probed_where_the_model_knows_them(ranks, hosts: str, inside: bool) -> None:
    assert ranks(4, inside_probes, hosts) == [inside] * 4


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


@pytest.mark.parametrize(
    ("name", "channels", "backend", "orders", "wanted"),
    [
        ("ring", None, "nccl", 0, "ring:channels=2"),
        ("ring", None, "nccl", 1, "ring:channels=2"),
        ("ring", None, "nccl", 2, "ring"),
        ("ring", None, "gloo", 0, "ring"),
        ("direct", None, "nccl", 0, "direct"),
        ("direct", 3, "gloo", 0, "direct:channels=3"),
        ("hierarchical:local=2", 2, "nccl", 0, "hierarchical:local=2,channels=2"),
        ("ring:channels=4", 2, "nccl", 0, "ring:channels=4"),
        ("double_tree", 2, "nccl", 0, "double_tree"),
        ("ring", 1, "nccl", 0, "ring"),
        ("auto", 2, "nccl", 0, "auto"),
        ("collectives.ring:all_reduce", 2, "nccl", 0, "collectives.ring:all_reduce:channels=2"),
    ],
)
def test_channels_of_an_algorithm(name: str, channels: int | None, backend: str, orders: int, wanted: str) -> None:
    assert in_channels(name, "all_reduce", channels, backend, orders) == wanted
    if wanted not in ("auto", name):
        assert find("all_reduce", wanted).channels == (channels or 2)


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
