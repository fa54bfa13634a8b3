"""Backend ``ring``: every call of ``torch.distributed``, by its newer and older names, beside one process's answer."""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed.distributed_c10d import AllgatherOptions, AllToAllOptions, ReduceScatterOptions

import collectives as C
import collectives.torch_backend
from collectives import launch
from collectives.communicator import communicator

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("dynamo")]

WORLDS = [1, 2, 3, 4]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8]


def mine(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Distinct by rank and position, and small enough to be added up without rounding in every dtype."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 3 + 7 * rank) % 11 + rank).to(dtype).view(shape)


def everyone(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [mine(rank, *shape, dtype=dtype) for rank in range(dist.get_world_size())]


# Every collective of torch.distributed.


def reduced(tensors: list[torch.Tensor], op: ReduceOp) -> torch.Tensor:
    stack = torch.stack(tensors)
    if op == ReduceOp.AVG:
        return (stack.sum(0) / len(tensors)).to(stack.dtype)
    kinds = {ReduceOp.SUM: torch.sum, ReduceOp.PRODUCT: torch.prod, ReduceOp.MIN: torch.amin, ReduceOp.MAX: torch.amax}
    return kinds[op](stack, dim=0).to(stack.dtype)


@pytest.mark.parametrize("world", WORLDS)
def test_all_reduce_and_reduce(ring_ranks, world):
    ring_ranks(world, reduces)


def reduces():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        for shape in [(), (1,), (13,), (3, 5), (0,)]:
            for op in [ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT]:
                want = reduced(everyone(*shape, dtype=dtype), op)
                x = mine(rank, *shape, dtype=dtype)
                dist.all_reduce(x, op)
                assert torch.equal(x, want), (dtype, shape, op)
                x = mine(rank, *shape, dtype=dtype)
                dist.reduce(x, size - 1, op)
                assert torch.equal(x, want if rank == size - 1 else mine(rank, *shape, dtype=dtype))
    for dtype in (torch.float32, torch.float16):
        x = mine(rank, 17, dtype=dtype)
        dist.all_reduce(x, ReduceOp.AVG)
        torch.testing.assert_close(x, reduced(everyone(17, dtype=dtype), ReduceOp.AVG))
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, False, True]
    turned = torch.view_as_complex(mine(rank, 4, 2))
    dist.all_reduce(turned)
    assert torch.equal(torch.view_as_real(turned), sum(everyone(4, 2)))


@pytest.mark.parametrize("world", WORLDS)
def test_collectives_that_move(ring_ranks, world):
    ring_ranks(world, moves)


def moves():
    rank, size = dist.get_rank(), dist.get_world_size()
    last = size - 1
    for dtype in [*DTYPES, torch.bool, torch.complex64]:
        for shape in [(), (13,), (3, 5), (0,)]:
            x, all_of_them = mine(rank, *shape, dtype=dtype), everyone(*shape, dtype=dtype)
            y = x.clone()
            dist.broadcast(y, last)
            assert torch.equal(y, all_of_them[last])
            outs = [torch.zeros_like(x) for _ in range(size)]
            dist.all_gather(outs, x)
            assert equal(outs, all_of_them), (dtype, shape)
            outs = [torch.zeros_like(x) for _ in range(size)]
            dist.gather(x, outs if rank == last else None, last)
            assert equal(outs, all_of_them if rank == last else [torch.zeros_like(x)] * size)
            out = torch.zeros_like(x)
            dist.scatter(out, [t + t for t in all_of_them] if rank == last else None, last)
            assert torch.equal(out, all_of_them[rank] + all_of_them[rank])
    blocks = everyone(4 * size, 3)
    out = torch.zeros(4 * size * size, 3)
    dist.all_gather_into_tensor(out, blocks[rank])
    assert torch.equal(out, torch.cat(blocks))
    stacked = torch.zeros(size, 4 * size, 3)
    dist.all_gather_into_tensor(stacked, blocks[rank])
    assert torch.equal(stacked, torch.stack(blocks))
    out = torch.zeros(4 * size, 3)
    dist.all_to_all_single(out, blocks[rank])
    assert torch.equal(out, torch.cat([b[4 * rank : 4 * rank + 4] for b in blocks]))
    dist.barrier()


def equal(ours, wanted) -> bool:
    return len(ours) == len(wanted) and all(torch.equal(a, b) for a, b in zip(ours, wanted, strict=True))


@pytest.mark.parametrize("world", WORLDS)
def test_reduce_scatter_and_uneven_blocks(ring_ranks, world):
    ring_ranks(world, uneven)


def uneven():
    rank, size = dist.get_rank(), dist.get_world_size()
    for op in [ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX]:
        out = torch.zeros(7, 3)
        inputs = everyone(7 * size, 3)
        dist.reduce_scatter_tensor(out, inputs[rank], op)
        torch.testing.assert_close(out, reduced(inputs, op)[7 * rank : 7 * rank + 7])
        assert torch.equal(inputs[rank], mine(rank, 7 * size, 3))  # an input stays as it is
        out = torch.zeros(rank + 1)
        lists = [[mine(10 * r + b, b + 1) for b in range(size)] for r in range(size)]
        dist.reduce_scatter(out, lists[rank], op)
        torch.testing.assert_close(out, reduced([blocks[rank] for blocks in lists], op))
    amount = [[(3 * i + j) % 4 for j in range(size)] for i in range(size)]
    rows = [mine(r, sum(amount[r]), 2) for r in range(size)]
    cut = [r.split(a) for r, a in zip(rows, amount, strict=True)]
    wanted = [cut[i][rank] for i in range(size)]
    takes = [a[rank] for a in amount]
    out = torch.zeros(sum(takes), 2)
    dist.all_to_all_single(out, rows[rank], takes, amount[rank])
    assert torch.equal(out, torch.cat(wanted))
    outs = [torch.zeros(n, 2) for n in takes]
    dist.all_to_all(outs, [b.clone() for b in cut[rank]])
    assert equal(outs, wanted)


@pytest.mark.parametrize("world", WORLDS)
def test_sparse_all_reduce(ring_ranks, world):
    ring_ranks(world, sparse)


def sparse():
    """Rows that meet and rows that do not, a row twice, and ranks that have none."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def of(r: int) -> torch.Tensor:
        rows = [r, 5, 5][: 0 if r == 2 else 3]
        return torch.sparse_coo_tensor(torch.tensor([rows], dtype=torch.int64), mine(r, len(rows), 4), (7, 4))

    want = sum(of(r).to_dense() for r in range(size))
    for asynchronous in (False, True):
        x = of(rank)
        work = dist.all_reduce(x, async_op=asynchronous)
        if asynchronous:
            later = torch.ones(3)
            dist.all_reduce(later)
            assert later.tolist() == [size] * 3
            assert work.get_future().wait()[0] is x
            work.wait()
        assert torch.equal(x.to_dense(), want)
    nothing = torch.sparse_coo_tensor(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), (3, 3))
    dist.all_reduce(nothing)
    assert nothing.to_dense().eq(0).all()


@pytest.mark.parametrize("world", [2, 3])
def test_tensors_that_are_not_contiguous(ring_ranks, world):
    ring_ranks(world, not_contiguous)


def not_contiguous():
    """gloo takes the memory of such a tensor as it lies, and answers with something else."""
    rank, size = dist.get_rank(), dist.get_world_size()
    column = mine(rank, 4, 3)[:, 1]
    dist.all_reduce(column)
    assert torch.equal(column, sum(t[:, 1] for t in everyone(4, 3)))
    turned = mine(rank, 3, 5).t()
    dist.broadcast(turned, 1)
    assert torch.equal(turned, mine(1, 3, 5).t())
    out = torch.zeros(3, 2 * size).t()
    dist.all_gather_into_tensor(out, mine(rank, 3, 2).t())
    assert torch.equal(out, torch.cat([t.t() for t in everyone(3, 2)]))
    part = torch.zeros(6)[::2]
    dist.reduce_scatter_tensor(part, mine(rank, 6 * size)[::2])
    assert torch.equal(part, sum(t[::2] for t in everyone(6 * size))[3 * rank : 3 * rank + 3])
    if rank == 0:
        dist.send(mine(5, 4, 3)[:, 1], 1)
        dist.send(mine(6, 3, 4).t(), 1)
    if rank == 1:
        table = torch.zeros(4, 3)
        dist.recv(table[:, 1], 0)
        assert torch.equal(table[:, 1], mine(5, 4, 3)[:, 1])
        assert table[:, 0].sum() == table[:, 2].sum() == 0
        turned = torch.zeros(3, 4).t()
        dist.recv(turned, 0)
        assert torch.equal(turned, mine(6, 3, 4).t())


def test_parameters_and_inference_tensors(ring_ranks):
    ring_ranks(2, parameters)


def parameters():
    weight = torch.nn.Parameter(mine(dist.get_rank(), 5))
    dist.all_reduce(weight)
    dist.all_reduce(weight, async_op=True).wait()
    assert torch.equal(weight.detach(), 2 * sum(everyone(5)))
    with torch.inference_mode():
        x = mine(dist.get_rank(), 5)
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
    assert torch.equal(x, 2 * sum(everyone(5)))


@pytest.mark.parametrize("world", [2, 3])
def test_objects_and_what_is_issued_together(ring_ranks, world):
    ring_ranks(world, together)


def together():
    rank, size = dist.get_rank(), dist.get_world_size()
    said = [None] * size
    dist.all_gather_object(said, {"rank": rank, "words": "x" * (1 + 1000 * rank)})
    assert [s["rank"] for s in said] == list(range(size))
    values = [rank, "of rank", rank]
    dist.broadcast_object_list(values, 1)
    assert values == [1, "of rank", 1]
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert got == [f"for {rank}"]
    a, b = mine(rank, 5), mine(rank, 2, 3)
    with dist._coalescing_manager():
        dist.all_reduce(a)
        dist.all_reduce(b)
    assert equal([a, b], [sum(everyone(5)), sum(everyone(2, 3))])
    outs = [torch.zeros(5 * size), torch.zeros(2 * size, 3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_gather_into_tensor(outs[0], mine(rank, 5))
        dist.all_gather_into_tensor(outs[1], mine(rank, 2, 3))
    manager.wait()
    assert equal(outs, [torch.cat(everyone(5)), torch.cat(everyone(2, 3))])
    parts = [torch.zeros(2), torch.zeros(3)]
    with dist._coalescing_manager():
        dist.reduce_scatter_tensor(parts[0], mine(rank, 2 * size))
        dist.reduce_scatter_tensor(parts[1], mine(rank, 3 * size))
    assert equal(parts, [sum(everyone(n * size))[n * rank : n * rank + n] for n in (2, 3)])


def test_every_older_name(ring_ranks):
    ring_ranks(2, older_names)


def older_names():
    """Torch before 2.13 calls a group by these; some callers call no other."""
    group, rank, size = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    gathered, scattered, swapped = torch.zeros(3 * size), torch.zeros(3), torch.zeros(2 * size)
    group._allgather_base(gathered, mine(rank, 3), AllgatherOptions()).wait()
    assert torch.equal(gathered, torch.cat(everyone(3)))
    group.allgather_into_tensor_coalesced([gathered.zero_()], [mine(rank, 3)]).wait()
    assert torch.equal(gathered, torch.cat(everyone(3)))
    group._reduce_scatter_base(scattered, mine(rank, 3 * size), ReduceScatterOptions()).wait()
    assert torch.equal(scattered, sum(everyone(3 * size))[3 * rank : 3 * rank + 3])
    group.reduce_scatter_tensor_coalesced([scattered.zero_()], [mine(rank, 3 * size)]).wait()
    assert torch.equal(scattered, sum(everyone(3 * size))[3 * rank : 3 * rank + 3])
    group.alltoall_base(swapped, mine(rank, 2 * size), [], [], AllToAllOptions()).wait()
    assert torch.equal(swapped, torch.cat([t[2 * rank : 2 * rank + 2] for t in everyone(2 * size)]))
    lists = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [mine(rank, 2), mine(rank, 3)])
    assert all(equal(lists[r], [mine(r, 2), mine(r, 3)]) for r in range(size))


# Groups and names.


def test_subgroups(ring_ranks):
    ring_ranks(4, subgroups)


def subgroups():
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 2]), dist.new_group([3, 1]), dist.new_group([1, 2, 3])]
    works = []
    for group, members in zip(pairs, [[0, 2], [1, 3], [1, 2, 3]], strict=True):
        if rank in members:
            x = mine(rank, 9)
            works.append((dist.all_reduce(x, group=group, async_op=True), x, members))
            root = mine(rank, 4)
            dist.broadcast(root, members[-1], group=group)  # a global rank
            assert torch.equal(root, mine(members[-1], 4))
            assert isinstance(group, type(dist.group.WORLD))
            assert dist.get_backend(group) == "ring"
    for work, x, members in works:
        work.wait()
        assert torch.equal(x, sum(mine(r, 9) for r in members))
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    x = mine(rank, 3)
    dist.all_reduce(x, group=mesh["columns"].get_group())
    assert torch.equal(x, sum(mine(r, 3) for r in range(rank // 2 * 2, rank // 2 * 2 + 2)))
    for group in pairs:
        if group != dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
            with pytest.raises(C.CollectiveError, match="closed"):
                group.allreduce([x]).wait()
    dist.barrier()


def test_split_group_is_refused_as_on_gloo(ring_ranks, ranks):
    """Torch splits groups that are bound to an accelerator, and no other."""
    assert ring_ranks(2, split) == ranks(2, split)


def split():
    with pytest.raises(RuntimeError, match="not safe to split") as refused:
        dist.split_group(split_ranks=[[0], [1]])
    x = mine(dist.get_rank(), 3)
    dist.all_reduce(x)
    assert torch.equal(x, sum(everyone(3)))
    return str(refused.value)


def test_our_own_functions_use_the_group_as_it_is(ring_ranks):
    ring_ranks(3, our_own)


def our_own():
    x = mine(dist.get_rank(), 5)
    C.all_reduce(x)
    assert torch.equal(x, sum(everyone(5)))
    group = dist.new_group([0, 1, 2])
    y = mine(dist.get_rank(), 5)
    work = dist.all_reduce(y, group=group, async_op=True)
    C.all_reduce(y, group=group)  # in order
    work.wait()
    assert torch.equal(y, 3 * sum(everyone(5)))
    C.all_reduce(y, group=C.Communicator(group))  # another one, with tags of its own
    assert torch.equal(y, 9 * sum(everyone(5)))
    assert isinstance(group._get_backend(torch.device("cpu")), dist.ProcessGroupGloo)
    assert C.choose("all_reduce", 1 << 10, group) == C.choose("all_reduce", 1 << 10)
    dist.destroy_process_group(group)


@pytest.mark.parametrize("name", ["ring", "cpu:ring", "ring:double_tree", "ring:direct", "ring:mine"])
def test_backends_by_name(tmp_path, name):
    (tmp_path / "mine.py").write_text(
        "from collectives.ring import all_reduce\n\ndef mine(rank, size):\n    yield from all_reduce(rank, size)\n"
    )
    launch.run(by_name, 3, name, backend=name, prepare=lambda: prepare(tmp_path / "mine.py"), timeout=60)


def prepare(path):
    collectives.torch_backend.register("ring:mine", f"{path}:mine")


def by_name(name):
    assert dist.get_backend() == name
    for group in (dist.group.WORLD, dist.new_group([0, 1, 2]), dist.new_group([0, 1, 2], backend="ring:ring")):
        x = mine(dist.get_rank(), 50)
        dist.all_reduce(x, group=group)
        assert torch.equal(x, sum(everyone(50)))
        dist.all_gather([torch.empty(2) for _ in range(3)], mine(dist.get_rank(), 2), group=group)
    word = name.partition("ring")[2].lstrip(":")
    used = [algorithms_of(group)["all_reduce"] for group in (dist.group.WORLD, group)]
    assert used == [word or C.choose("all_reduce", 200), "ring"]


def algorithms_of(group) -> dict[str, str]:
    """By collective, what a group has run last."""
    return {key[0]: prepared.algorithm for key, prepared in communicator(group).shelf.prepared.items()}


def test_algorithms_by_operation():
    launch.run(by_operation, 2, prepare=register, timeout=60)


def register():
    import collectives.torch_backend  # noqa: F401


def by_operation():
    options = {"all_reduce": "ring:channels=2", "broadcast": C.find("broadcast", "chain")}
    group = dist.new_group([0, 1], backend="ring:halving_doubling", pg_options=options)
    x = mine(dist.get_rank(), 40)
    dist.all_reduce(x, group=group)
    assert torch.equal(x, sum(everyone(40)))
    dist.broadcast(x, 0, group=group)
    out = torch.zeros(5)
    dist.reduce_scatter_tensor(out, mine(dist.get_rank(), 10), group=group)
    assert algorithms_of(group) == {
        "all_reduce": "ring:channels=2",
        "broadcast": "chain",
        "reduce_scatter": "halving_doubling",
    }
    for wrong, words in [
        ({"all_reduce": "rong"}, "unknown for all_reduce"),
        ({"allreduce": "ring"}, "allreduce"),
        (dist.Backend, "is no algorithm"),
    ]:
        with pytest.raises(ValueError, match=words):
            dist.new_group([0, 1], backend="ring", pg_options=wrong)


def test_names_that_are_refused():
    for name, algorithm, words in [
        ("ring:Mine", "ring", "lower case"),
        ("mine", "ring", "like 'ring:mine'"),
        ("ring", "ring", "like 'ring:mine'"),
        ("ring:a,b", "ring", "like 'ring:mine'"),
        ("ring:double_tree", "ring", "is built in"),
        ("ring:mine", "no_file.py:ring", "does not exist"),
        ("ring:mine", {"all_sum": "ring"}, "all_sum"),
        ("ring:mine", 3, "is no algorithm"),
    ]:
        with pytest.raises(ValueError, match=re.escape(words)):
            collectives.torch_backend.register(name, algorithm)


def test_a_schedule_that_is_wrong_is_refused_before_anything_is_sent():
    launch.run(wrong_schedule, 2, prepare=register, timeout=60)


def wrong_schedule():
    def lazy(rank, size):
        yield (C.Send(0, to=1) if rank == 0 else C.Recv(0, source=0),)

    options = {"all_reduce": C.Schedule("all_reduce", lazy, chunks=1)}
    group = dist.new_group([0, 1], backend="ring", pg_options=options)
    with pytest.raises(C.ScheduleError):
        dist.all_reduce(torch.ones(3), group=group)
    with pytest.raises(C.ScheduleError):
        dist.all_reduce(torch.ones(3), group=group, async_op=True)
    dist.barrier(group=group)


def test_only_send_and_receive_of_gloo_are_used():
    """A gloo that can do nothing else."""
    launch.run(moves_and_reduces, 3, backend="ring", prepare=poor_gloo, timeout=60)


def moves_and_reduces():
    reduces()
    moves()
    uneven()
    together()


def poor_gloo():
    import collectives.torch_backend  # noqa: F401

    real = dist.ProcessGroupGloo

    class OnlyMessages:
        def __init__(self, *args, **kwargs):
            gloo = real(*args, **kwargs)
            self.send, self.recv, self.recv_anysource = gloo.send, gloo.recv, gloo.recv_anysource

    dist.ProcessGroupGloo = OnlyMessages


def test_wrong_arguments_are_refused_before_anything_is_sent(ring_ranks):
    ring_ranks(2, wrong_arguments)


def wrong_arguments():
    x = torch.ones(4)
    refused = [
        (lambda: dist.all_reduce(x.long(), ReduceOp.AVG), "op=AVG"),
        (lambda: dist.broadcast(x.to_sparse(), 0), "layout"),
        (lambda: dist.all_reduce(x.to_sparse(), ReduceOp.MAX), "sparse tensors can only be summed"),
        (lambda: dist.all_reduce(x.to("meta")), "meta"),
        (lambda: dist.reduce_scatter_tensor(torch.empty(3), x), "input has 4 elements"),
        (lambda: dist.send(x, dist.get_rank()), "rank"),
        (lambda: dist.group.WORLD.send([x], 2, 0), "the group's ranks are 0 to 1"),
        (lambda: dist.send(x, 1 - dist.get_rank(), tag=1 << 30), "tag="),
    ]
    for call, words in refused:
        with pytest.raises(ValueError, match=words):
            call()
    dist.all_reduce(x)
    assert x.tolist() == [2, 2, 2, 2]
