"""Kernels against the roofline, and collectives against the simulator's own model of NCCL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim.chip import CHIPS
from sim.nccl import Nccl
from sim.planner import links
from sim.planner.constants import SOFTWARE
from sim.planner.hardware import hardware_of
from sim.planner.kernels import product, traffic, wave
from sim.presets import PRESETS, find_machine

A100, H100 = CHIPS["a100"], CHIPS["h100"]
IDEAL = replace(SOFTWARE["2022"], matmul=1.0, saturation=0, memory=1.0)


def test_a_product_of_whole_waves_runs_at_the_peak():
    m, n = 128 * 12, 256 * 9  # 108 tiles of 128 x 256 on 108 multiprocessors
    assert wave(m, n, A100) == 1
    assert product(m, n, 4096, A100, IDEAL) == pytest.approx(2 * m * n * 4096 / 312e12)


def test_one_more_tile_takes_a_wave_more():
    whole, more = wave(128 * 12, 256 * 9, A100), wave(128 * 109, 256, A100)
    assert whole == 1
    assert more == pytest.approx(218 / 324)  # in 218 tiles of half the size: three waves of 108


def test_a_thin_product_takes_as_long_as_its_memory_traffic():
    m, n, k = 8192, 8192, 8
    assert product(m, n, k, A100, IDEAL) == pytest.approx(2 * (m * k + k * n + m * n) / 2039e9)
    assert product(m, n, k, A100, IDEAL) == traffic(2 * (m * k + k * n + m * n), A100, IDEAL)


def test_a_side_as_long_as_the_saturation_halves_the_rate():
    slow = replace(IDEAL, saturation=128)
    m, n = 128 * 12, 256 * 9
    both = m / (m + 128) * n / (n + 128)
    assert product(m, n, 128, A100, slow) == pytest.approx(2 * m * n * 128 / (312e12 * 0.5 * both))


def test_eight_bits_are_twice_as_fast_where_arithmetic_decides():
    software = replace(IDEAL, fp8=1.0)
    once, half = (product(16384, 16384, 16384, H100, software, dtype=dtype) for dtype in ("bf16", "fp8"))
    assert once / half == pytest.approx(1978.9 / 989.4)


@pytest.mark.parametrize("machine", ["dgx-a100", "dgx-h100"])
@pytest.mark.parametrize(("nodes", "ranks"), [(1, 2), (1, 4), (1, 8), (2, 16), (4, 32), (16, 128)])
@pytest.mark.parametrize("nbytes", [50e6, 200e6, 800e6])
def test_collectives_are_those_of_the_simulator(machine, nodes, ranks, nbytes):
    hardware = hardware_of(CHIPS[machine.removeprefix("dgx-")])
    nccl = Nccl(PRESETS[machine], nodes, ranks)
    simple = {way.name: way.time_s for way in nccl.estimates("all_reduce", nbytes)}
    best = min(seconds for name, seconds in simple.items() if name in ("ring/Simple", "tree/Simple"))
    assert links.all_reduce(hardware, nbytes, ranks) == pytest.approx(best, rel=0.12)
    ring = next(way.time_s for way in nccl.estimates("all_gather", nbytes) if way.name == "ring/Simple")
    assert links.all_gather(hardware, nbytes, ranks) == pytest.approx(ring, rel=0.11)


def test_one_rank_sends_nothing():
    hardware = hardware_of(A100)
    for collective in (links.all_gather, links.all_reduce, links.all_to_all):
        assert collective(hardware, 1e9, 1) == 0
    assert links.send(hardware, 1e9, 1, 1) == 0


def test_groups_of_a_node_share_its_nics():
    hardware = hardware_of(A100)
    alone, shared = links.rate(hardware, 16, 1), links.rate(hardware, 16, 8)
    assert alone == pytest.approx(8 * 23.5e9)  # eight members a node, eight NICs
    assert shared == pytest.approx(23.5e9)  # one member a node, one NIC
    assert links.rate(hardware, 8, 1) == 235e9


def test_a_machine_with_half_the_nics_halves_the_rate():
    half = hardware_of(A100, find_machine("dgx-a100,nics=4"))
    assert half.nic == hardware_of(A100).nic / 2
    assert half.nvlink == hardware_of(A100).nvlink


def test_what_runs_together_slows_each_other():
    assert links.exposed(1.0, 10.0, 0.2) == pytest.approx(0.2)  # hidden, but for what it takes from computing
    assert links.exposed(10.0, 1.0, 0.2) == pytest.approx(9.0)  # longer than the computing
    assert links.exposed(0.0, 1.0, 0.2) == 0


def test_arrays_are_as_good_as_numbers():
    sizes = np.array([1, 2, 8, 16, 64])
    found = links.all_reduce(hardware_of(A100), 1e8, sizes, 1)
    assert list(found) == [links.all_reduce(hardware_of(A100), 1e8, int(size), 1) for size in sizes]
    sides = np.array([1, 127, 2048, 5000])
    assert list(product(sides, 4096, 777, A100, SOFTWARE["2022"])) == [
        product(int(side), 4096, 777, A100, SOFTWARE["2022"]) for side in sides
    ]


def test_a_machine_without_gpus_is_refused():
    with pytest.raises(ValueError, match="laptop is no cluster of GPUs: use dgx-a100"):
        hardware_of(A100, PRESETS["laptop"])
