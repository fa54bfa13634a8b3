"""Every collective and algorithm on real ranks, in worlds and groups of any size, at once and in the background."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives.contract import CONTRACTS
from tests.collectives.computed import SIZES, algorithm_names, check_on_rank, given, inputs, run_collective

WORLDS = [1, 2, 3, 4, 5]
CASES = [(s, a) for s in CONTRACTS for a in algorithm_names(s)]


@pytest.mark.parametrize("size", WORLDS)
@pytest.mark.parametrize(("collective", "algorithm"), CASES)
def test_every_algorithm(ranks, size, collective, algorithm):
    roots = [0, 1, 4] if CONTRACTS[collective].rooted else [0]
    ranks(size, check_on_rank, collective, algorithm, SIZES, roots)


@pytest.mark.parametrize("size", [6, 7, 8, 9])
def test_larger_worlds(ranks, size):
    ranks(size, larger_worlds)


def larger_worlds():
    for algorithm in algorithm_names("all_reduce"):
        check_on_rank("all_reduce", algorithm, [3, 101], [0])
    for collective in ("reduce_scatter", "all_gather", "all_to_all", "broadcast", "gather"):
        check_on_rank(collective, "auto", [5], [0, 4])


@pytest.mark.parametrize(
    "algorithm", ["ring:channels=3", "double_tree:chunks=5", "double_tree:channels=2", "hierarchical:local=2"]
)
def test_options(ranks, algorithm):
    ranks(4, check_on_rank, "all_reduce", algorithm, SIZES, [0])


def test_rings_of_any_order(ranks):
    ranks(5, any_order)


def any_order():
    schedule = C.rings([[0, 2, 4, 1, 3], [4, 3, 2, 1, 0]])
    check_on_rank("all_reduce", schedule, SIZES, [0])
    check_on_rank("all_gather", C.rings([[0, 2, 4, 1, 3]], "all_gather"), SIZES, [0])
    check_on_rank("reduce_scatter", C.rings([[3, 2, 4, 1, 0]], "reduce_scatter"), SIZES, [0])


# Groups.


@pytest.mark.parametrize("members", [[1], [3, 1], [4, 0, 2], [2, 3, 1, 0]])
def test_subgroups_and_roots_by_both_numberings(ranks, members):
    ranks(5, subgroup, members)


def subgroup(members):
    group = dist.new_group(members)
    me, members = (
        dist.get_rank(),
        dist.get_process_group_ranks(group) if group is not dist.GroupMember.NON_GROUP_MEMBER else [],
    )
    if me not in members:
        with pytest.raises(ValueError, match="not a member"):
            C.all_reduce(torch.ones(3), group=group)
        return
    rank, size = members.index(me), len(members)
    for collective in CONTRACTS:
        for root in range(size):
            for name, got, wanted in run_collective(collective, rank, size, 7, "auto", root, group):
                assert torch.equal(got, wanted), (collective, name, root)
    for root, global_root in enumerate(members):
        x = torch.full((3,), float(me))
        C.broadcast(x, global_root, group)
        assert x.tolist() == [global_root] * 3
        out = [torch.empty(1) for _ in members] if rank == root else None
        C.gather(torch.tensor([float(me)]), out, dst=global_root, group=group)
        assert out is None or torch.cat(out).tolist() == members
    outsider = next(r for r in range(5) if r not in members)
    with pytest.raises(ValueError, match=f"src={outsider} is not in the group"):
        C.broadcast(torch.ones(1), outsider, group)


# In the background.


def test_first_calls_in_the_background(ranks):
    from collectives import launch

    launch.run(first_in_background, 2)


def first_in_background():
    x, m = torch.ones(3), torch.full((1,), 7.0)
    if dist.get_rank() == 0:
        work = C.all_reduce(x, async_op=True)
        dist.send(m, 1)
        work.wait()
    else:
        work = C.all_reduce(x, async_op=True)
        m.zero_()
        dist.recv(m, 0)
        work.wait()
    assert (x.tolist(), m.item()) == ([2, 2, 2], 7)
    a, b = torch.ones(10), torch.ones(10)
    for _ in range(20):
        work = C.all_reduce(a, algorithm="ring", async_op=True, check=True)
        C.all_reduce(b, check=True)
        work.wait()


@pytest.mark.parametrize("size", [2, 4])
def test_asynchronous_operations_keep_apart(ranks, size):
    ranks(size, asynchronous)


def asynchronous():
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [given(rank, 100 + i) for i in range(20)]
    works = [
        C.all_reduce(x, async_op=True, algorithm=("ring", "direct", "double_tree")[i % 3])
        for i, x in enumerate(tensors)
    ]
    mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
    own = [dist.isend(mine, (rank + 1) % size), dist.irecv(theirs, (rank - 1) % size)]  # the user's own, in between
    big = given(rank, 300_000)
    C.all_reduce(big)  # synchronous, behind the others
    assert torch.equal(big, sum(inputs(size, 300_000)))
    for work in own:
        work.wait()
    assert theirs.tolist() == [(rank - 1) % size] * 4
    for i, (work, x) in enumerate(zip(works, tensors, strict=True)):
        assert work.wait()
        assert work.is_completed()
        assert work.exception() is None
        assert torch.equal(x, sum(inputs(size, 100 + i)))
    for _ in range(2):
        assert works[0].wait()  # again, at once


def test_two_groups_side_by_side(ranks):
    ranks(3, two_groups)


def two_groups():
    other = dist.new_group([0, 1, 2])
    a, b = given(dist.get_rank(), 50_000), given(dist.get_rank(), 70_000)
    works = [C.all_reduce(a, async_op=True), C.all_reduce(b, group=other, async_op=True)]
    for work in reversed(works):
        work.wait()
    assert torch.equal(a, sum(inputs(3, 50_000)))
    assert torch.equal(b, sum(inputs(3, 70_000)))


# Choosing.


def test_choose_is_the_same_everywhere_and_is_what_auto_runs(ranks):
    chosen = ranks(4, chosen_names)
    assert len({tuple(names) for names in chosen}) == 1
    assert chosen[0][0] == "recursive_doubling"
    assert chosen[0][-1] == "ring:channels=16"


def chosen_names():
    names = [C.choose("all_reduce", nbytes) for nbytes in (1024, 1 << 18, 1 << 22, 1 << 26)]
    for collective in CONTRACTS:
        assert C.find(collective, C.choose(collective, 4096))
    with pytest.raises(ValueError, match="nbytes"):
        C.choose("all_reduce", -1)
    return names


def test_a_users_schedule_runs_everywhere(ranks, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from collectives import Reduce, Send\n"
        "def swap(rank, size):\n"
        "    others = [r for r in range(size) if r != rank]\n"
        "    yield *(Send(0, to=r) for r in others), *(Reduce(0, source=r) for r in others)\n"
        "from collectives import Schedule\n"
        "one_shot = Schedule('all_reduce', swap, chunks=1, name='one_shot')\n"
    )
    ranks(3, check_on_rank, "all_reduce", f"{file}:one_shot", SIZES, [0])


def test_a_wrong_schedule_is_refused_before_anything_is_sent(ranks):
    ranks(2, wrong_schedule)


def wrong_schedule():
    def program(rank, size):
        yield C.Reduce(0, source=1 - rank)
        yield C.Send(0, to=1 - rank)

    x = torch.ones(3)
    with pytest.raises(C.ScheduleError, match="both receive first"):
        C.all_reduce(x, algorithm=C.Schedule("all_reduce", program, chunks=1))
    C.all_reduce(x)  # the group is as good as before
    assert x.tolist() == [2, 2, 2]
