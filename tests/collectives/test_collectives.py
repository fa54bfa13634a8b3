"""Every collective and algorithm on real ranks, against what one process computes from all ranks' inputs."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives.contract import CONTRACTS
from collectives.registry import BUILT_IN

WORLDS = [1, 2, 3, 4, 5]
SIZES = [0, 1, 2, 3, 7, 10, 257]
REDUCING = {"all_reduce", "reduce", "reduce_scatter"}


def given(rank, length, dtype=torch.float64):
    """Distinct by rank and position; small whole numbers, so that sums are exact in every dtype."""
    if dtype == torch.bool:
        return (torch.arange(length) + rank) % 3 == 0
    values = torch.arange(length) * 3 % 23 + rank * 2 if dtype.itemsize == 1 else torch.arange(length) + 1000 * rank
    return (values % 100 if dtype in (torch.bfloat16, torch.float16) else values).to(dtype)


def inputs(size, length, dtype=torch.float64):
    return [given(rank, length, dtype) for rank in range(size)]


def algorithm_names(collective):
    return [s.name for s in C.algorithms(collective) if s.name in BUILT_IN or s.name == "pairwise"] + ["auto"]


def run_collective(collective, rank, size, length, algorithm, root=0, group=None):
    """The result and what it should be, as (name, got, wanted); inputs that must stay are checked, too."""
    ours = inputs(size, length)
    total = torch.stack(ours).sum(0)
    mine = ours[rank].clone()
    how = {"algorithm": algorithm, "group": group}
    if collective == "all_reduce":
        C.all_reduce(mine, **how)
        return [("result", mine, total)]
    if collective == "reduce":
        C.reduce(mine, group_dst=root, **how)
        return [("result", mine, total if rank == root else ours[rank])]
    if collective == "broadcast":
        C.broadcast(mine, group_src=root, **how)
        return [("result", mine, ours[root])]
    if collective == "all_gather":
        out = torch.full((size * length,), -1.0, dtype=torch.float64)
        C.all_gather_into_tensor(out, mine, **how)
        outs = [torch.full((length + r,), -1.0) for r in range(size)]
        C.all_gather(outs, given(rank, length + rank, torch.float32), **how)
        uneven = [given(r, length + r, torch.float32) for r in range(size)]
        return [
            ("flat", out, torch.cat(ours)),
            ("input", mine, ours[rank]),
            ("list", torch.cat(outs), torch.cat(uneven)),
        ]
    if collective == "reduce_scatter":
        blocks = inputs(size, length * size)
        block, out = blocks[rank].clone(), torch.full((length,), -1.0, dtype=torch.float64)
        C.reduce_scatter_tensor(out, block, **how)
        wanted = torch.stack(blocks).sum(0)[rank * length : (rank + 1) * length]
        lists = [list(given(r, size * length + 10).split([length] * size + [10]))[:size] for r in range(size)]
        out2 = torch.full((length,), -1.0, dtype=torch.float64)
        C.reduce_scatter(out2, [t.clone() for t in lists[rank]], **how)
        wanted2 = torch.stack([lists[r][rank] for r in range(size)]).sum(0)
        return [("tensor", out, wanted), ("input", block, blocks[rank]), ("list", out2, wanted2)]
    if collective == "gather":
        outs = [torch.full((length,), -1.0, dtype=torch.float64) for _ in range(size)] if rank == root else None
        C.gather(mine, outs, group_dst=root, **how)
        wanted = [("list", torch.cat(outs), torch.cat(ours))] if outs is not None else []
        return [("input", mine, ours[rank]), *wanted]
    if collective == "scatter":
        blocks = [given(10 + r, length) for r in range(size)]
        C.scatter(mine, [b.clone() for b in blocks] if rank == root else None, group_src=root, **how)
        return [("result", mine, blocks[rank])]
    if collective == "all_to_all":
        blocks = [given(r, size * length) for r in range(size)]
        out = torch.full((size * length,), -1.0, dtype=torch.float64)
        C.all_to_all_single(out, blocks[rank].clone(), **how)
        wanted = torch.cat([b[rank * length : (rank + 1) * length] for b in blocks])
        return [("single", out, wanted)]
    C.barrier(**how)
    return []


def check_on_rank(collective, algorithm, lengths, roots):
    rank, size = dist.get_rank(), dist.get_world_size()
    for length in lengths:
        for root in [r for r in roots if r < size]:
            for name, got, wanted in run_collective(collective, rank, size, length, algorithm, root):
                assert torch.equal(got, wanted), f"{name}: length {length}, root {root}: {got} is not {wanted}"


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


# Reductions and dtypes.

INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FOLD = {
    "SUM": torch.add,
    "PROD": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


def combined(tensors, op):
    result = tensors[0].clone()
    for tensor in tensors[1:]:
        result = FOLD[op](result, tensor)
    return result


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("op", list(FOLD))
def test_reductions_of_every_dtype(ranks, size, op):
    ranks(size, reductions, op)


def reductions(op):
    rank, size = dist.get_rank(), dist.get_world_size()
    bitwise = op in ("BAND", "BOR", "BXOR")
    dtypes = [*INTS, torch.bool] if bitwise else INTS + FLOATS + [torch.bool]
    if op in ("SUM", "PROD"):
        dtypes += [torch.complex64]
    for dtype in dtypes:
        tensors = inputs(size, 11, dtype)
        if op == "PROD":
            tensors = [t if dtype == torch.bool else (t.real % 2 + 1).to(dtype) for t in tensors]
        for algorithm in ("ring", "recursive_doubling", "direct"):
            x = tensors[rank].clone()
            C.all_reduce(x, getattr(dist.ReduceOp, {"PROD": "PRODUCT"}.get(op, op)), algorithm=algorithm)
            assert torch.equal(x, combined(tensors, op)), (dtype, algorithm)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_average(ranks, size):
    ranks(size, average)


def average():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in FLOATS:
        x, tensors = given(rank, 3, dtype), inputs(size, 3, dtype)
        C.all_reduce(x, dist.ReduceOp.AVG)
        assert torch.equal(x, combined(tensors, "SUM") / size), dtype
    out = torch.empty(2)
    C.reduce_scatter_tensor(out, torch.ones(2 * size) * size, dist.ReduceOp.AVG)
    assert out.tolist() == [size, size]
    kept = torch.tensor([1, 2])
    with pytest.raises(ValueError, match=r"op=AVG of dtype torch\.int64"):
        C.all_reduce(kept, dist.ReduceOp.AVG)
    assert kept.tolist() == [1, 2]


@pytest.mark.parametrize("size", [2, 3])
def test_moving_operations_take_every_dtype(ranks, size):
    ranks(size, every_dtype)


def every_dtype():
    rank, size = dist.get_rank(), dist.get_world_size()
    more = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64]
    for dtype in [*INTS, *FLOATS, torch.bool, torch.complex128, *more]:
        blocks = [torch.randint(0, 2, (5,), generator=torch.Generator().manual_seed(r)).to(dtype) for r in range(size)]
        out = torch.zeros(size * 5).to(dtype)
        C.all_gather_into_tensor(out, blocks[rank])
        assert out.view(torch.uint8).equal(torch.cat([b.view(torch.uint8) for b in blocks])), dtype
        x = blocks[rank].clone()
        C.broadcast(x, size - 1)
        assert x.view(torch.uint8).equal(blocks[-1].view(torch.uint8)), dtype
    with pytest.raises(ValueError, match="torch cannot combine it"):
        C.all_reduce(torch.ones(3).to(torch.float8_e5m2))


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_accumulate_rounds_once(ranks, size):
    ranks(size, accumulated)


def accumulated():
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [torch.randn(33, generator=torch.Generator().manual_seed(r)).bfloat16() for r in range(size)]
    exact = torch.stack([t.double() for t in tensors]).sum(0)
    x = tensors[rank].clone()
    C.all_reduce(x, accumulate=torch.float32)
    assert torch.equal(x, exact.float().bfloat16())
    x = torch.tensor([1.0 if rank == 0 else 2.0**-8]).bfloat16()  # each addend alone is lost in bf16
    C.all_reduce(x, accumulate=torch.float32, algorithm="ring")
    assert x.item() == torch.tensor(1 + (size - 1) * 2.0**-8).bfloat16().item()
    mine = torch.empty(33, dtype=torch.bfloat16)
    blocks = [torch.cat([t] * size) for t in tensors]
    C.reduce_scatter_tensor(mine, blocks[rank], dist.ReduceOp.AVG, accumulate=torch.float32)
    assert torch.equal(mine, (exact / size).float().bfloat16())


@pytest.mark.parametrize("size", [2, 3, 5, 6])
def test_results_are_the_same_bits_on_all_ranks(ranks, size):
    ranks(size, same_bits)


def same_bits():
    rank, size = dist.get_rank(), dist.get_world_size()
    for algorithm in algorithm_names("all_reduce"):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
            x = torch.randn(41, generator=torch.Generator().manual_seed(rank)) * 10.0**rank
            x[:4] = torch.tensor([[0.0, -0.0, float("nan"), float("inf")][(rank + i) % 4] for i in range(4)])
            C.all_reduce(x, op, algorithm=algorithm)
            everyone = torch.empty(size * 41)
            C.all_gather_into_tensor(everyone, x, algorithm="direct")
            for other in everyone.view(torch.int32).view(size, 41):
                assert torch.equal(other, x.view(torch.int32)), (algorithm, op)
            assert x[:4].isnan().any() or size < 3


def test_nan_wins_as_in_torch(ranks):
    ranks(2, nan_wins)


def nan_wins():
    for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        x = torch.tensor([1.0 if dist.get_rank() == 0 else float("nan")])
        C.all_reduce(x, op)
        assert x.isnan().all()


# Shapes and memory.


@pytest.mark.parametrize("size", [2, 3])
def test_tensors_that_are_not_contiguous(ranks, size):
    ranks(size, not_contiguous)


def not_contiguous():
    rank, size = dist.get_rank(), dist.get_world_size()
    base = torch.arange(10.0) + 100 * rank
    total = sum(torch.arange(10.0) + 100 * r for r in range(size))
    x = base.clone().view(2, 5).t()
    C.all_reduce(x)
    assert torch.equal(x, total.view(2, 5).t())
    y = base.clone().view(5, 2)
    C.all_reduce(y[:, 0])
    assert torch.equal(y[:, 0], total.view(5, 2)[:, 0])
    assert torch.equal(y[:, 1], base.view(5, 2)[:, 1])
    z = base.clone()[::2]
    C.broadcast(z, 0)
    assert torch.equal(z, torch.arange(10.0)[::2])
    c = torch.randn(1, 3, 2, 2, generator=torch.Generator().manual_seed(rank)).to(memory_format=torch.channels_last)
    wanted = sum(torch.randn(1, 3, 2, 2, generator=torch.Generator().manual_seed(r)) for r in range(size))
    C.all_reduce(c, algorithm="direct")
    torch.testing.assert_close(c, wanted)
    out = torch.zeros(5, size * 2).t()
    C.all_gather_into_tensor(out, base.view(2, 5))
    assert torch.equal(out, torch.cat([(torch.arange(10.0) + 100 * r).view(2, 5) for r in range(size)]))
    conjugate = torch.complex(base, -base).conj()
    C.all_reduce(conjugate)
    assert torch.equal(conjugate, torch.complex(total, total))
    expanded = torch.full((1,), float(rank)).expand(4)
    gathered = [torch.zeros(4) for _ in range(size)]
    C.all_gather(gathered, expanded)  # reading one is fine
    assert gathered[1].tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="expanded"):
        C.all_reduce(expanded)


def test_scalars_parameters_and_empty_tensors(ranks):
    ranks(3, odd_tensors)


def odd_tensors():
    rank = dist.get_rank()
    scalar = torch.tensor(float(rank))
    C.all_reduce(scalar)
    assert scalar.item() == 3
    parameter = torch.nn.Parameter(torch.full((2, 2), float(rank)))
    C.all_reduce(parameter)
    assert parameter.tolist() == [[3, 3], [3, 3]]
    for shape in [(0,), (1, 0, 2)]:
        C.all_reduce(torch.zeros(shape))
        C.all_gather([torch.zeros(shape) for _ in range(3)], torch.zeros(shape))
    with torch.inference_mode():
        inside, large = torch.full((3,), float(rank)), torch.full((100_000,), float(rank))
        C.all_reduce(inside)
        C.all_reduce(large)
        assert inside.tolist() == [3, 3, 3]
        assert (large == 3).all()
    outside = torch.full((3,), float(rank))
    C.all_reduce(outside)
    assert outside.tolist() == [3, 3, 3]


def test_in_place_forms(ranks):
    ranks(3, in_place_forms)


def in_place_forms():
    rank = dist.get_rank()
    out = torch.full((6,), -1.0)
    out[2 * rank : 2 * rank + 2] = torch.tensor([rank, 10.0 + rank])
    C.all_gather_into_tensor(out, out[2 * rank : 2 * rank + 2])
    assert out.tolist() == [0, 10, 1, 11, 2, 12]
    blocks = given(rank, 6)
    C.reduce_scatter_tensor(blocks[2 * rank : 2 * rank + 2], blocks)
    assert torch.equal(blocks[2 * rank : 2 * rank + 2], sum(inputs(3, 6))[2 * rank : 2 * rank + 2])


def test_inputs_may_overlap_outputs(ranks):
    ranks(2, overlapping)


def overlapping():
    rank = dist.get_rank()
    o = torch.arange(4.0) + 10 * rank
    C.all_gather_into_tensor(o, o[:2])
    assert o.tolist() == [0, 1, 10, 11]
    o = torch.arange(4.0) + 10 * rank
    C.all_gather([o[:2], o[2:]], o[:2])
    assert o.tolist() == [0, 1, 10, 11]
    o = torch.arange(4.0) + 10 * rank
    C.gather(o[:2], [o[:2], o[2:]] if rank == 1 else None, 1)
    assert o.tolist() == ([0, 1, 10, 11] if rank == 1 else [0, 1, 2, 3])
    o = torch.arange(4.0) + 10 * rank
    C.all_to_all_single(o, o)
    assert o.tolist() == ([0, 1, 10, 11] if rank == 0 else [2, 3, 12, 13])


def test_tensors_made_in_inference_mode(ranks):
    ranks(2, inference_tensors)


def inference_tensors():
    rank = dist.get_rank()
    with torch.inference_mode():
        out, strided = torch.empty(100_000), torch.full((3, 2), float(rank))[:, 0]
    C.all_to_all_single(out, torch.arange(100_000.0) + rank)
    assert out[50_000:].tolist() == (torch.arange(50_000.0) + rank * 50_000 + 1).tolist()
    C.all_reduce(strided)
    assert strided.tolist() == [1, 1, 1]
    C.all_reduce(torch.ones(3))  # the group is as good as before


def test_gather_with_named_buffers_to_any_root(ranks):
    ranks(3, named_buffers)


def named_buffers():
    def collect(rank, size):
        if rank:
            yield C.Send(C.Buffer("input")[0], to=0)
        else:
            yield tuple(C.Recv(C.Buffer("output")[peer], source=peer) for peer in range(1, size))

    def deal(rank, size):
        if rank:
            yield C.Recv(C.Buffer("output")[0], source=0)
        else:
            yield tuple(C.Send(C.Buffer("input")[peer], to=peer) for peer in range(1, size))

    check_on_rank("gather", C.Schedule("gather", collect), [3], [0, 1, 2])
    check_on_rank("scatter", C.Schedule("scatter", deal), [3], [0, 1, 2])
    x = torch.ones(2)
    C.all_reduce(x, algorithm=lambda rank, size: C.find("all_reduce", "ring")(rank, size))  # a bare program will do
    assert x.tolist() == [3, 3]


def test_scratch_that_was_outgrown_is_freed(ranks):
    ranks(2, outgrown)


def outgrown():
    comm = C.Communicator()
    sizes = [1000 * 2**i for i in range(6)]
    for size in sizes:
        C.all_reduce(torch.ones(size), algorithm="direct")
    from collectives.communicator import communicator

    held = communicator()
    views = [view for prepared in held.shelf.prepared.values() for view in prepared.views]
    storages = {view.untyped_storage().data_ptr() for view in views}
    assert len(storages) <= len(held.shelf.memory)
    assert comm.number > 0


def test_one_rank_with_splits_and_one_without(ranks):
    ranks(4, some_splits)


def some_splits():
    rank = dist.get_rank()
    out = torch.empty(8)
    C.all_to_all_single(out, torch.arange(8.0) + 10 * rank, [2] * 4 if rank == 0 else None)
    assert out.tolist() == [10.0 * r + 2 * rank + i for r in range(4) for i in (0, 1)]


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


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_uneven_all_to_all(ranks, size):
    ranks(size, uneven_all_to_all)


def uneven_all_to_all():
    rank, size = dist.get_rank(), dist.get_world_size()
    amount = [[(3 * i + j) % 4 for j in range(size)] for i in range(size)]  # rows that i gives j; some none
    rows = [torch.arange(float(sum(amount[i]) * 2)).view(-1, 2) + 1000 * i for i in range(size)]
    blocks = [r.split(a) for r, a in zip(rows, amount, strict=True)]
    wanted = [blocks[i][rank] for i in range(size)]
    out = torch.empty(sum(a[rank] for a in amount), 2)
    C.all_to_all_single(out, rows[rank], [a[rank] for a in amount], amount[rank])
    assert torch.equal(out, torch.cat(wanted))
    outs = [torch.empty(a[rank], 2) for a in amount]
    C.all_to_all(outs, [b.clone() for b in blocks[rank]])
    assert all(torch.equal(a, b) for a, b in zip(outs, wanted, strict=True))
    if size == 4:  # from here on Bruck passes blocks on through scratch
        with pytest.raises(ValueError, match="equal splits"):
            C.all_to_all_single(out, rows[rank], [a[rank] for a in amount], amount[rank], algorithm="bruck")


def test_more_than_two_to_the_31_bytes(ranks):
    ranks(2, huge)


def huge():
    x = torch.full((2**31 + 5,), dist.get_rank() + 1, dtype=torch.uint8)
    x[-1] += 10
    C.all_reduce(x, algorithm="ring")
    assert x[0] == 3
    assert x[2**31 :].tolist() == [3, 3, 3, 3, 23]


# In the background.


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
