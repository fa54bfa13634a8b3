"""What a benchmark row is expected to take: probes, the parts of a time, NICs, and residuals.

Nothing here depends on how long things take.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import partial
from typing import Any

import pytest
import torch

from collectives.bench.contest import blank_row
from collectives.bench.expectation import IN_A_ROW, TINY, Expectation, Probes, expect
from collectives.bench.nics import said_of_nics, sent_by_nics, with_nics
from collectives.bench.order import Seat
from collectives.bench.probe import probes_of
from collectives.bench.residual import measured, verdicts
from collectives.combinators import over_nodes, rings
from collectives.cost import Machine, predict
from collectives.registry import find


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
    probes = probes_of(len(hosts), None, torch.device("cpu"), [Seat(host, "") for host in hosts])
    for call in (probes.tiny, probes.tiny_inside, probes.large_inside):
        if call is not None:
            call()
    return probes.tiny_inside is not None


@pytest.mark.parametrize(("hosts", "inside"), [("aabb", True), ("abab", False), ("aaaa", False), ("abcd", False)])
def test_the_wire_inside_hosts_is_probed_where_the_model_knows_them(ranks, hosts: str, inside: bool) -> None:
    assert ranks(4, inside_probes, hosts) == [inside] * 4
