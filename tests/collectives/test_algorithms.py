"""Every built-in algorithm is right at every size, costs what its docstring says, and what others have measured."""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from fractions import Fraction
from typing import Any

import pytest

from collectives.cost import Machine, predict
from collectives.messages import unroll
from collectives.proof import prove
from collectives.registry import algorithms, find
from collectives.schedule import Schedule

BUILT_IN = [s for s in algorithms() if s.programs[0].__module__.startswith("collectives.")]
EVERY = pytest.mark.parametrize("schedule", BUILT_IN, ids=[f"{s.collective}-{s.name}" for s in BUILT_IN])
PIPELINED = ("chain", "double_tree")  # the number of chunks is free


def log2n(n: int) -> int:
    return (n - 1).bit_length()


def local_ranks(n: int) -> int:
    return max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)


def cost_line(schedule: Schedule) -> tuple[str, str]:
    """The formula in the docstring of a schedule, and for which numbers of ranks it is exact."""
    doc = schedule.programs[0].__doc__ or ""
    (formula,) = re.findall(r"^ *Cost: (.+)$", doc, re.MULTILINE)
    exact = re.findall(r"Cost: .+\n *Exact for: (every n|n a power of two|n from 2 on|no n)\b", doc)
    assert len(exact) == doc.count("Exact for:")
    return formula, exact[0] if exact else "every n"


def by_formula(schedule: Schedule, n: int, S: float, machine: Machine) -> float:
    local = schedule.options.get("local") or local_ranks(n)
    names = {"n": n, "k": schedule.chunk_count(n), "S": S, "log2n": log2n(n), "local": local, "nodes": n // local}
    names |= {"alpha": machine.alpha, "beta": machine.beta, "gamma": machine.gamma}
    names |= {f.__name__: f for f in (math.ceil, math.floor, math.log2, max, min)}
    return float(eval(cost_line(schedule)[0], {"__builtins__": {}}, names))


# Right


@EVERY
@pytest.mark.parametrize("sizes", [range(1, 34), [64]], ids=["1-33", "64"])
def test_is_proved_at_every_size(schedule: Schedule, sizes: Any) -> None:
    for size in sizes:
        prove(schedule, size)


@pytest.mark.parametrize("chunks", [1, 2, 3, 20])
@pytest.mark.parametrize("name", PIPELINED)
def test_is_proved_for_every_number_of_chunks(name: str, chunks: int) -> None:
    for schedule in BUILT_IN:
        for size in (1, 2, 3, 6, 8, 13) if schedule.name == name else ():
            prove(schedule.with_options(chunks=chunks), size)


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_hierarchical_takes_every_divisor(collective: str) -> None:
    for local in (1, 2, 3, 4, 6, 12):
        prove(find(collective, f"hierarchical:local={local}"), 12)


@pytest.mark.parametrize("local", [5, -2, 24])
def test_hierarchical_refuses_what_does_not_divide(local: int) -> None:
    schedule = find("all_reduce", f"hierarchical:local={local}")
    with pytest.raises(ValueError, match=rf"local={local} .*size=12 .*1, 2, 3, 4, 6, 12"):
        prove(schedule, 12)


def how_all_ranks_sum(schedule: Schedule, size: int, channel: int) -> list[dict[Any, Any]]:
    """What every rank ends with, as the expression that its executor evaluates: operands in rank order."""
    steps = [deque(unroll(schedule, rank, size, channel)) for rank in range(size)]
    held: list[dict[Any, Any]] = [{("work", c): r for c in range(schedule.chunk_count(size))} for r in range(size)]
    wire: dict[tuple[int, int], deque[list[Any]]] = defaultdict(deque)
    sent = [False] * size
    while any(steps):
        for rank in range(size):
            if not steps[rank]:
                continue
            step = steps[rank][0]
            if not sent[rank]:
                for to, places in step.sends.items():
                    wire[rank, to].append([held[rank][place] for place in places])
                sent[rank] = True
            if not all(wire[source, rank] for source in step.receives):
                continue
            operands = defaultdict(list)
            for source, into in step.receives.items():
                for (place, reduces), value in zip(into, wire[source, rank].popleft(), strict=True):
                    operands[place].append((source, value))
                    if reduces and len(operands[place]) == 1:
                        operands[place].append((rank, held[rank][place]))
            for place, values in operands.items():
                (_, total), *rest = sorted(values, key=lambda item: item[0])
                for _, value in rest:
                    total = (total, value)
                held[rank][place] = total
            steps[rank].popleft()
            sent[rank] = False
    return held


@pytest.mark.parametrize("schedule", [s for s in BUILT_IN if s.collective == "all_reduce"], ids=str)
def test_all_ranks_end_with_the_same_bits(schedule: Schedule) -> None:
    for size in (2, 3, 5, 6, 8, 11):
        for channel in range(schedule.channels):
            results = how_all_ranks_sum(schedule, size, channel)
            assert all(result == results[0] for result in results), size


@pytest.mark.parametrize("name", ["recursive_doubling", "double_tree", "naive", "direct"])
def test_operands_keep_the_order_of_the_ranks(name: str) -> None:
    """Sums are ((a+b)+(c+d)), never (a+c)+(b+d)."""
    for size in (2, 3, 5, 6, 8, 11):
        total = how_all_ranks_sum(find("all_reduce", name), size, 0)[0]["work", 0]
        assert [int(rank) for rank in re.findall(r"\d+", str(total))] == list(range(size))


# What it costs


@EVERY
def test_costs_what_the_docstring_says(schedule: Schedule) -> None:
    exact = cost_line(schedule)[1]
    machines = [Machine(alpha=3e-6, beta=1e-9), Machine(alpha=3e-6, beta=1e-9, gamma=3e-10), Machine(1e-9, 1e-9, 5e-9)]
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 31):
        if exact == "no n" or (exact == "n a power of two" and n & (n - 1)) or (exact == "n from 2 on" and n == 1):
            continue
        for k in (1, 2, 7, 32) if schedule.name in PIPELINED else (None,):
            priced = schedule.with_options(chunks=k) if k else schedule
            for machine in machines:
                for S in (1e3, 1e7):
                    assert predict(priced, n, S, machine) == pytest.approx(by_formula(priced, n, S, machine), rel=1e-9)


