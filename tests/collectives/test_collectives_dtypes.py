"""Reductions and dtypes: each on real ranks, against what one process computes from all ranks' inputs."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import collectives as C
from tests.collectives.computed import algorithm_names, given, inputs

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
