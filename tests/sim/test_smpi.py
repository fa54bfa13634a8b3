"""The trace for SimGrid: its form, both ends of every message, its bytes, and its time on a replayer of its own."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from collectives.registry import find
from sim import smpi
from sim.__main__ import DOOR
from sim.collective import Outcome, simulate
from sim.faults import Faults
from sim.presets import find_machine

Message = tuple[str, str, str]  # source, to, tag
RAILS = "rails,local=4,nvlink=450,nic=50,latency=1us/5us"
CASES = [
    ("all_reduce", "ring", "switch,bandwidth=50,latency=1us", 8, 8_000_000),
    ("all_reduce", "halving_doubling", "torus,shape=4x2", 8, 8_000_000),
    ("all_reduce", "hierarchical:local=4", RAILS, 8, 8_000_000),
    ("all_gather", "bruck", RAILS, 12, 12_000_000),
    ("all_to_all", "direct", "fat-tree,routing=random,leaf=4,oversubscription=2", 12, 1_440_000),
    ("broadcast", "binomial", "dgx-h100", 7, 7_000_000),
    ("barrier", "dissemination", "ring", 5, 0),
    ("all_reduce", "ring", "switch", 1, 1000),
]


def outcome(collective: str, algorithm: str, machine: str, ranks: int, nbytes: float, **how: Any) -> Outcome:
    chosen, faults = find_machine(machine), how.get("faults", Faults())
    network = faults.on(chosen.network(ranks=ranks))
    return simulate(find(collective, algorithm), network, nbytes, chosen.costs, faults)


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def replay(trace: list[list[str]], alpha: float, beta: float) -> float:
    """Seconds on a star where each rank sends and receives one message at a time: rendezvous, α + β·bytes."""
    todo: dict[str, list[list[str]]] = defaultdict(list)
    for rank, *action in trace:
        todo[rank].append(action)
    now = dict.fromkeys(todo, 0.0)
    posted: dict[Message, float] = {}
    ends: dict[Message, float] = {}
    waited: dict[str, list[Message]] = {rank: [] for rank in todo}
    while any(todo.values()):
        before = sum(map(len, todo.values()))
        for rank, actions in todo.items():
            while actions:
                verb, *values = actions[0]
                if verb in ("isend", "irecv"):
                    peer, tag, nbytes, datatype = values
                    assert datatype == "6"
                    message = (rank, peer, tag) if verb == "isend" else (peer, rank, tag)
                    waited[rank].append(message)
                    if message in posted:
                        ends[message] = max(now[rank], posted.pop(message)) + alpha + beta * int(nbytes)
                    else:
                        posted[message] = now[rank]
                elif verb == "waitall":
                    assert len(waited[rank]) == len({source == rank for source, _, _ in waited[rank]})
                    if not all(message in ends for message in waited[rank]):
                        break  # until its other end is there
                    now[rank] = max(ends[message] for message in waited[rank])
                    waited[rank].clear()
                elif verb == "compute":
                    now[rank] += float(values[0]) / smpi.SPEED
                else:
                    assert verb in ("init", "finalize")
                actions.pop(0)
        assert sum(map(len, todo.values())) < before, "ranks wait for ever"
    return max(now.values())


@pytest.mark.parametrize(("collective", "algorithm", "machine", "ranks", "nbytes"), CASES)
def test_both_ends_of_every_message(
    tmp_path: Path, collective: str, algorithm: str, machine: str, ranks: int, nbytes: int
) -> None:
    found = outcome(collective, algorithm, machine, ranks, nbytes)
    smpi.export(tmp_path / "t", found)
    ends: dict[str, dict[Message, int]] = {"isend": {}, "irecv": {}}
    tagged = lines(tmp_path / "t")
    for me, verb, *values in tagged:
        if verb in ends:
            peer, tag, size, _ = values
            message = (me, peer, tag) if verb == "isend" else (peer, me, tag)
            assert message not in ends[verb]
            ends[verb][message] = int(size)
    assert ends["isend"] == ends["irecv"]
    assert len(ends["isend"]) == found.messages
    by_link = dict.fromkeys(found.network.names, 0)
    routes = routes_of(tmp_path / "t.xml")
    for (source, to, _), length in ends["isend"].items():
        for link in routes[f"rank{source}", f"rank{to}"]:
            by_link[link] += length
    assert list(by_link.values()) == pytest.approx(list(found.carried))
    for rank in range(ranks):
        verbs = [verb for number, verb, *_ in tagged if number == str(rank)]
        assert (verbs[0], verbs[-1]) == ("init", "finalize")
        assert verbs.count("init") == verbs.count("finalize") == 1


def routes_of(path: Path) -> dict[tuple[str, str], list[str]]:
    zone = ElementTree.parse(path).getroot()[0]
    assert all(route.attrib["symmetrical"] == "NO" for route in zone.iter("route"))
    return {
        (route.attrib["src"], route.attrib["dst"]): [link.attrib["id"] for link in route]
        for route in zone.iter("route")
    }


def test_the_form_of_the_files(tmp_path: Path) -> None:
    smpi.export(tmp_path / "t", outcome("all_reduce", "ring", "switch,bandwidth=50,latency=1us", 2, 2000))
    step = ["0 irecv 1 0 1000 6", "0 isend 1 0 1000 6", "0 waitall"]
    later = [line.replace("1 0 1000", "1 1 1000") for line in step]
    rank0 = ["0 init", *step, *later, "0 finalize"]
    assert (tmp_path / "t").read_text().splitlines()[:8] == rank0
    assert (tmp_path / "t.hosts").read_text() == "rank0\nrank1\n"
    assert (tmp_path / "t.list").read_text() == f"{tmp_path / 't'}\n"
    zone = ElementTree.parse(tmp_path / "t.xml").getroot()[0]
    assert [host.attrib["id"] for host in zone.iter("host")] == ["rank0", "rank1"]
    assert [prop.attrib["value"] for prop in zone.iter("prop")] == ["gpu0", "gpu1"]
    links = {link.attrib["id"]: link.attrib for link in zone.iter("link")}
    assert links["gpu0->switch"] == {"id": "gpu0->switch", "bandwidth": "50000000000.0Bps", "latency": "5e-07s"}
    assert routes_of(tmp_path / "t.xml")["rank1", "rank0"] == ["gpu1->switch", "switch->gpu0"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t", "t.hosts", "t.list", "t.xml"]


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "recursive_doubling"])
@pytest.mark.parametrize("faults", [Faults(), Faults(straggler={3: 1.0})], ids=["lockstep", "events"])
def test_another_replayer_finds_the_same_time(tmp_path: Path, algorithm: str, faults: Faults) -> None:
    machine = "switch,bandwidth=50,latency=3us,base=8us,gamma=600"
    found = outcome("all_reduce", algorithm, machine, 8, 8_000_000, faults=faults)
    smpi.export(tmp_path / "t", found, faults)
    assert replay(lines(tmp_path / "t"), 3e-6, 1 / 50e9) == pytest.approx(found.time_s, rel=1e-9)


@pytest.mark.skipif(not shutil.which("smpirun"), reason="SimGrid is not installed")
@pytest.mark.parametrize(("collective", "algorithm", "machine", "ranks", "nbytes"), CASES)
def test_simgrid_finds_the_same_time(
    tmp_path: Path, collective: str, algorithm: str, machine: str, ranks: int, nbytes: int
) -> None:
    found = outcome(collective, algorithm, machine, ranks, nbytes)
    given = shlex.split(smpi.export(tmp_path / "t", found).splitlines()[1])
    said = subprocess.run([*given, "--log=root.fmt:%m%n"], capture_output=True, text=True, timeout=60, check=True)
    (seconds,) = re.findall(r"Simulated time: (\S+) seconds", said.stdout + said.stderr)
    envelopes = found.messages * smpi.ENVELOPE / min(found.network.capacity)
    assert found.time_s * (1 - 1e-5) <= float(seconds) <= (found.time_s + envelopes) * (1 + 1e-5)


def test_a_straggler_adds_more_slowly(tmp_path: Path) -> None:
    faults = Faults(straggler={1: 4.0})
    smpi.export(tmp_path / "t", outcome("all_reduce", "ring", "switch,gamma=1", 4, 4000, faults=faults), faults)
    nanoseconds = {rank: float(values[0]) for rank, verb, *values in lines(tmp_path / "t") if verb == "compute"}
    assert nanoseconds == pytest.approx({"0": 1000.0, "1": 4000.0, "2": 1000.0, "3": 1000.0})


def test_a_note_where_latencies_meet(tmp_path: Path) -> None:
    together = smpi.export(tmp_path / "t", outcome("all_reduce", "ring", "switch", 4, 4000))
    assert "favours" not in together
    meeting = smpi.export(tmp_path / "t", outcome("all_to_all", "direct", "ring,latency=1us", 4, 4000))
    assert "routes with different latencies share gpu" in meeting


@pytest.mark.parametrize(
    ("machine", "algorithm", "nbytes", "faults", "words"),
    [
        ("switch", "ring:channels=2", 4000, Faults(), "2 channels"),
        ("switch", "ring", 4001, Faults(), "--size 4000"),
        ("switch", "ring", 3, Faults(), "--size 4"),
        ("switch", "ring", 4 << 31, Faults(), "longer than SMPI's"),
        ("switch", "ring", 4000, Faults(jitter=0.1), "jitter"),
        ("switch,overhead=1us", "ring", 4000, Faults(), "overhead"),
        ("laptop,overhead=0", "ring", 4000, Faults(), "shared cores"),
    ],
)
def test_what_a_trace_cannot_say(
    tmp_path: Path, machine: str, algorithm: str, nbytes: int, faults: Faults, words: str
) -> None:
    found = outcome("all_reduce", algorithm, machine, 4, nbytes, faults=faults)
    with pytest.raises(ValueError, match=words):
        smpi.export(tmp_path / "t", found, faults)
    assert not list(tmp_path.iterdir())


def command(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    status = DOOR.main(["collective", "--ranks", "4", "--size", "4000", "--machine", "switch", *argv])
    return status, capsys.readouterr().err


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, err = command(capsys, "--smpi", "ring.ti")
    assert status == 0
    words = shlex.split(err.splitlines()[1])
    given = words[: words.index("--cfg=network/model:CM02")]
    assert " ".join(given) == ("smpirun -platform ring.ti.xml -hostfile ring.ti.hosts -np 4 -replay ring.ti.list")
    assert all(Path(words[i]).is_file() for i in (2, 4, 8))
    assert Path("ring.ti.list").read_text() == "ring.ti\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--smpi", "a b"], "no spaces"),
        (["--smpi", "missing/t"], "does not exist"),
        (["--smpi", "t", "--compare", "all"], "leave out --compare"),
        (["--smpi", "t", "--algorithm", "ring:channels=2"], "one sequence a rank"),
    ],
)
def test_errors_of_the_command(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, err = command(capsys, *argv)
    assert status == 2
    assert words in err
    assert not list(tmp_path.iterdir())