@pytest.mark.parametrize("local", [1, 2, 4, 8])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_costs_of_every_division_into_nodes(collective: str, local: int) -> None:
    schedule, machine = find(collective, f"hierarchical:local={local}"), Machine(3e-6, 1e-9, 2e-10)
    assert predict(schedule, 8, 1e6, machine) == pytest.approx(by_formula(schedule, 8, 1e6, machine), rel=1e-9)


@pytest.mark.parametrize(
    ("collective", "least", "most"), [("broadcast", 0.74, 1.34), ("reduce", 0.5, 1.34), ("all_reduce", 0.33, 1.25)]
)
def test_double_tree_stays_near_its_formula(collective: str, least: float, most: float) -> None:
    for n in (2, 3, 4, 7, 8, 10, 16, 20, 31):
        for k in (1, 4, 8, 32):
            schedule = find(collective, f"double_tree:chunks={k}")
            for machine in (Machine(1.0, 1e-9), Machine(1.0, k), Machine(1e-9, 1.0), Machine(1.0, k, k)):
                assert least < predict(schedule, n, 1.0, machine) / by_formula(schedule, n, 1.0, machine) < most


def test_double_tree_has_the_latency_of_a_tree_and_the_bytes_of_a_ring() -> None:
    for n in (4, 8, 13, 32):
        latency = predict(find("all_reduce", "double_tree:chunks=1"), n, 0.0, Machine(1.0, 1.0))
        assert latency == 2 * log2n(n)
        many = find("all_reduce", "double_tree:chunks=64")
        assert max(prove(many, n).sent.values()) <= 2
        assert predict(many, n, 1.0, Machine(1e-9, 1.0)) < 2.6


@pytest.mark.parametrize(
    ("collective", "name"), [("all_gather", "recursive_doubling"), ("reduce_scatter", "halving_doubling")]
)
def test_folding_costs_a_message_and_little_more_than_twice_the_bytes(collective: str, name: str) -> None:
    for n in (3, 5, 6, 7, 9, 17, 24, 31, 33):
        bound = (log2n(n) + 1) * 3e-6 + 2.25 * 1e6 * (1e-9 + 2e-10)
        assert predict(find(collective, name), n, 1e6, Machine(3e-6, 1e-9, 2e-10)) <= bound


@pytest.mark.parametrize("schedule", [s for s in BUILT_IN if s.symmetric and s.name != "direct"], ids=repr)
def test_one_rank_stands_for_all_where_it_says_so(schedule: Schedule) -> None:
    """The cost read off rank 0 is the cost read off all ranks."""
    walked = Schedule(schedule.collective, schedule.programs, schedule.chunks)
    for n in (2, 3, 5, 8):
        for machine in (Machine(3e-6, 1e-9, 2e-10), Machine(1e-9, 1e-9, 5e-9)):
            assert predict(schedule, n, 1e6, machine) == pytest.approx(predict(walked, n, 1e6, machine), rel=1e-9)


# Milliseconds of an independent simulator (SimGrid 3.32 SMPI replay): 1 GB, 50 GB/s, two links of 1 µs.
SIMULATED = [
    *(("all_reduce", "ring", n, ms) for n, ms in ((4, 30.012), (8, 35.028), (16, 37.560), (64, 39.627))),
    *(("all_reduce", "halving_doubling", n, ms) for n, ms in ((4, 30.008), (6, 70.012), (8, 35.012), (16, 37.516))),
    *(("all_reduce", "recursive_doubling", n, ms) for n, ms in ((4, 40.004), (6, 80.008), (8, 60.006), (16, 80.008))),
    ("all_to_all", "pairwise", 8, 17.514),
    ("all_to_all", "direct", 8, 17.502),
    ("all_to_all", "bruck", 8, 30.006),
    ("broadcast", "binomial", 8, 60.006),
    ("all_gather", "ring", 8, 17.514),
    ("all_gather", "recursive_doubling", 8, 17.506),
    ("all_gather", "bruck", 8, 17.506),
]


