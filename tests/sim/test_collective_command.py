"""``python -m sim collective``, ``topology`` and ``overlay`` as their users type them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim.__main__ import DOOR


def sim(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    try:
        status = DOOR.main(argv)
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def as_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    status, out, err = sim(capsys, *argv, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


RAILS = "rails,local=8,nvlink=450,nic=50,latency=1us/5us"


def test_the_numbers_of_a_collective(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(
        capsys,
        *["collective", "--algorithm", "hierarchical:local=8", "--nodes", "128", "--size", "1000000000", "--topology"],
        RAILS,
    )
    assert found["time_s"] == pytest.approx(10.133826e-3, abs=6e-10)
    assert found["algbw"] == pytest.approx(1 / found["time_s"])
    assert found["busbw"] == pytest.approx(found["algbw"] * 2 * 1023 / 1024)
    assert found["lower_bound_s"] <= found["time_s"]
    assert found["simulated_s"] > 0
    assert sum(found["breakdown_s"].values()) == pytest.approx(found["time_s"])
    assert [phase["phase"] for phase in found["phases"]] == [
        "reduce inside nodes",
        "copy inside nodes",
        "reduce between nodes",
        "copy between nodes",
    ] or sum(phase["seconds"] for phase in found["phases"]) == pytest.approx(found["time_s"])
    nics = [link for link in found["links"] if link["name"] == "node0.gpu0->rail0"]
    assert nics[0]["bandwidth"] == 50
    assert nics[0]["bytes"] == pytest.approx(2 * 127 / 1024 * 1e9)
    assert nics[0]["utilisation"] == pytest.approx(nics[0]["bytes"] / 50e9 / found["time_s"])


def test_op_is_another_word_and_size_is_binary(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(
        capsys,
        *[
            "collective",
            "--op",
            "all_gather",
            "--ranks",
            "4",
            "--size",
            "1M",
            "--topology",
            "ring,bandwidth=1,latency=0",
        ],
    )
    assert found["time_s"] == pytest.approx(0.75 * 2**20 / 1e9)
    assert found["collective"] == "all_gather"


def test_a_report_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = sim(
        capsys, *["collective", "--ranks", "8", "--size", "1G", "--topology", "dgx-h100", "--nodes", "2"]
    )
    assert status == 0
    for words in (
        "lower bound",
        "busbw",
        "the bottleneck is node0.gpu0->rail0",
        "latency",
        "between nodes",
        "simulated in",
    ):
        assert words in out


def test_compare_ranks_algorithms(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(
        capsys, *["collective", "--compare", "all", "--nodes", "2", "--size", "64M", "--machine", "dgx-a100"]
    )
    times = [row["time_s"] for row in found["rows"]]
    assert times == sorted(times)
    assert found["rows"][0]["algorithm"] == "hierarchical:local=8"
    status, out, _ = sim(
        capsys, *["collective", "--compare", "ring,naive", "--ranks", "4", "--size", "64M", "--machine", "ring"]
    )
    assert status == 0
    assert out.index("ring ") < out.index("naive ")


def test_sweep_finds_where_the_best_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """On a uniform network with two ranks fewer: recursive doubling against ring, where the formulas cross."""
    machine = "switch,bandwidth=10,latency=10us"
    words = f"collective --sweep 1K-16M --compare recursive_doubling,ring --ranks 8 --machine {machine}"
    (crossing,) = as_json(capsys, *words.split())["crossovers"]
    wanted = (14 - 3) * 10e-6 / (3 - 2 * 7 / 8) * 10e9  # 3α + 3βS = 14α + 2·7/8·βS
    assert (crossing["from"], crossing["to"]) == ("recursive_doubling", "ring")
    assert crossing["size"] == pytest.approx(wanted, rel=0.02)


def test_a_schedule_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from collectives import Send, Reduce\n"
        "def swap(rank, size):\n    yield Send(0, 1 - rank), Reduce(0, 1 - rank)\n"
        "    yield Send(1, 1 - rank), Reduce(1, 1 - rank)\n"
        "def half(rank, size):\n    yield Send(0, 1 - rank), Reduce(0, 1 - rank)\n"
    )
    words = "--ranks 2 --size 2000 --machine ring,bandwidth=1,latency=0"
    assert as_json(capsys, "collective", "--algorithm", f"{path}:swap", *words.split())["time_s"] == pytest.approx(2e-6)
    status, _, err = sim(capsys, "collective", "--algorithm", f"{path}:half", *words.split())
    assert status == 1
    assert "chunk 1" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--ranks 0", "ranks=0"),
        ("--nodes 0", "nodes=0"),
        ("--algorithm rng", "use ring"),
        ("--op all_redce", "all_reduce"),
        ("--size 1X", "--size '1X'"),
        ("--machine dgx-h10", "dgx-h100"),
        ("--order 0,1", "not a permutation"),
        ("--order x", "--order"),
        ("--slow-link a=0.5", "does not exist"),
        ("--straggler 1", "RANK=FACTOR"),
        ("--straggler a=2", "RANK=FACTOR"),
        ("--lost-link gpu0-gpu1 --machine line --ranks 3", "no way from gpu0 to gpu1"),
        ("--jitter -1", "jitter"),
        ("--jitter nan", "jitter"),
        ("--machine ring,bandwidth=-3", "above 0"),
        ("--sweep 1G-1K", "--sweep"),
        ("--compare ring,rang", "use ring"),
        ("--json /nowhere/x.json", "--json"),
        ("--ranks 9 --nodes 1", "more than the 8"),
        ("--size -5", "--size"),
        ("--algorithm hierarchical:local=3", "local=3"),
        ("--html /nowhere/x.html", "--html"),
    ],
)
def test_wrong_arguments_are_one_line(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = words.replace("--size -5", "--size=-5").split()
    status, out, err = sim(capsys, "collective", *argv)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_pictures_of_a_collective(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.html", "a.svg", "a.json")]
    words = f"collective --ranks 4 --size 1M --machine ring --html {files[0]} --svg {files[1]} --trace {files[2]}"
    assert sim(capsys, *words.split())[0] == 0
    assert "<svg" in files[1].read_text()
    events = json.loads(files[2].read_text())["traceEvents"]
    assert sum(event["ph"] == "s" for event in events) == 24  # an arrow for each of 4 · 6 messages
    assert {event["name"] for event in events if event["ph"] == "C"} >= {"link gpu0->gpu1"}


def test_topology_of_a_matrix_and_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text, out = tmp_path / "topo.txt", tmp_path / "box.json"
    text.write_text("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n")
    status, printed, _ = sim(capsys, "topology", str(text), "--gpu", "a100", "--out", str(out))
    assert status == 0
    assert "gpu0-gpu1" in printed
    times = [
        as_json(capsys, *f"collective --size 1G --gpu a100 --machine {machine}".split())["time_s"]
        for machine in (text, out)
    ]
    assert times == [pytest.approx(2**30 / (4 * 25e9 * 0.783), rel=1e-3)] * 2
    assert as_json(capsys, "topology", str(text))["cells"] == [["GPU0", "GPU1", "NV4"]]
    status, _, err = sim(capsys, "topology", str(tmp_path / "missing.txt"))
    assert status == 2
    assert "unknown" in err


def test_overlay_of_two_traces(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    slow, fast, page = tmp_path / "slow.json", tmp_path / "fast.json", tmp_path / "o.html"
    for path, bandwidth in ((slow, 1), (fast, 2)):
        words = f"collective --ranks 4 --size 1M --machine ring,bandwidth={bandwidth},latency=0 --trace {path}"
        assert sim(capsys, *words.split())[0] == 0
    status, out, _ = sim(capsys, "overlay", str(slow), str(fast), "--html", str(page))
    assert status == 0
    assert "-50.0%" in out
    assert "rank 3 predicted" in page.read_text()
    found = json.loads(sim(capsys, "overlay", str(slow), str(fast), "--json")[1])
    assert found["error"] == pytest.approx(-0.5)
    assert found["measured_s"] == pytest.approx(1.5 * 2**20 / 1e9)
    slow.write_text(slow.read_text()[:500])
    status, _, err = sim(capsys, "overlay", str(slow), str(fast))
    assert status == 2
    assert "line 1" in err


def test_help_is_quick_because_torch_and_numpy_stay_out() -> None:
    code = (
        "import sys\nfrom sim.__main__ import DOOR\n"
        "try: DOOR.main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'rich', 'matplotlib'} & set(sys.modules), sys.modules.keys()"
    )
    for argv in ([], ["collective", "--help"], ["collective", "--ranks", "4", "--size", "1M"], ["topology", "dgx-1v"]):
        done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_what_a_collective_runs_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    for collective in ("barrier", "all_to_all", "reduce", "broadcast", "gather", "scatter"):
        assert as_json(capsys, "collective", "--op", collective, "--ranks", "4", "--machine", "ring")["time_s"] > 0
    assert as_json(capsys, "collective", "--machine", "fat-tree")["ranks"] == 8


def test_a_barrier_has_no_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "collective", "--op", "barrier", "--ranks", "4", "--machine", "ring")
    assert (found["size"], found["busbw"], found["lower_bound_s"]) == (0, 0, 0)
    assert "bandwidth" not in sim(capsys, "collective", "--op", "barrier", "--ranks", "4", "--machine", "ring")[1]


def test_faults_and_idle_ways_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    faults = "--slow-link node0.gpu0->rail0=0.5 --straggler 3=2 --lost-link rail7-node1.gpu7"
    words = f"collective --nodes 2 --machine dgx-a100 {faults}"
    said = "link node0.gpu0->rail0 at 0.5, lost rail7-node1.gpu7, rank 3 2 times slower"
    assert as_json(capsys, *words.split())["faults"] == said
    out = sim(capsys, *words.split())[1]
    assert said in out
    assert "ways out of the nodes carry nothing" in out


def test_the_gpu_is_a_part_of_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    h100 = as_json(capsys, *["collective", "--ranks", "8", "--size", "1G", "--machine", "dgx-h100"])["busbw"]
    as_h100 = as_json(
        capsys, *["collective", "--ranks", "8", "--size", "1G", "--machine", "dgx-a100", "--gpu", "h100"]
    )["busbw"]
    assert as_h100 == pytest.approx(h100, rel=1e-3)
    for words, message in (
        ("dgx-a100 --gpu a10x", "use a10"),
        ("dgx-h100 --gpu t4", "no NVLink"),
        ("laptop --gpu h100", "no GPUs"),
    ):
        status, _, err = sim(capsys, *f"collective --machine {words}".split())
        assert status == 2
        assert message in err


@pytest.mark.parametrize(
    "words",
    [
        "--size 1e400",
        "--machine ring,latency=1e400us",
        "--machine ring,bandwidth=1e-320",
        "--machine ring,base=1e999",
        "--machine ring,gamma=1e-320",
        "--machine torus,shape=1000x1000x1000",
        "--machine full,devices=5000",
        "--machine ring --ranks 2000000",
        "--machine rails --nodes 100000",
        "--algorithm double_tree:chunks=1000000000",
        "--machine switch --ranks 100000 --algorithm halving_doubling",
        "--machine torus --nodes 4",
        "--machine laptop --nodes 2",
        "--machine fat-tree,k=512",
        "--order 0,1,²",
        "--machine torus,shape=²x2",
        "--compare all --html x.html",
    ],
)
def test_what_is_too_much_or_no_number_is_refused_at_once(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = sim(capsys, "collective", *words.split())
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
