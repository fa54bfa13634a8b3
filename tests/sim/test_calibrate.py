"""Constants from measured times: recovered where the times determine them, named where they do not."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectives.contract import contract_of
from collectives.cost import Machine as Model
from collectives.cost import predict
from collectives.registry import find
from sim.__main__ import DOOR
from sim.calibration import Calibration, Sample, disagreements
from sim.fit import fit
from sim.host_fit import fit_hosts
from sim.machine import Machine, Protocol
from sim.machine_file import read_machine
from sim.nccl import Nccl
from sim.nccl_fit import fit_nccl
from sim.presets import PRESETS
from sim.regimes import regimes

US = 1e-6
START = PRESETS["dgx-a100"]
TRUE = replace(
    START,
    parameters={**START.parameters, "nvlink": 210e9, "nic": 20e9},
    protocols=(
        Protocol("ring/LL", 5 * US, 0.8 * US, 6 * US, 0.2),
        Protocol("ring/LL128", 15 * US, 2 * US, 9 * US, 0.7),
        Protocol("ring/Simple", 40 * US, 5 * US, 20 * US),
    ),
)


def measured(
    places: Sequence[tuple[int, int]], sizes: Sequence[int], noise: float = 0.0, machine: Machine = TRUE
) -> list[Sample]:
    """What a machine with known constants would take, and as noisy as asked."""
    chance = random.Random(7)
    samples = []
    for nodes, ranks in places:
        model = Nccl(machine, nodes, ranks)
        for size in sizes:
            seconds = model.best("all_reduce", size).time_s * (1 + chance.gauss(0, noise))
            samples.append(Sample("all_reduce", "", nodes, ranks, size, seconds))
    return samples


def value(found: Calibration, name: str) -> float:
    return next(c.value for c in found.constants if c.name.endswith(name))


def steps(first: int, last: int, per_octave: int = 1) -> list[int]:
    return [int(2 ** (k / per_octave)) for k in range(first * per_octave, last * per_octave + 1)]


def log(samples: Sequence[Sample], gpu: str = "NVIDIA A100-SXM4-80GB") -> str:
    """As nccl-tests prints it."""
    first = samples[0]
    local = first.ranks // first.nodes
    lines = ["# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20", "# Using devices"]
    lines += [
        f"#  Rank {r:2} Group  0 Pid {100 + r} on node{r // local} device {r % local:2} [0x{r % local:02x}] {gpu}"
        for r in range(first.ranks)
    ]
    lines += [
        "#                                                              out-of-place                       in-place",
        "#       size         count      type   redop    root " + "    time   algbw   busbw #wrong " * 2,
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    ]
    for s in samples:
        algbw = s.size / s.time_s / 1e9
        numbers = f"{s.time_s / US:9.2f} {algbw:7.2f} {algbw * contract_of(s.collective).factor(s.ranks):7.2f}      0"
        lines.append(f"{s.size:12} {s.size // 4:13}     float     sum      -1 {numbers} {numbers}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1", ""])


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_one_log_gives_each_regime_its_latency_and_speed(noise: float) -> None:
    found = fit_nccl(measured([(1, 8)], steps(3, 33, 16 if noise else 1), noise), START)
    assert len(found.machine.protocols) == 3
    within = 0.01
    for protocol, true in zip(found.machine.protocols, TRUE.protocols, strict=True):
        latency = protocol.base + 14 * protocol.inside
        assert latency == pytest.approx(true.base + 14 * true.inside, rel=5 * within if noise else within)
        speed = protocol.share * found.machine.parameters["nvlink"]
        assert speed == pytest.approx(true.share * 210e9, rel=3 * within if noise else within)
    exact = measured([(1, 8)], steps(3, 33))
    times = [Nccl(found.machine, 1, 8).best("all_reduce", s.size).time_s for s in exact]
    errors = sorted(abs(t / s.time_s - 1) for t, s in zip(times, exact, strict=True))
    assert errors[len(errors) // 2] < 0.01
    assert found.machine.parameters["nvlink"] == pytest.approx(210e9, rel=0.01)


def test_several_numbers_of_ranks_and_nodes_tell_all_constants_apart() -> None:
    found = fit_nccl(measured([(1, 4), (1, 8), (2, 16), (4, 32)], steps(3, 34)), START)
    assert found.undetermined == ()
    assert all(c.known for c in found.constants)
    small = found.machine.protocols[0]
    assert (small.base, small.inside, small.between) == pytest.approx((5 * US, 0.8 * US, 6 * US), rel=0.01)
    assert found.machine.parameters["nvlink"] == pytest.approx(210e9, rel=0.01)
    assert found.machine.parameters["nic"] == pytest.approx(20e9, rel=0.01)
    assert found.errors()[1] < 0.01


def test_what_one_node_and_one_number_of_ranks_do_not_tell() -> None:
    found = fit_nccl(measured([(1, 8)], steps(3, 33)), START)
    said = "\n".join(found.undetermined)
    assert "base and inside apart (one number of hops); their sum is 16.2 us" in said
    assert "NICs and hops between nodes: no run has several nodes" in said
    assert not any(c.known for c in found.constants if c.unit == "us")
    two = fit_nccl(measured([(1, 8), (2, 16)], steps(3, 33)), START)
    assert not any(c.known for c in two.constants if c.unit == "us")  # three latencies, two sums of them


def test_large_sizes_alone_tell_no_latency_and_small_ones_no_bandwidth() -> None:
    large = fit_nccl(measured([(1, 8)], [1 << 32, 1 << 33, 1 << 34], 0.01), START)
    assert any("no size is small enough" in text for text in large.undetermined)
    assert value(large, "speed inside") == pytest.approx(210, rel=0.02)
    small = fit_nccl(measured([(1, 8)], [8, 16, 32, 64, 128], 0.01), START)
    assert any("no size is large enough" in text for text in small.undetermined)
    between = fit_nccl(measured([(2, 16)], steps(20, 33)), START)
    assert any("no run is inside one node" in text for text in between.undetermined)


def test_outliers_do_not_count() -> None:
    samples = measured([(1, 8)], steps(26, 33, 4), 0.005)
    samples[3] = replace(samples[3], time_s=5 * samples[3].time_s)
    assert value(fit_nccl(samples, START), "speed inside") == pytest.approx(210, rel=0.01)


def test_regimes_only_where_the_times_show_them() -> None:
    chance = random.Random(3)
    sizes = [float(2**k) for k in range(3, 33)]
    times = [(20 * US + s / 200e9) * (1 + chance.gauss(0, 0.02)) for s in sizes]
    ways = regimes(sizes, times)
    assert min(range(len(ways)), key=lambda k: ways[k][1]) == 0
    jump = [t * (1 if s < 2**20 else 1.5) for s, t in zip(sizes, times, strict=True)]
    ways = regimes(sizes, jump)
    best = min(range(len(ways)), key=lambda k: ways[k][1])
    assert any(part[0] == sizes.index(2**20) for part in ways[best][0])


def test_fit_says_how_little_it_knows() -> None:
    rows = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    found = fit(rows, [3.0, 3.0, 3.0], [1.0, 1.0])
    assert found.values == pytest.approx((1.0, 1.0))
    assert found.predicted == pytest.approx((3.0, 3.0, 3.0))
    never_negative = fit([[1.0, 1.0], [1.0, 2.0]], [2.0, 1.0], [1.0, 1.0])
    assert min(never_negative.values) >= 0


def test_a_file_round_trip_through_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "log.txt", tmp_path / "box.json"
    samples = measured([(1, 8)], steps(3, 33))
    path.write_text(log(samples))
    assert DOOR.main(["calibrate", str(path), "--out", str(out), "--rows"]) == 0
    said = capsys.readouterr().out
    for words in (
        "dgx-a100 (cluster) fitted to 31 measured times",
        "speed inside",
        "each left out",
        "no run has several",
    ):
        assert words in said
    machine = read_machine(out)
    model = Nccl(machine, 1, 8)
    for s in samples:
        assert model.best("all_reduce", s.size).time_s == pytest.approx(s.time_s, rel=0.01)
    capsys.readouterr()
    assert DOOR.main(["collective", "--machine", str(out), "--size", "1G", "--json", "-"]) == 0
    simulated = json.loads(capsys.readouterr().out)["time_s"]
    assert simulated == pytest.approx(next(s.time_s for s in samples if s.size == 1 << 30), rel=0.01)
    assert DOOR.main(["calibrate", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == len(samples)


@pytest.mark.parametrize(
    ("topology", "gpu", "words"),
    [
        ("dgx-a100", "A100", ""),
        ("pcie-8", "A100", "faster links than the topology says"),
        ("gb200-nvl72", "A100", "as if through PCIe or host memory, not NVLink"),
        ("dgx-a100,local=4", "A100", "do not fit the topology"),
    ],
)
def test_where_log_and_topology_disagree(topology: str, gpu: str, words: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "log.txt"
    path.write_text(log(measured([(1, 8)], steps(26, 30))))
    assert DOOR.main(["calibrate", str(path), "--topology", topology]) == 0
    said = capsys.readouterr().err
    assert (words in said) if words else not said


def test_a_switch_that_adds_is_no_disagreement() -> None:
    """8 H200 with NVLS: 480 GB/s busbw over links that carry 366 in a ring (published)."""
    sample = Sample("all_reduce", "", 1, 8, 16 << 30, 62634.9 * US)
    assert disagreements([sample], PRESETS["dgx-h200"]) == []
    matrix = Machine("topo", "cluster", PRESETS["dgx-h200"].parameters, gpu="h200")
    assert disagreements([sample], matrix) == []


def bench(noise: float, cores: int = 2, ranks: Sequence[int] = (2, 4, 8), hosts: int = 1) -> list[Sample]:
    """What the cost model says with known constants."""
    chance, samples = random.Random(5), []
    model = Model(30 * US, 1 / 1.7e9, 0.2e-9, 50 * US, 40 * US, cores)
    for count in ranks:
        for collective, algorithm in (
            ("all_reduce", "ring"), ("all_reduce", "recursive_doubling"), ("all_reduce", "direct"),
            ("all_gather", "ring"), ("all_gather", "bruck"), ("all_to_all", "direct"),
        ):  # fmt: skip
            for size in steps(10, 25):
                seconds = predict(find(collective, algorithm), count, size, model) * (1 + chance.gauss(0, noise))
                samples.append(Sample(collective, algorithm, count if hosts > 1 else 1, count, size, seconds))
    return samples


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_the_constants_of_a_host(noise: float) -> None:
    found = fit_hosts(bench(noise), 2)
    costs, parameters = found.machine.costs, found.machine.parameters
    within = 0.1 if noise else 0.01
    assert parameters["bandwidth"] == pytest.approx(1.7e9, rel=within)
    assert parameters["latency"][0] == pytest.approx(30 * US, rel=within)
    assert costs.overhead == pytest.approx(40 * US, rel=within)
    assert costs.gamma == pytest.approx(0.2e-9, rel=within)
    assert (costs.cores, found.machine.kind, found.undetermined) == (2, "loopback", ())
    assert found.errors()[0] < (0.04 if noise else 0.01)


def test_hosts_behind_ports_are_a_switch() -> None:
    found = fit_hosts(bench(0.0, cores=0, ranks=(2, 4), hosts=4), 2)
    assert (found.machine.kind, found.machine.costs.cores) == ("switch", 0)
    assert found.machine.parameters["bandwidth"] == pytest.approx(1.7e9, rel=0.01)


def test_one_algorithm_tells_a_host_little() -> None:
    alone = [s for s in bench(0.0, ranks=(4,)) if (s.collective, s.algorithm) == ("all_reduce", "ring")]
    found = fit_hosts(alone, 2)
    assert "alpha" in found.undetermined[0]
    assert found.errors()[1] < 0.01
    with pytest.raises(ValueError, match="native"):
        fit_hosts([replace(s, algorithm="native") for s in alone], 2)


def test_bench_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "bench.json", tmp_path / "mine.json"
    samples = [s for s in bench(0.0, ranks=(4,)) if s.collective == "all_reduce"]
    rows = [
        {"collective": s.collective, "algorithm": s.algorithm, "bytes": s.size, "dtype": "float32", "redop": "sum",
         "ranks": s.ranks, "time_us": s.time_s / US, "algbw": s.size / s.time_s / 1e9, "busbw": s.busbw / 1e9}
        for s in samples
    ]  # fmt: skip
    about = {"backend": "gloo", "ranks": 4, "hosts": {"box": 4}, "cores": {"box": 2}, "devices": {"CPU": 4}}
    path.write_text(json.dumps({"environment": about, "rows": rows}))
    assert DOOR.main(["calibrate", str(path), "--out", str(out)]) == 0
    assert "loopback" in capsys.readouterr().out
    assert DOOR.main(["collective", "--machine", str(out), "--size", "1M", "--ranks", "4", "--json", "-"]) == 0
    simulated = json.loads(capsys.readouterr().out)["time_s"]
    assert simulated == pytest.approx(next(s.time_s for s in samples if s.size == 1 << 20), rel=0.02)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "without a row"),
        ("nothing here\n", "without a row"),
        ('{"environment": {}, "rows": [{}]}', "rows[0]"),
        ('{"environment":\n', "line 2"),
    ],
)
def test_bad_files(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    assert DOOR.main(["calibrate", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_bad_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.txt"
    path.write_text(log(measured([(1, 8)], steps(20, 22))))
    for arguments, words in (
        ([str(tmp_path / "none.log")], "cannot be read"),
        ([str(path), "--ranks", "0"], "--ranks 0"),
        ([str(path), "--machine", "dgx-h10"], "use dgx-h100"),
        ([str(path), "--machine", "laptop"], "no protocols"),
        ([str(path), "--out", "/nowhere/x.json"], "--out"),
    ):
        assert DOOR.main(["calibrate", *arguments]) == 2
        assert words in capsys.readouterr().err