@pytest.mark.parametrize(("collective", "name", "n", "milliseconds"), SIMULATED)
def test_agrees_with_an_independent_simulator(collective: str, name: str, n: int, milliseconds: float) -> None:
    seconds = predict(find(collective, name), n, 1e9, Machine(alpha=2e-6, beta=1 / 50e9))
    assert round(seconds * 1e3, 3) == milliseconds


def test_binomial_scatter_serves_the_largest_subtree_first() -> None:
    scatter = find("scatter", "binomial")
    assert predict(scatter, 8, 8.0, Machine(alpha=1.0, beta=0.0)) == 3
    assert predict(scatter, 8, 8.0, Machine(alpha=0.0, beta=1.0)) == 7


def test_reduce_scatter_and_all_gather_are_half_an_all_reduce() -> None:
    machine = Machine(alpha=10e-6, beta=0.0)
    for collective, microseconds in (("reduce_scatter", 30), ("all_gather", 30), ("all_reduce", 60)):
        assert predict(find(collective, "ring"), 4, 1.0, machine) == pytest.approx(microseconds * 1e-6)


# How it goes


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 16])
def test_steps_and_messages(n: int) -> None:
    k, log, floor = 8, log2n(n), n.bit_length() - 1
    power, extra = 1 << floor, n - (1 << floor)
    local = local_ranks(n)
    hierarchical = 2 * (local + n // local - 2)
    expected = {
        ("all_reduce", "ring"): (2 * (n - 1), 2 * n * (n - 1)),
        ("broadcast", "chain"): (n - 2 + k, k * (n - 1)),
        ("reduce", "chain"): (n - 2 + k, k * (n - 1)),
        ("broadcast", "binomial"): (log, n - 1),
        ("reduce", "binomial"): (log, n - 1),
        ("scatter", "binomial"): (log, n - 1),
        ("gather", "binomial"): (log, n - 1),
        ("broadcast", "double_tree"): (log - 1 + k, 2 * k * (n - 1)),
        ("reduce", "double_tree"): (log - 1 + k, 2 * k * (n - 1)),
        ("all_reduce", "double_tree"): (2 * log - 1 + k, 4 * k * (n - 1)),
        ("all_reduce", "recursive_doubling"): (2 * log - floor, power * floor + 2 * extra),
        ("all_gather", "recursive_doubling"): (2 * log - floor, power * floor + 2 * extra),
        ("reduce_scatter", "halving_doubling"): (2 * log - floor, power * floor + 2 * extra),
        ("all_reduce", "halving_doubling"): (2 * log, 2 * power * floor + 2 * extra),
        ("all_reduce", "direct"): (1, n * (n - 1)),
        ("all_to_all", "direct"): (1, n * (n - 1)),
        ("all_to_all", "pairwise"): (n - 1, n * (n - 1)),
        ("gather", "direct"): (1, n - 1),
        ("all_gather", "bruck"): (log, n * log),
        ("all_to_all", "bruck"): (log, n * log),
        ("all_reduce", "hierarchical"): (hierarchical, hierarchical * n),
        ("barrier", "dissemination"): (log, n * log),
        ("all_reduce", "naive"): (2 * (n - 1), 2 * (n - 1)),
        ("barrier", "naive"): (2 * (n - 1), 2 * (n - 1)),
    }
    for (collective, name), counts in expected.items():
        proof = prove(find(collective, name), n)
        assert (proof.steps, proof.messages) == counts, f"{collective} {name}"


@pytest.mark.parametrize("name", ["ring", "hierarchical", "halving_doubling"])
def test_all_reduce_sends_the_least_possible(name: str) -> None:
    for n in (2, 4, 8, 16):
        assert set(prove(find("all_reduce", name), n).sent.values()) == {Fraction(2 * (n - 1), n)}


@pytest.mark.parametrize("size", [*range(2, 18), 33])
def test_who_passes_on_in_one_tree_is_a_leaf_of_the_other(size: int) -> None:
    def targets(rank: int, channel: int) -> set[int]:
        return {to for step in unroll(broadcast, rank, size, channel) for to in step.sends}

    broadcast = find("broadcast", "double_tree")
    for rank in range(1, size):
        first, second = len(targets(rank, 0)), len(targets(rank, 1))
        assert min(first, second) == 0
        assert max(first, second) <= 2
    assert len(targets(0, 0)) == len(targets(0, 1)) == 1


@pytest.mark.parametrize("size", [4, 6, 8, 13])
@pytest.mark.parametrize(
    ("collective", "name"),
    [("all_reduce", "halving_doubling"), ("reduce_scatter", "halving_doubling"), ("all_reduce", "hierarchical")],
)
def test_messages_are_one_piece_of_memory(collective: str, name: str, size: int) -> None:
    schedule = find(collective, name)
    for rank in range(size):
        for step in unroll(schedule, rank, size):
            for places in [*step.sends.values(), *([p for p, _ in into] for into in step.receives.values())]:
                chunks = [index for _, index in places]
                assert chunks == list(range(chunks[0], chunks[0] + len(chunks)))
