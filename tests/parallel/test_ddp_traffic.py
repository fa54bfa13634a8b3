"""What DDP sends: how much, when, and what the wire's numbers lose and keep."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.distributed as dist
from torch import nn

from parallel import DistributedDataParallel, formulas
from parallel.model import GPT, SIZES
from parallel.traffic import counted
from tests.parallel.averaged import ODD, here


def sent(config, microbatches, wire, dtype, bucket_mb):
    model = GPT(config).to(dtype)
    ddp = DistributedDataParallel(model, bucket_mb=bucket_mb, wire=wire)
    tokens = torch.arange(2 * config.positions).view(2, -1) % config.vocabulary
    dist.barrier()
    with counted() as traffic:
        for i in range(microbatches):
            with ddp.no_sync() if i < microbatches - 1 else contextlib.nullcontext():
                ddp(tokens).square().mean().backward()
    return sum(p.numel() for p in model.parameters()), dict(traffic.elements), traffic.bytes


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("config", [ODD, SIZES["tiny"]])
@pytest.mark.parametrize(("microbatches", "bucket_mb"), [(1, 25), (3, 0.01)])
def test_elements_sent_are_those_of_the_formula(ranks, size, config, microbatches, bucket_mb):
    """2Ψ(N − 1)/N a step, whatever the microbatches and buckets: of all ranks together to the element."""
    everyone = ranks(size, sent, config, microbatches, None, torch.float32, bucket_mb)
    parameters = everyone[0][0]
    formula = formulas.elements_sent(parameters, size, 0, microbatches)
    assert {dtype for _, elements, _ in everyone for dtype in elements} == {torch.float32}
    total = sum(elements[torch.float32] for _, elements, _ in everyone)
    assert total == round((formula.parameters + formula.gradients) * size) == 2 * (size - 1) * parameters


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(("wire", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_half_as_many_bytes_in_sixteen_bits(ranks, size, wire, dtype):
    everyone = ranks(size, sent, ODD, 1, wire, torch.float32, 25)
    parameters = everyone[0][0]
    assert {d for _, elements, _ in everyone for d in elements} == {dtype}
    assert sum(elements[dtype] for _, elements, _ in everyone) == 2 * (size - 1) * parameters
    assert sum(nbytes for *_, nbytes in everyone) == 2 * (size - 1) * parameters * formulas.wire_bytes(wire)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_quarter_as_many_bytes_in_int8(ranks, size):
    """One byte an element and four for a scale, whose last in each part may be for fewer than 128 elements."""
    everyone = ranks(size, sent, ODD, 1, "int8", torch.float32, 25)
    parameters = everyone[0][0]
    wanted = 2 * (size - 1) * parameters * formulas.wire_bytes("int8")
    total = sum(nbytes for *_, nbytes in everyone)
    assert wanted <= total < wanted + 2 * (size - 1) * size * 4


def order_of_launches():
    """When each bucket leaves, as how many of the parameters have their gradient by then."""
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(6)))
    ddp = DistributedDataParallel(model, bucket_mb=2 * 256 / 2**20)
    begun = []
    for bucket in ddp._reducer.buckets:
        start = bucket.transfer.start

        def noted(start=start):
            begun.append(sum(p.grad is not None for p in model.parameters()))
            start()

        bucket.transfer.start = noted
    ddp(torch.ones(1, 8)).sum().backward()
    return begun, all(p.grad._base is b.flat for b in ddp._reducer.buckets for p in b.parameters)


def test_buckets_leave_while_the_backward_pass_runs(ranks):
    """Three buckets of two layers, the last layers first; gradients are views of the buckets."""
    assert ranks(2, order_of_launches) == [([2, 4, 6], True)] * 2


# What the wire does to numbers.


def unused_zero_gradient():
    """Rank 1 alone uses the weight, with gradients that are zeros of both signs and numbers too small to halve."""
    rank, _ = here()
    results = []
    for dtype, tiny in [(torch.float32, -1e-45), (torch.bfloat16, -1e-40), (torch.float64, -5e-324)]:
        for wire in (None, "fp16", "int8"):
            for value in (-0.0, 0.0, tiny):
                model = nn.Linear(3, 1, bias=False, dtype=dtype)
                other = nn.Parameter(torch.ones(1, dtype=dtype))
                model.register_parameter("other", other)
                model.forward = lambda x, m=model, p=other: p * 1 if x is None else (m.weight * x).sum() + p
                ddp = DistributedDataParallel(model, wire=wire)
                ddp(torch.full((3,), value, dtype=dtype) if rank else None).sum().backward()
                results.append(model.weight.grad is not None)
    return results


def test_a_gradient_of_zeros_is_used_nevertheless(ranks):
    """Neither −0.0 nor a number that rounds to it, in the mean or on the wire, is taken for 'nobody used it'."""
    assert ranks(2, unused_zero_gradient) == [[True] * 27] * 2


def with_nan(wire):
    rank, _ = here()
    model = nn.Linear(300, 1, bias=False)
    ddp = DistributedDataParallel(model, wire=wire)
    x = torch.ones(1, 300)
    if rank == 1:
        x[0, 5] = float("nan")
    ddp(x).sum().backward()
    first = model.weight.grad.isnan()
    model.weight.grad = None
    ddp(torch.ones(1, 300)).sum().backward()
    return first[0, 5].item(), first[0, 200].item(), model.weight.grad.isfinite().all().item()


@pytest.mark.parametrize("wire", [None, "fp16", "bf16", "int8"])
def test_a_nan_on_one_rank_is_seen_by_all_and_forgotten(ranks, wire):
    """It stays where it is (its block of 128), and error feedback does not keep it."""
    assert ranks(2, with_nan, wire) == [(True, False, True)] * 2


def error_feedback(wire):
    """Delivered means add up to the exact ones, but for what the errors of one step hold."""
    rank, size = here()
    model = nn.Linear(300, 1, bias=False)
    ddp = DistributedDataParallel(model, wire=wire)
    delivered, exact = torch.zeros(300, dtype=torch.float64), torch.zeros(300, dtype=torch.float64)
    apart = []
    for step in range(40):
        seeded = torch.Generator().manual_seed(step)
        shares = torch.randn(size, 300, generator=seeded) * torch.logspace(-3, 0, 300)
        model.weight.grad = None
        ddp(shares[rank : rank + 1]).sum().backward()
        delivered += model.weight.grad[0]
        exact += shares.double().mean(0)
        apart.append((delivered - exact).abs().max().item())
    return apart


@pytest.mark.parametrize(("wire", "step"), [("fp16", 2**-9), ("bf16", 2**-6), ("int8", 4 / 127)])
def test_error_feedback_loses_nothing_for_good(ranks, wire, step):
    """After forty steps the sums are no farther apart than two rounding steps of a number of size 4; without feedback
    they would part like a random walk. Every rank has the same."""
    everyone = ranks(3, error_feedback, wire)
    assert everyone[0] == everyone[1] == everyone[2]
    assert 0 < max(everyone[0]) < 2 * step


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.other = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(1))

    def forward(self, rest):
        return self.other.sum() if rest else (self.used * torch.tensor([1.0, 0.001, 1.0, 0.001])).sum()


def resting():
    """Every second element is too small for int8 beside the one before, and used in every other step alone."""
    model = Two()
    ddp = DistributedDataParallel(model, wire="int8")
    delivered = 0.0
    for step in range(16):
        model.zero_grad()
        ddp(step % 2 == 1).backward()
        delivered += 0.0 if model.used.grad is None else model.used.grad[1].item()
    return delivered


def test_what_was_lost_waits_while_a_parameter_rests(ranks):
    """Eight times 0.001, to half a step of 1/127; without what was lost it would be 0."""
    assert ranks(2, resting) == [pytest.approx(0.008, abs=0.5 / 127)] * 2
