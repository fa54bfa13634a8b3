"""Links between all pairs of ranks: the rounds, the odd ones, the picture, and the command. Nothing depends on time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectives import __main__ as commands
from collectives.commands import links
from collectives.links import link_map
from collectives.links.heat_map import heat_lines
from collectives.links.link_map import Links
from collectives.links.outliers import outliers
from collectives.links.pairs import rounds

forks = pytest.mark.skipif(sys.platform != "linux", reason="these tests fork")


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8, 9, 16])
def test_every_pair_meets_once_and_nobody_twice_in_a_round(ranks: int) -> None:
    season = rounds(ranks)
    assert len(season) == (ranks - 1 if ranks % 2 == 0 else ranks)
    assert sorted(pair for pairs in season for pair in pairs) == [
        (a, b) for a in range(ranks) for b in range(a + 1, ranks)
    ]
    for pairs in season:
        players = [rank for pair in pairs for rank in pair]
        assert len(players) == len(set(players)) == ranks - ranks % 2


def grid(ranks: int, value: float) -> dict[tuple[int, int], float]:
    return {(i, j): value + 0.01 * (i + j) for i in range(ranks) for j in range(ranks) if i != j}


def test_a_slow_link_is_named_in_its_direction() -> None:
    values = grid(8, 100.0)
    values[2, 5] = 70.0
    values[6, 1] = 40.0
    found = outliers(values, low=True)
    assert [odd.link for odd in found] == [(6, 1), (2, 5)]
    assert found[0].of_median == pytest.approx(0.4, abs=0.01)


def test_a_rank_that_is_slow_with_everybody_does_not_move_the_measure() -> None:
    values = grid(8, 100.0) | {(7, i): 50.0 for i in range(7)} | {(i, 7): 50.0 for i in range(7)}
    assert {odd.link for odd in outliers(values, low=True)} == {(7, i) for i in range(7)} | {(i, 7) for i in range(7)}


def test_what_is_merely_uneven_or_alike_is_not_odd() -> None:
    assert outliers(grid(8, 100.0), low=True) == outliers(grid(8, 100.0), low=False) == []
    assert outliers(grid(4, 100.0) | {(0, 1): 95.0}, low=True) == []  # far in spreads, but within a tenth
    wide = {(0, i): float(v) for i, v in enumerate((60, 80, 100, 120, 140), 1)}
    assert outliers(wide, low=True) == []  # below 0.9, but not far in spreads
    assert outliers({(0, 1): 1.0, (1, 0): 100.0}, low=True) == []


def test_a_late_link_is_odd_on_the_other_side() -> None:
    values = grid(4, 10.0) | {(3, 0): 30.0, (0, 3): 2.0}
    assert [odd.link for odd in outliers(values, low=False)] == [(3, 0)]


def test_a_heat_map_has_a_row_a_sender() -> None:
    values = {(0, 1): 10.0, (1, 0): 1.0}
    lines = list(heat_lines(values, 2, [(1, 0)]))
    assert [line.split() for line in lines] == [["from\\to", "0", "1"], ["0", "·", "10", "█"], ["1", "1!░", "·"]]
    assert len(list(heat_lines(grid(40, 1.0), 40))) == 41
    assert max(map(len, heat_lines(grid(40, 1.0), 40))) <= 8 + 2 * 40


def everything(ranks: int, hosts: list[str], slow: tuple[int, int] | None = None) -> dict:
    bandwidth = {link: value * 1e9 for link, value in grid(ranks, 100.0).items()}
    for i, j in bandwidth:
        if hosts[i] != hosts[j]:
            bandwidth[i, j] /= 4
    if slow:
        bandwidth[slow] /= 2
    latency = {link: value * 1e-8 for link, value in grid(ranks, 100.0).items()}
    return links._content({"hosts": {}}, hosts, Links(latency, bandwidth), 1 << 20, 8)


def test_links_between_hosts_are_judged_apart() -> None:
    hosts = ["host0"] * 4 + ["host1"] * 4
    content = everything(8, hosts)
    assert content["outliers"] == []
    assert {kind: found["links"] for kind, found in content["kinds"].items()} == {
        "within a host": 24,
        "between hosts": 32,
    }
    content = everything(8, hosts, slow=(1, 6))
    (odd,) = content["outliers"]
    assert (odd["from"], odd["to"], odd["kind"], odd["what"]) == (1, 6, "between hosts", "bandwidth_gbs")
    assert content["kinds"]["between hosts"]["min_of_median"] == pytest.approx(0.5, abs=0.01)
    assert content["kinds"]["within a host"]["min_of_median"] > 0.99
    assert content["bandwidth_gbs"][1][6] == pytest.approx(odd["value"])
    assert content["latency_us"][3][3] is None


def measured(ranks: int) -> Links:
    return link_map.measure(4096, 2, torch.device("cpu"))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_all_links_are_measured_and_all_ranks_know_them(ranks, size: int) -> None:
    results = ranks(size, measured, size)
    pairs = {(i, j) for i in range(size) for j in range(size) if i != j}
    for found in results:
        assert set(found.latency) == set(found.bandwidth) == pairs
        assert found == results[0]
        assert all(value > 0 for value in (*found.latency.values(), *found.bandwidth.values()))
        assert all(found.latency[i, j] == found.latency[j, i] for i, j in pairs)


def directions() -> Links:
    """Measured by a clock that only tells who sends to whom; the one who receives knows nothing."""
    me = dist.get_rank()
    real = link_map._Meter.bandwidth
    link_map._Meter.bandwidth = lambda self, peer, sends: 10.0 * me + peer if sends else -1.0  # type: ignore[method-assign]
    try:
        return measured(0)
    finally:
        link_map._Meter.bandwidth = real  # type: ignore[method-assign]


def test_what_a_rank_has_sent_is_the_link_from_it(ranks) -> None:
    (found, *_) = ranks(4, directions)
    assert found.bandwidth == {(i, j): 10.0 * i + j for i in range(4) for j in range(4) if i != j}


def command(words: str) -> int:
    return commands.DOOR.main(["links", *words.split()])


@forks
def test_the_command_and_its_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "links.json"
    assert command(f"--ranks 3 --size 4K -n 2 --backend gloo --json {file}") == 0
    out = capfd.readouterr().out
    assert "host0 (" in out
    assert out.count("from\\to") == 2
    content = json.loads(file.read_text())
    assert (content["bytes"], content["messages"], content["environment"]["hosts"]) == (4096, 2, {"host0": 3})
    for name in ("latency_us", "bandwidth_gbs"):
        assert [[cell is None for cell in row] for row in content[name]] == [
            [i == j for j in range(3)] for i in range(3)
        ]


@forks
@pytest.mark.parametrize(("asked", "status"), [("", 0), ("--min-of-median 0.8", 2), ("--min-of-median 0.3", 0)])
def test_a_slow_link_fails_only_if_that_is_asked_for(
    asked: str, status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    slow = Links(dict.fromkeys(grid(4, 1.0), 1e-06), grid(4, 100.0) | {(2, 1): 50.0})
    monkeypatch.setattr(link_map, "measure", lambda *args: slow)  # reaches the ranks, which are forked
    assert command(f"--ranks 4 --backend gloo {asked}") == status
    out = capfd.readouterr().out
    assert "# odd: bandwidth from rank 2 to rank 1" in out
    assert ("FAILED" in out) == (status == 2)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("--ranks 1", "--ranks 1: a link has two ends"),
        ("--min-of-median 80", "--min-of-median 80"),
        ("--ranks 2 -n 0", "-n/--messages 0"),
        ("--ranks 2 --size 0", "--size 0"),
        ("--ranks 2 --timeout 0", "--timeout 0"),
        ("--ranks 2 --json no/such/x.json", "does not exist"),
        ("--ranks 2 --plot x.gif", ".svg"),
        ("--ranks 99 --backend nccl", "ranks on this host: 99, GPUs that torch sees: 0"),
    ],
)
def test_wrong_arguments(argv: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(argv) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
