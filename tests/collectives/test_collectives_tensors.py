"""Tensors of every shape and memory: strided, empty, in place, overlapping, uneven, huge."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import collectives as C
from tests.collectives.computed import check_on_rank, given, inputs


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
