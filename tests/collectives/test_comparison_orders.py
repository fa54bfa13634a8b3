"""In what order and groups the ranks of a benchmark stand, in how many channels, and the wire that goes round so."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import collectives
from collectives.bench import wire
from collectives.bench.division import groups_of
from collectives.bench.entrants import in_channels
from collectives.bench.order import Seat, orders_here, orders_over_interfaces, parse_order
from collectives.combinators import ordered
from collectives.registry import arranged, find

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


# Groups, orders and channels.


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
