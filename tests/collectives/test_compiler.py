"""Plans: what they may not write, how little they hold, and that they mean what the schedule means."""

from __future__ import annotations

import itertools
import sys
import threading

import pytest
import torch

from collectives import Recv, Schedule, Send, find, prove
from collectives.combinators import rooted
from collectives.compiler import compile_plan
from collectives.contract import CONTRACTS
from collectives.layout import SCRATCH, Layout, Region, cut, flat, in_place, only
from collectives.registry import BUILT_IN, algorithms
from collectives.shelf import Shelf

ALGORITHMS = [s for s in algorithms() if s.name in BUILT_IN and s.collective != "barrier"]


def layout_of(collective: str, rank: int, size: int, length: int) -> Layout:
    """The layout that the public functions make, with the input in tensor 0 and the output in tensor 1."""
    lengths = (length,) * size
    mine, blocks = Region(0, 0, length), flat(0, lengths)
    outputs = flat(1, lengths)
    nothing = (None,) * size
    return {
        "all_reduce": in_place(length),
        "reduce": in_place(length, writes=rank == 0),
        "broadcast": in_place(length, reads=rank == 0),
        "all_gather": Layout(lengths, only(rank, mine, size), outputs),
        "gather": Layout(lengths, only(rank, mine, size), outputs if rank == 0 else nothing),
        "reduce_scatter": Layout(lengths, blocks, only(rank, Region(1, 0, length), size)),
        "scatter": Layout(lengths, blocks if rank == 0 else nothing, only(rank, Region(1, 0, length), size)),
        "all_to_all": Layout(lengths, blocks, outputs),
    }[collective]


@pytest.mark.parametrize("schedule", ALGORITHMS, ids=repr)
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_inputs_are_never_written(schedule, size):
    for rank in range(size):
        plan = compile_plan(schedule, rank, size, layout_of(schedule.collective, rank, size, 1000))
        written = {n for team in plan.teams for turn in team for _, n, _, _ in turn.posts}
        for team in plan.teams:
            for turn in team:
                written |= {step[0] for step in [*turn.copies, *turn.early, *turn.late, *turn.unpack]}
        written |= {to for to, _ in plan.finish}
        writable = {SCRATCH, 1}
        if schedule.collective in ("all_reduce", "broadcast") or (schedule.collective == "reduce" and rank == 0):
            writable = {SCRATCH, 0}
        assert {plan.regions[n].tensor for n in written} <= writable


@pytest.mark.parametrize("ahead", [0, 1, 3])
@pytest.mark.parametrize("schedule", ALGORITHMS, ids=repr)
def test_every_receive_and_send_is_waited_for_once_and_in_order(schedule, ahead):
    for rank, channels in itertools.product(range(5), (1, 3)):
        split = schedule.with_options(channels=channels)
        plan = compile_plan(split, rank, 5, layout_of(schedule.collective, rank, 5, 100), ahead)
        for team in plan.teams:
            posted, waited, order = [], [], {}
            for turn in team:
                for slot, _, peer, channel in turn.posts:
                    posted.append(slot)
                    order.setdefault((peer, channel), []).append(slot)
                posted += [slot for slot, *_ in turn.sends]
                waited += [slot for slot, _ in turn.awaits + turn.leaves]
                assert set(waited) <= set(posted)
            assert sorted(posted) == sorted(waited) == sorted(set(posted))
            for slots in order.values():  # a transport matches receives in the order of their posting
                assert [s for s in waited if s in slots] == slots


@pytest.mark.parametrize(
    ("name", "collective", "chunks_held"),
    [
        ("ring", "all_reduce", 2),  # the chunk that arrives, and the one posted ahead
        ("ring", "all_gather", 0),  # everything arrives where it belongs
        ("ring", "reduce_scatter", 3),
        ("direct", "all_gather", 0),
        ("direct", "all_to_all", 0),
        ("binomial", "broadcast", 0),
    ],
)
def test_only_what_is_needed_is_allocated(name, collective, chunks_held):
    size, length = 8, 8 * 640
    for rank in range(size):
        block = length if collective in ("all_reduce", "broadcast") else length // size
        plan = compile_plan(find(collective, name), rank, size, layout_of(collective, rank, size, block))
        assert plan.scratch <= chunks_held * length // size


