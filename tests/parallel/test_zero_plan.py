"""Who owns which slice, and what is sent when: no torch, no ranks."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from parallel.zero.partition import Partition, padding
from parallel.zero.plan import Cursor, backward, forward


def line(tasks):
    return " ".join({"gather": "G", "run": "X", "reduce": "R"}[task.kind] + str(task.layer) for task in tasks)


def test_the_plan_is_the_drawing():
    assert line(forward(3, 1, True)) == "G0 G1 X0 G2 X1 G3 X2 X3"
    assert line(backward(3, 1, True, True)) == "G0 G3 X0 G2 X3 R3 G1 X2 R2 X1 R1 R0"
    assert line(backward(3, 0, True, True)) == "G0 X0 G3 X3 R3 G2 X2 R2 G1 X1 R1 R0"
    assert line(backward(3, 1, False, True)) == "X0 X3 R3 X2 R2 X1 R1 R0"
    assert line(backward(2, 5, True, False)) == "G0 G2 G1 X0 X2 X1"
    assert line(backward(0, 1, True, True)) == "G0 X0 R0"


@given(st.integers(0, 6), st.integers(0, 8), st.data())
def test_every_rank_sends_the_same_whatever_it_skips(layers, prefetch, data):
    """A rank that runs only some layers, in order, sends the very same sequence."""
    plan = backward(layers, prefetch, True, True)
    runs = [layer for layer in range(layers, 0, -1) if data.draw(st.booleans())]
    sent, begun = [], [0]
    cursor = Cursor(plan, sent.append, lambda layer: layer != 0 and layer != begun[0])
    for layer in [0, *runs]:
        begun[0] = layer
        cursor.reach(layer)
        needed = [task.layer for task in sent if task.kind == "gather"]
        assert layer in needed  # before it runs
        begun[0] = 0
        cursor.go_on()
    cursor.finish()
    assert sent == [task for task in plan if task.kind != "run"]


def test_what_is_not_ready_waits_for_the_end():
    """Layer 1 runs before 2 (it is called once more later): the reduction of 2 must not leave without its gradients."""
    sent, done = [], set()
    cursor = Cursor(backward(2, 0, True, True), sent.append, done.__contains__)
    cursor.reach(0)
    cursor.reach(1)
    assert line(sent) == "G0 G2 G1"
    cursor.reach(2)
    done |= {0, 1, 2}
    cursor.go_on()
    cursor.finish()
    assert line(sent) == "G0 G2 G1 R1 R0 R2"


def test_the_three_by_three_example():
    """The paper's figure: three layers of three parameters on three ranks; each rank owns one of every layer."""
    assert [Partition((1, 1, 1), 3).within(rank) for rank in range(3)] == [
        [(0, 1), (0, 0), (0, 0)],
        [(0, 0), (0, 1), (0, 0)],
        [(0, 0), (0, 0), (0, 1)],
    ]


def test_uneven_sizes():
    """57 on two ranks: 29 and 28 with one of padding; three on eight: five ranks have padding only."""
    assert Partition((48, 9), 2).pieces(0) == [(0, 29), (29, 29)]
    assert Partition((48, 9), 2).pieces(1) == [(0, 19), (19, 28)]
    assert (Partition((48, 9), 2).length, padding([(48, 9)], 2)) == (29, 1)
    assert [Partition((3,), 8).within(rank) for rank in range(8)] == [[(0, 1)], [(1, 2)], [(2, 3)]] + [[(0, 0)]] * 5


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 9))
def test_every_element_has_one_owner(sizes, ranks):
    partition = Partition(tuple(sizes), ranks)
    assert 0 <= partition.padded - sum(sizes) < ranks
    for index, size in enumerate(sizes):
        spans = [partition.within(rank)[index] for rank in range(ranks)]
        assert [element for low, high in spans for element in range(low, high)] == list(range(size))
        pieces = [partition.pieces(rank)[index] for rank in range(ranks)]
        assert [high - low for low, high in spans] == [high - low for low, high in pieces]


def test_the_simulator_needs_no_torch_for_it():
    code = "import parallel.zero.plan, parallel.zero.partition, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
