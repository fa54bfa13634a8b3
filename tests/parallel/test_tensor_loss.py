"""Cross-entropy of logits that no rank has all of, against torch's on the whole."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

import parallel.model
from parallel.model import NO_TARGET
from parallel.tensor import Split, TensorParallel, vocab_parallel_cross_entropy


def compared(logits, targets):
    """Sum and count as one process has them and as the ranks do; the largest difference of a gradient."""
    tp, vocabulary = TensorParallel(), logits.shape[-1]
    rule = Split(logits.dim() - 1, (vocabulary,), padded=True)
    plain = logits.clone().requires_grad_()
    wanted, wanted_count = parallel.model.cross_entropy(plain, targets)
    (3 * wanted).backward()
    own = rule.share(logits, dist.get_rank(), tp.size)
    ((_, rows),) = rule.ranges(tp.rank, tp.size)
    own[..., rows:] = 50.0  # whatever stands in the padding
    kept = own.clone()
    own.requires_grad_()
    total, count = vocab_parallel_cross_entropy(own, targets, vocabulary, tp)
    (3 * total).backward()
    assert torch.equal(own, kept)
    assert not own.grad[..., rows:].any()
    gradient = rule.share(plain.grad, tp.rank, tp.size)
    same = (total.dtype, count.dtype) == (wanted.dtype, wanted_count.dtype)
    return (
        total.item(),
        wanted.item(),
        count.item(),
        wanted_count.item(),
        (own.grad - gradient).abs().max().item(),
        same,
    )


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("vocabulary", [5, 11, 12])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_sum_count_and_gradient(ranks, size, vocabulary, scale):
    torch.manual_seed(vocabulary)
    logits = scale * torch.randn(3, 7, vocabulary, dtype=torch.float64)
    targets = torch.randint(vocabulary, (3, 7))
    targets[0, :4] = NO_TARGET
    targets[1, 0] = vocabulary - 1
    for total, wanted, count, wanted_count, difference, same in ranks(size, compared, logits, targets):
        assert total == pytest.approx(wanted, rel=1e-12)
        assert count == wanted_count == 17
        assert difference < 1e-12
        assert same


def test_narrow_logits_are_added_in_fp32(ranks):
    torch.manual_seed(0)
    logits, targets = torch.randn(4, 9, 11).bfloat16(), torch.randint(11, (4, 9))
    for total, wanted, _, _, difference, same in ranks(2, compared, logits, targets):
        assert total == pytest.approx(wanted, rel=2**-7)
        assert difference <= 2**-6  # one step of bf16 from 2 to 4
        assert same


def test_no_target_at_all(ranks):
    targets = torch.full((2, 3), NO_TARGET)
    for total, _, count, _, difference, _ in ranks(2, compared, torch.randn(2, 3, 5), targets):
        assert (total, count, difference) == (0.0, 0, 0.0)


def published():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64).chunk(2, 1)[dist.get_rank()]
    return vocab_parallel_cross_entropy(logits, torch.tensor([0]), 4, TensorParallel())[0].item()


def test_a_number_by_hand(ranks):
    """log(1 + e + e² + e³) = 3.440190: the local sums alone would give 1.313262 and another."""
    assert ranks(2, published) == pytest.approx([math.log(sum(math.exp(i) for i in range(4)))] * 2, rel=1e-15)
    assert F.cross_entropy(torch.tensor([[0.0, 1, 2, 3]]), torch.tensor([0])).item() == pytest.approx(3.440190)


def padded_sequence(sequence):
    tp = TensorParallel(sequence=sequence)
    logits = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(dist.get_rank()))
    targets = torch.tensor([[0, 7, 3, 2, 1], [4, 4, 5, 6, 7]])
    try:
        total, count = vocab_parallel_cross_entropy(logits, targets, 8, tp)
    except ValueError as error:
        return str(error)
    return total.item(), count.item(), vocab_parallel_cross_entropy(logits[:, :5], targets, 8, tp)[0].item()


def test_places_that_only_pad_the_sequence_are_left_out(ranks):
    for total, count, wanted in ranks(2, padded_sequence, True):
        assert (total, count) == (wanted, 10)
    assert all("logits must be (2, 5, 4)" in said for said in ranks(2, padded_sequence, False))


def refused(logits, targets, vocabulary):
    try:
        vocab_parallel_cross_entropy(logits, targets, vocabulary, TensorParallel())
    except ValueError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize(
    ("shape", "targets", "said"),
    [
        ((2, 3, 5), torch.zeros(2, 3, dtype=torch.int64), "on 2 ranks logits must be (2, 3, 6)"),
        ((2, 3, 6), torch.zeros(3, 2, dtype=torch.int64), "logits must be (3, 2, 6)"),
        ((2, 6), torch.tensor([0, 11]), "targets has numbers outside 0 to 10"),
        ((2, 6), torch.tensor([-1, 0]), "targets has numbers outside 0 to 10"),
    ],
)
def test_refusals(ranks, shape, targets, said):
    assert all(said in each for each in ranks(2, refused, torch.zeros(shape), targets, 11))