def test_a_team_shares_its_scratch():
    plan = compile_plan(find("all_reduce", "ring:channels=16"), 0, 4, in_place(1 << 20), ahead=1, lockstep=True)
    assert plan.scratch <= 3 * (1 << 20) // 64
    assert len(plan.teams) == 1
    apart = compile_plan(find("all_reduce", "ring:channels=16"), 0, 4, in_place(1 << 20), ahead=0, together=False)
    assert len(apart.teams) == 16
    assert len(compile_plan(find("all_reduce", "double_tree:channels=2"), 0, 4, in_place(64)).teams) == 2


def test_messages_to_oneself_do_not_travel():
    plan = compile_plan(find("all_to_all", "direct"), 1, 3, layout_of("all_to_all", 1, 3, 5))
    peers = {peer for turn in plan.teams[0] for _, _, peer, _ in turn.sends + turn.posts}
    assert peers == {0, 2}


def test_empty_messages_do_not_travel():
    plan = compile_plan(find("all_reduce", "ring"), 0, 5, in_place(3))
    lengths = [plan.regions[n].length for turn in plan.teams[0] for _, n, _, _ in turn.sends]
    assert lengths == [1, 1, 1, 1]  # chunks 2 and 1, then 0 and 2; chunks 3 and 4 are empty


@pytest.mark.parametrize("length", [0, 1, 7, 100])
def test_cut_covers_everything_once(length):
    for parts in (1, 2, 3, 7, 8):
        pieces = [cut(length, parts, i) for i in range(parts)]
        assert [offset for offset, _ in pieces] == list(itertools.accumulate([n for _, n in pieces], initial=0))[:-1]
        assert sum(n for _, n in pieces) == length
        assert max(n for _, n in pieces) - min(n for _, n in pieces) <= 1


def interpret(schedule, size, length, ahead, together, lockstep=False):
    """Run all ranks' plans in one process, each message as soon as both ends are posted, and return the tensors."""
    plans = [
        compile_plan(schedule, r, size, layout_of(schedule.collective, r, size, length), ahead, together, lockstep)
        for r in range(size)
    ]
    whole = length * size if CONTRACTS[schedule.collective].blocks else length
    tensors = [
        {0: torch.arange(whole, dtype=torch.float64) + 1000 * r, 1: torch.full((whole,), -1.0, dtype=torch.float64)}
        for r in range(size)
    ]
    for r, plan in enumerate(plans):
        tensors[r][SCRATCH] = torch.full((plan.scratch,), float("nan"), dtype=torch.float64)

    def region(rank, number):
        tensor, offset, count = plans[rank].regions[number]
        return tensors[rank][tensor][offset : offset + count]

    ends = {}

    def thread(rank, team):
        slots = {}
        for turn in team:
            for slot, number, source, channel in turn.posts:
                slots[slot] = end = {"number": number, "done": False, "rank": rank}
                ends.setdefault((source, rank, channel, "in"), []).append(end)
            for to, source in turn.copies:
                region(rank, to).copy_(region(rank, source))
            for slot, number, to, channel in turn.sends:
                slots[slot] = end = {"number": number, "done": False, "rank": rank}
                ends.setdefault((rank, to, channel, "out"), []).append(end)
            for steps, folds in ((turn.awaits, turn.early), (turn.leaves, turn.late)):
                for slot, _ in steps:
                    while not slots[slot]["done"]:
                        yield
                for out, left, right in folds:
                    torch.add(region(rank, left), region(rank, right), out=region(rank, out))
            for to, source in turn.unpack:
                region(rank, to).copy_(region(rank, source))

    threads = [thread(r, team) for r, plan in enumerate(plans) for team in plan.teams]
    for _ in range(10_000):
        threads = [t for t in threads if next(t, "over") != "over"]
        for (source, to, channel, way), outs in ends.items():
            ins = ends.get((source, to, channel, "in"), [])
            if way == "out":
                for out, into in zip(outs, ins, strict=False):
                    if not out["done"]:
                        region(to, into["number"]).copy_(region(source, out["number"]))
                        out["done"] = into["done"] = True
        if not threads:
            break
    assert not threads, "a deadlock"
    for r, plan in enumerate(plans):
        for to, source in plan.finish:
            region(r, to).copy_(region(r, source))
    return tensors


