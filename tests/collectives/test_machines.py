"""Machines on which the host launches groups, and machines of several nodes: what a schedule costs, what is picked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from collectives.auto import (
    CANDIDATES,
    FAR_ALPHA,
    FAR_BETA,
    GPU,
    ON_GPUS,
    REPLAYED,
    _local_ranks,
    candidates,
    machine_here,
    pick,
)
from collectives.combinators import rings
from collectives.cost import Machine, predict
from collectives.proof import prove
from collectives.registry import find
from collectives.schedule import Schedule

RING = find("all_reduce", "ring")
DEVICE = Machine(alpha=3e-6, beta=1e-9, gamma=2e-10, base=10e-6, overhead=2e-6)
NODES = replace(GPU, local=8, nics=8, far_alpha=FAR_ALPHA, far_beta=FAR_BETA)
SIZES = [8 << (2 * k) for k in range(15)]  # to 2 GiB


# Launching.


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("S", [1e3, 1e6])
def test_a_host_that_is_faster_than_every_step_costs_one_launch(n: int, S: float) -> None:
    launch = 4e-6  # a step takes at least alpha + overhead = 5 us
    assert predict(RING, n, S, replace(DEVICE, launch=launch)) == pytest.approx(predict(RING, n, S, DEVICE) + launch)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("S", [1e3, 1e6])
def test_a_host_that_is_slower_than_every_step_costs_its_launches_and_the_last_step(n: int, S: float) -> None:
    launch = 5e-3
    last = DEVICE.alpha + DEVICE.overhead + S / n * DEVICE.beta  # of the all-gather: nothing is added
    seconds = predict(RING, n, S, replace(DEVICE, launch=launch))
    assert seconds == pytest.approx(DEVICE.base + 2 * (n - 1) * launch + last)


def test_a_host_launches_each_channel() -> None:
    n, S, launch = 4, 1e6, 5e-3
    last = DEVICE.alpha + DEVICE.overhead + S / 2 / n * DEVICE.beta
    two = find("all_reduce", "ring:channels=2")
    seconds = predict(two, n, S, replace(DEVICE, launch=launch))
    assert seconds == pytest.approx(DEVICE.base + 2 * 2 * (n - 1) * launch + last)


def test_one_group_is_launched_once_however_many_messages_it_has() -> None:
    direct, launch = find("all_reduce", "direct"), 1e-3
    for n in (2, 3, 8):
        assert predict(direct, n, 1e4, replace(DEVICE, launch=launch)) == pytest.approx(
            predict(direct, n, 1e4, DEVICE) + launch
        )


def test_without_a_launch_nothing_has_changed() -> None:
    assert predict(RING, 8, 1e6, DEVICE) == pytest.approx(10e-6 + 14 * 5e-6 + 1.75 * 1e6 * 1e-9 + 0.875 * 1e6 * 2e-10)


# Channels: one is reduced while another travels.


def test_two_channels_hide_one_of_two_additions() -> None:
    """Of a reduce-scatter with wire w and addition a a step and channel, a < w: the wire is busy from first to last."""
    n, S = 4, 8e6
    machine = Machine(alpha=0.0, beta=1e-9, gamma=0.5e-9)
    one = predict(find("reduce_scatter", "ring"), n, S, machine)
    two = predict(find("reduce_scatter", "ring:channels=2"), n, S, machine)
    wire, addition = S / n / 2 * 1e-9, S / n / 2 * 0.5e-9
    assert one == pytest.approx((n - 1) * 2 * (wire + addition))
    assert two == pytest.approx((n - 1) * 2 * wire + addition)


def written_out(schedule: Schedule) -> Schedule:
    """The same, of which nobody knows that all ranks are alike."""
    return Schedule(schedule.collective, schedule.programs, schedule.chunks, **schedule.options)


@pytest.mark.parametrize("name", ["ring:channels=2", "ring:channels=3", "bruck", "hierarchical:local=2"])
@pytest.mark.parametrize("launch", [0.0, 4e-6, 30e-6, 1e-3])
def test_one_rank_stands_for_all_in_channels_and_under_launches(name: str, launch: float) -> None:
    schedule = find("all_gather" if name == "bruck" else "all_reduce", name)
    for n in (2, 4, 8):
        for S in (1e2, 1e6):
            machine = replace(DEVICE, launch=launch)
            assert predict(schedule, n, S, machine) == pytest.approx(predict(written_out(schedule), n, S, machine))


# Nodes.


@pytest.mark.parametrize("nics", [1, 2, 4])
@pytest.mark.parametrize("name", ["hierarchical:local=4", "hierarchical:local=4,channels=2"])
def test_one_rank_stands_for_all_where_rows_are_nodes(name: str, nics: int) -> None:
    """Exactly where each has its NIC; ranks that share one get out of step, and so a little ahead."""
    schedule = find("all_reduce", name)
    machine = replace(DEVICE, local=4, nics=nics, far_alpha=9e-6, far_beta=1e-8, overhead=0.0)
    for n in (8, 12):
        ratio = predict(schedule, n, 1e7, machine) / predict(written_out(schedule), n, 1e7, machine)
        assert 1 - 1e-9 <= ratio <= (1 + 1e-9 if nics == 4 else 1.1)


@pytest.mark.parametrize(("nics", "milliseconds"), [(1, 280.0), (2, 140.0), (4, 70.0)])
def test_k_rings_over_k_nics_take_a_kth_of_the_time(nics: int, milliseconds: float) -> None:
    """Two nodes of four, NICs of 12.5 GB/s, 2 GB: 2 * 7 / 8 * S / k bytes leave a node by each of k NICs."""
    machine = Machine(alpha=0.0, beta=1e-15, local=4, nics=4, far_beta=1 / 12.5e9)
    # ring i comes to node 0 at rank i and leaves it at rank i - 1, whose number in node 1 has the fellow NIC; and back
    inside = [[(i + place) % 4 for place in range(4)] for i in range(4)]
    orders = [[*inside[i], *(4 + rank for rank in reversed(inside[i]))] for i in range(nics)]
    seconds = predict(rings(orders), 8, 2e9, machine)
    assert seconds * 1e3 == pytest.approx(milliseconds, rel=0.01)


def test_the_wire_between_nodes_bounds_a_flat_ring_and_not_a_hierarchical() -> None:
    S, machine = 8e9, Machine(alpha=0.0, beta=1 / 200e9, local=8, nics=8, far_beta=1 / 25e9)
    assert predict(RING, 16, S, machine) == pytest.approx(2 * 15 / 16 * S / 25e9, rel=1e-9)
    near, far = 2 * 7 / 8 * S / 200e9, 2 * 1 / 2 * S / 8 / 25e9
    assert predict(find("all_reduce", "hierarchical:local=8"), 16, S, machine) == pytest.approx(near + far)


# What auto picks.


def shapes() -> list[tuple[str, int, Machine]]:
    return [
        (f"{n} GPUs, {how}", n, replace(GPU, launch=launch))
        for n in (2, 4, 8)
        for how, launch in (("launched", GPU.launch), ("replayed", REPLAYED))
    ] + [
        (f"{nodes} nodes of 8 with {nics} NICs, {how}", nodes * 8, replace(NODES, nics=nics, launch=launch))
        for nodes in (2, 4)
        for nics in (1, 8)
        for how, launch in (("launched", GPU.launch), ("replayed", REPLAYED))
    ]


SHAPES = pytest.mark.parametrize(("n", "machine"), [pytest.param(n, m, id=name) for name, n, m in shapes()])


@SHAPES
@pytest.mark.parametrize("collective", list(CANDIDATES))
def test_what_is_picked_is_proved(collective: str, n: int, machine: Machine) -> None:
    for name in {pick(collective, nbytes, n, machine) for nbytes in SIZES}:
        prove(find(collective, name), n)


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("launch", [GPU.launch, REPLAYED])
def test_small_is_direct_and_large_a_ring_in_two_channels(n: int, launch: float) -> None:
    machine = replace(GPU, launch=launch)
    picked = [pick("all_reduce", nbytes, n, machine) for nbytes in SIZES]
    for nbytes, name in zip(SIZES, picked, strict=True):
        if nbytes <= 256 << 10:
            assert name == "direct", nbytes
        if nbytes >= 256 << 20:
            assert name == "ring:channels=2", nbytes
    order = ["direct", "ring", "ring:channels=2"]
    assert sorted(picked, key=order.index) == picked  # each once, in this order


def test_a_graph_lets_the_ring_begin_earlier() -> None:
    def least(launch: float) -> int:
        machine = replace(GPU, launch=launch)
        return next(nbytes for nbytes in SIZES if pick("all_reduce", nbytes, 8, machine) != "direct")

    assert least(REPLAYED) < least(GPU.launch)


@pytest.mark.parametrize("collective", list(ON_GPUS))
@pytest.mark.parametrize(("nodes", "nics"), [(2, 1), (2, 8), (3, 2), (16, 8)])
def test_over_nodes_there_is_never_a_flat_ring(collective: str, nodes: int, nics: int) -> None:
    for launch in (GPU.launch, REPLAYED):
        machine = replace(NODES, nics=nics, launch=launch)
        picked = [pick(collective, nbytes, nodes * 8, machine) for nbytes in SIZES]
        assert {name.partition(":")[0] for name in picked} <= {"direct", "hierarchical"}
        assert picked[-1].startswith("hierarchical:local=8")


def test_other_machines_compare_what_they_did() -> None:
    assert candidates("all_reduce", 8, DEVICE) == CANDIDATES["all_reduce"]
    assert candidates("broadcast", 8, GPU) == CANDIDATES["broadcast"]


@pytest.mark.parametrize(
    ("ranks", "local"),
    [
        (range(8), 4),
        (range(4), 4),
        ([0, 4], 1),
        ([1, 5, 9], 1),
        ([0, 1, 4, 5], 2),
        ([1, 2, 3, 4, 5, 6], 3),
        ([0, 4, 1, 5], 1),
        ([0, 1, 2, 4], 1),
    ],
)
def test_ranks_of_a_group_on_one_host(ranks: Sequence[int], local: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda group: list(ranks))
    assert _local_ranks(SimpleNamespace(size=len(ranks), group=None)) == local  # type: ignore[arg-type]


def test_what_is_believed_of_gpus() -> None:
    assert machine_here("nccl", 8, 8) == GPU
    several = machine_here("nccl", 8, 32)
    assert (several.nodes(32), several.local) == (4, 8)
    assert 1 <= several.nics <= 8
    assert machine_here("gloo", 4, 8).nodes(8) == 1
