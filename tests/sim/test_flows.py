"""Max–min fair shares and flows, against values by hand, an independent solver and a conservation law."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine import Engine
from sim.fairness import certify, max_min
from sim.flows import Flow, Flows
from sim.presets import find_machine


def water_fill(routes: list[tuple[int, ...]], capacity: list[Fraction]) -> list[Fraction]:
    """Exactly: raise all rates together until a link is full, fix the flows on it, go on with the rest."""
    rates: dict[int, Fraction] = {}
    while len(rates) < len(routes):
        level = min(
            (capacity[link] - sum(rates[f] for f in rates if link in routes[f]))
            / sum(link in routes[f] for f in range(len(routes)) if f not in rates)
            for link in range(len(capacity))
            if any(link in routes[f] for f in range(len(routes)) if f not in rates)
        )
        full = {
            link
            for link in range(len(capacity))
            if (n := sum(link in routes[f] for f in range(len(routes)) if f not in rates))
            and capacity[link] - sum(rates[f] for f in rates if link in routes[f]) == level * n
        }
        rates |= {f: level for f in range(len(routes)) if f not in rates and full & set(routes[f])}
    return [rates[f] for f in range(len(routes))]


def test_the_three_flows_of_the_docstring() -> None:
    assert max_min([(0,), (0, 1), (1,)], [10.0, 4.0]) == [8.0, 2.0, 2.0]


ROUTES = st.lists(st.sets(st.integers(0, 5), min_size=1, max_size=4).map(lambda s: tuple(sorted(s))), max_size=12)


@settings(max_examples=300, deadline=None)
@given(ROUTES, st.lists(st.integers(1, 40), min_size=6, max_size=6))
def test_rates_equal_an_exact_solver_and_carry_their_certificate(
    routes: list[tuple[int, ...]], capacity: list[int]
) -> None:
    rates = max_min(routes, [float(c) for c in capacity])
    certify(routes, capacity, rates)
    exact = water_fill(routes, [Fraction(c) for c in capacity])
    assert rates == pytest.approx([float(rate) for rate in exact], rel=1e-12)


def test_the_certificate_refuses_what_is_not_fair() -> None:
    with pytest.raises(ArithmeticError, match="carries"):
        certify([(0,), (0, 1), (1,)], [10.0, 4.0], [9.0, 2.0, 2.0])
    with pytest.raises(ArithmeticError, match="no saturated link"):
        certify([(0,), (0, 1), (1,)], [10.0, 4.0], [8.0, 1.0, 3.0])  # links are full, but f2 has less than f3
    with pytest.raises(ArithmeticError, match="no saturated link"):
        certify([(0,), (0, 1), (1,)], [10.0, 4.0], [7.0, 2.0, 2.0])


def ends(capacity: list[float], flows: list[tuple[tuple[int, ...], float, float]]) -> list[float]:
    """When each (route, bytes, start) ends."""
    engine = Engine()
    network = Flows(engine, capacity, lambda flow: None)
    sent = [Flow(route, size) for route, size, _ in flows]
    for flow, (_, _, start) in zip(sent, flows, strict=True):
        network.send(flow, start)
    engine.run()
    for link in range(len(capacity)):
        assert network.carried[link] == pytest.approx(sum(size for route, size, _ in flows if link in route))
    return [flow.ends for flow in sent]


def test_flows_speed_up_when_others_end() -> None:
    """10 units each at 8, 2 and 2: f1 ends at 1.25; nothing that it leaves helps the others (cases of max–min)."""
    assert ends([10.0, 4.0], [((0,), 10, 0.0), ((0, 1), 10, 0.0), ((1,), 10, 0.0)]) == pytest.approx([1.25, 5.0, 5.0])


def test_a_star_of_unequal_ports() -> None:
    """Ports of 1, 4 and 1 GB/s, 2 us a path; as a flow simulator with equal shares and full recomputation says."""
    out, into = {0: 0, 1: 1, 2: 2}, {0: 3, 1: 4, 2: 5}
    capacity = [1e9, 4e9, 1e9, 1e9, 4e9, 1e9]
    pairs = [(1, 2, 3e6), (2, 1, 2e6), (1, 0, 3e6), (1, 2, 3e6), (1, 0, 1e6)]
    found = ends(capacity, [((out[a], into[b]), size, 2e-6) for a, b, size in pairs])
    assert found == pytest.approx([6.002e-3, 2.002e-3, 4.002e-3, 6.002e-3, 2.002e-3], rel=1e-12)


def test_random_flows_against_a_simulation_in_small_steps() -> None:
    """The same flows, with rates that an exact solver computes at every start and end."""
    rng = random.Random(5)
    for _ in range(30):
        capacity = [rng.randint(1, 9) for _ in range(5)]
        flows = [
            (tuple(sorted(rng.sample(range(5), rng.randint(1, 3)))), float(rng.randint(1, 50)), rng.randint(0, 6) / 2)
            for _ in range(8)
        ]
        left, finished, now = {i: Fraction(size) for i, (_, size, _) in enumerate(flows)}, {}, Fraction(0)
        while len(finished) < len(flows):
            active = [i for i in left if i not in finished and flows[i][2] <= now]
            rates = water_fill([flows[i][0] for i in active], [Fraction(c) for c in capacity])
            starts = [Fraction(flows[i][2]) - now for i in left if flows[i][2] > now]
            step = min([left[i] / rate for i, rate in zip(active, rates, strict=True)] + starts)
            now += step
            for i, rate in zip(active, rates, strict=True):
                left[i] -= rate * step
                if left[i] == 0:
                    finished[i] = float(now)
        found = ends([float(c) for c in capacity], flows)
        assert found == pytest.approx([finished[i] for i in range(len(flows))], rel=1e-9)


def test_no_bytes_end_when_they_start_and_no_links_take_no_time() -> None:
    assert ends([1.0], [((0,), 0.0, 2.0), ((), 5.0, 3.0), ((0,), 4.0, 0.0)]) == [2.0, 3.0, 4.0]


@pytest.mark.parametrize(("hosts", "leaf", "spines", "milliseconds"), [
    (64, 8, 8, 1.260), (64, 8, 4, 2.240), (64, 8, 2, 4.480), (128, 16, 16, 2.540), (128, 16, 8, 4.480),
])  # fmt: skip
def test_all_to_all_on_fat_trees(hosts: int, leaf: int, spines: int, milliseconds: float) -> None:
    """1 MB a pair at 50 GB/s, fixed routes: bound by ports at 1:1 and by the leaves' cables beyond."""
    network = find_machine(f"fat-tree,leaf={leaf},spines={spines},nic=50,latency=0").network(ranks=hosts)
    engine, last = Engine(), []

    def done(flow: Flow) -> None:
        last.append(flow.ends)

    flows = Flows(engine, network.capacity, done)
    for a in range(hosts):
        for b in range(hosts):
            if a != b:
                flows.send(Flow(network.route(a, b), 1e6), 0.0)
    engine.run()
    assert max(last) == pytest.approx(milliseconds * 1e-3, rel=1e-9)
    assert flows.certified >= 1
