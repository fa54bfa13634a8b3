"""The grouped way of running: its logic on gloo anywhere, and the real thing where there are GPUs."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives import launch
from collectives.call import Prepared
from collectives.compiler import compile_plan
from collectives.executor import finish, run_grouped
from collectives.grouped import unbound
from collectives.layout import in_place

GPUS = torch.cuda.device_count()
needs_gpus = pytest.mark.skipif(GPUS < 2, reason=f"needs 2 GPUs, one a rank; this machine has {GPUS}")


@pytest.mark.parametrize("name", ["ring", "ring:channels=3", "recursive_doubling", "halving_doubling", "direct"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_grouped_batches_give_the_right_sum(ranks, size, name):
    ranks(size, grouped, name)


def grouped(name):
    rank, size = dist.get_rank(), dist.get_world_size()
    schedule = C.find("all_reduce", name)
    groups = [dist.new_group(list(range(size))) for _ in range(schedule.channels)]
    for length in (1, 10, 1000):
        x = torch.arange(length) + 1000.0 * rank
        plan = compile_plan(schedule, rank, size, in_place(length), ahead=0, together=False)
        regions = Prepared(name, plan, []).regions([x], torch.empty(plan.scratch))
        run_grouped(groups, plan, regions, [torch.add] * schedule.channels, [])
        finish(plan, regions)
        assert torch.equal(x, sum(torch.arange(length) + 1000.0 * r for r in range(size)))


def test_a_channel_of_some_ranks_needs_no_others(ranks):
    """torch must not split it off the default group, which is what it does where that has a device."""
    ranks(2, forgets_its_device)


def forgets_its_device():
    world, device = dist.group.WORLD, torch.device("cuda", 0)
    world.bound_device_id = device
    try:
        with unbound():
            assert world.bound_device_id is None
        assert world.bound_device_id == device
    finally:
        world.bound_device_id = None


@pytest.mark.gpu
@needs_gpus
def test_nccl_in_a_part_of_the_ranks():
    launch.run(in_a_part, 2, backend="nccl")


def in_a_part():
    groups = [dist.new_group([rank]) for rank in range(2)] + [dist.new_group([0, 1])]
    if dist.get_rank() == 0:  # the other does nothing with its own
        x = torch.ones(5, device="cuda")
        C.all_gather_into_tensor(torch.empty(5, device="cuda"), x, groups[0])
    y = torch.full((5,), dist.get_rank() + 1.0, device="cuda")
    C.all_reduce(y, group=groups[2], algorithm="ring:channels=2")
    assert y.tolist() == [3] * 5


@pytest.mark.gpu
@needs_gpus
@pytest.mark.parametrize("name", ["ring", "ring:channels=2", "recursive_doubling", "direct", "auto"])
def test_nccl_sums(name):
    launch.run(nccl_sums, min(GPUS, 4), name, backend="nccl")


def nccl_sums(name):
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for length in (0, 1, 10, 1_000_003):
            x = (torch.arange(length, device="cuda") % 50 + rank).to(dtype)
            wanted = sum((torch.arange(length, device="cuda") % 50 + r).to(dtype) for r in range(size))
            C.all_reduce(x, algorithm=name)
            assert torch.equal(x, wanted)
    work = C.all_reduce(x, algorithm=name, async_op=True)
    work.wait()
    assert torch.equal(x, wanted * size)


@pytest.mark.gpu
@needs_gpus
def test_nccl_moves():
    launch.run(nccl_moves, 2, backend="nccl")


def nccl_moves():
    rank = dist.get_rank()
    out = torch.empty(6, device="cuda")
    C.all_gather_into_tensor(out, torch.arange(3.0, device="cuda") + 10 * rank)
    assert out.tolist() == [0, 1, 2, 10, 11, 12]
    x = torch.full((5,), float(rank), device="cuda")
    C.broadcast(x, 1)
    assert x.tolist() == [1] * 5
    C.barrier()
    with pytest.raises(ValueError, match="moves cuda tensors"):
        C.all_reduce(torch.ones(3))