@pytest.mark.parametrize("schedule", [s for s in ALGORITHMS if s.collective == "all_reduce"], ids=repr)
@pytest.mark.parametrize(("ahead", "together", "channels"), [(0, True, 1), (1, True, 3), (4, True, 2), (0, False, 2)])
def test_plans_mean_what_schedules_mean(schedule, ahead, together, channels):
    for size in (2, 3, 4, 6):
        lockstep = prove(schedule, size).lockstep
        tensors = interpret(schedule.with_options(channels=channels), size, 23, ahead, together, lockstep)
        wanted = sum(torch.arange(23, dtype=torch.float64) + 1000 * r for r in range(size))
        assert all(torch.equal(t[0], wanted) for t in tensors)


@pytest.mark.parametrize("name", ["ring", "direct", "halving_doubling", "hierarchical", "naive"])
def test_reduce_scatter_plans_keep_inputs_and_scratch_apart(name):
    for size in (2, 3, 4, 6):
        tensors = interpret(find("reduce_scatter", name).with_options(channels=2), size, 5, 1, True)
        total = sum(torch.arange(5 * size, dtype=torch.float64) + 1000 * r for r in range(size))
        for rank in range(size):
            assert torch.equal(tensors[rank][1][:5], total[5 * rank : 5 * rank + 5])
            assert torch.equal(tensors[rank][0], torch.arange(5 * size, dtype=torch.float64) + 1000 * rank)


@pytest.mark.parametrize("channels", [1, 3, 4, 8])
def test_channels_in_turns_do_not_deadlock_where_steps_of_different_numbers_meet(channels):
    def program(rank, size):
        if rank == 0:
            yield Send(0, to=1)
            yield Recv(1, source=1)
        else:
            yield Send(1, to=0), Recv(0, source=0)

    schedule = Schedule("all_gather", program, name="lopsided").with_options(channels=channels)
    assert not prove(schedule, 2).lockstep
    tensors = interpret(schedule, 2, 24, 1, True)
    assert all(t[1][:24].tolist() == list(range(24)) for t in tensors)
    assert all(t[1][24:].tolist() == list(range(1000, 1024)) for t in tensors)


@pytest.mark.parametrize(("name", "lockstep"), [("ring", True), ("halving_doubling", True), ("double_tree", False)])
def test_lockstep(name, lockstep):
    assert prove(find("all_reduce", name), 8).lockstep is lockstep


def test_a_schedule_that_brings_nothing_is_refused():
    with pytest.raises(ValueError, match="before anything is in it"):
        compile_plan(Schedule("broadcast", lambda rank, size: [], 1), 1, 2, in_place(4, reads=False))


def test_roots_keep_channels_of_one_program_together():
    assert len(compile_plan(rooted(find("broadcast", "chain:channels=3"), 2, 4), 1, 4, in_place(64)).teams) == 1


def test_scratch_grows_while_another_thread_prepares():
    """The caller prepares its next call while the worker runs the last one."""
    shelf, errors = Shelf(0, 0, 2, streaming=True), []

    def prepare():
        for length in range(1, 3000):
            shelf.prepare("all_reduce", "ring", 0, in_place(length), torch.float32)

    other = threading.Thread(target=prepare)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        other.start()
        elements = 1024
        while other.is_alive():
            elements += 1
            shelf.scratch(torch.empty(0), elements)
    except RuntimeError as error:
        errors.append(error)
    finally:
        sys.setswitchinterval(before)
        other.join()
    assert not errors
