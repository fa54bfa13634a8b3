"""Dropout: the same mask where all ranks have the same, another on each where each has its own."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed as dist

import collectives
from parallel import checkpoint
from parallel.attention import Attention
from parallel.model import GPT, Config
from parallel.tensor import ParallelAttention, TensorParallel, parallelize_, vocab_parallel_cross_entropy
from parallel.tensor.dropout import forked_dropout


def everyone(x):
    """All ranks' x."""
    out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    collectives.all_gather(out, x.detach().contiguous())
    return out


def masks():
    """Of two calls: their masks on this rank, whether torch's generator is the same on all ranks behind them."""
    torch.manual_seed(5)
    x = torch.ones(200, 50)
    dropped = [forked_dropout(x, 0.25, TensorParallel()) for _ in range(2)]
    states = everyone(torch.get_rng_state())
    torch.manual_seed(5)
    again = forked_dropout(x, 0.25, TensorParallel())
    return dropped, all(torch.equal(s, states[0]) for s in states), torch.equal(again, dropped[0])


def test_forked_masks_differ_by_rank_and_call_and_leave_the_stream_alike(ranks):
    results = ranks(3, masks)
    found = [mask for dropped, _, _ in results for mask in dropped]
    for mask in found:
        assert mask.unique().tolist() == pytest.approx([0, 4 / 3])
        assert mask.bool().float().mean().item() == pytest.approx(0.75, abs=0.03)  # 7 standard deviations
    for i, one in enumerate(found):
        for other in found[:i]:  # independent: both keep in 9/16 of the places
            assert (one * other).bool().float().mean().item() == pytest.approx(0.5625, abs=0.04)
    assert all(alike and same for _, alike, same in results)


def trained(sequence, recompute):
    """Hidden values before the head, parameter gradients of a model with dropout, and the generator behind it."""
    torch.manual_seed(1)
    tp = TensorParallel(sequence=sequence)
    model = parallelize_(GPT(Config(2, 12, 4, vocabulary=11, positions=8, dropout=0.5)).double(), tp)
    if recompute:
        for block in model.blocks:
            block.forward = partial(checkpoint, block.forward)
    hidden = []
    model.norm.register_forward_pre_hook(lambda module, inputs: hidden.append(inputs[0].detach()))
    torch.manual_seed(2)
    tokens = torch.arange(8).view(1, 8)
    vocab_parallel_cross_entropy(model(tokens), tokens, 11, tp)[0].backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    states = everyone(torch.get_rng_state())
    return hidden[0], gradients, all(torch.equal(s, states[0]) for s in states)


@pytest.mark.parametrize("sequence", [False, True])
def test_a_model_with_dropout(ranks, sequence):
    first, second = ranks(2, trained, sequence, False)
    assert torch.equal(first[0], second[0]) != sequence  # replicated between the blocks, or each its own places
    assert first[2]
    for name in ("norm.weight", "positions.weight", "blocks.0.mlp.down.bias"):
        assert torch.equal(first[1][name], second[1][name])  # what all ranks have stays alike


@pytest.mark.parametrize("sequence", [False, True])
def test_recompute_drops_the_same(ranks, sequence):
    plain, again = ranks(2, trained, sequence, False)[1], ranks(2, trained, sequence, True)[1]
    assert plain[1].keys() == again[1].keys()
    for name, gradient in plain[1].items():
        assert torch.allclose(gradient, again[1][name], rtol=1e-12, atol=1e-15), name


def attention(p):
    torch.manual_seed(0)
    plain = Attention(16, 4, 2, theta=100.0).double()
    plain.dropout = p
    twin = ParallelAttention(plain, TensorParallel())
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    plain.dropout = 0.0
    torch.manual_seed(3)
    trained = twin(x)
    return (
        (trained - plain(x)).abs().max().item(),
        torch.equal(twin.eval()(x), twin(x)),
        (twin(x) - plain(x)).abs().max(),
    )


def test_attention_with_dropout_is_attention(ranks):
    """With a probability that drops nothing it is torch's; with another it differs, in evaluation it does not."""
    for size in (1, 2):
        for trained_difference, same, difference in ranks(size, attention, 1e-14):
            assert trained_difference < 1e-12
            assert same
            assert difference < 1e-12
        for trained_difference, _, difference in ranks(size, attention, 0.5):
            assert trained_difference > 1e-3
            assert difference < 1e-12
