"""Every shared layer against the plain one on the same input: outputs, input gradients, every gradient."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn

from parallel.attention import Attention
from parallel.llama import GatedMLP
from parallel.model import MLP
from parallel.tensor import (
    ColumnParallelLinear,
    ParallelAttention,
    ParallelGatedMLP,
    ParallelMLP,
    RowParallelLinear,
    TensorParallel,
    VocabParallelEmbedding,
    whole,
)
from parallel.traffic import counted

PLACES = {1: 5, 2: 6, 3: 9, 4: 12}  # odd multiples of the ranks
FORMS = [(False, True, False), (True, True, False), (True, False, False), (True, True, True), (True, False, True)]


def made(seed, layer):
    torch.manual_seed(seed)
    return layer().double()


LAYERS = {
    "linear": (lambda: nn.Linear(12, 24), ColumnParallelLinear),
    "linear without bias": (lambda: nn.Linear(12, 24, bias=False), ColumnParallelLinear),
    "row": (lambda: nn.Linear(12, 7), RowParallelLinear),
    "mlp": (lambda: MLP(12), ParallelMLP),
    "gated": (lambda: GatedMLP(12, 36), ParallelGatedMLP),
    "attention": (lambda: Attention(24, 12), ParallelAttention),
    "grouped": (lambda: Attention(48, 24, 12, bias=False, theta=100.0), ParallelAttention),
}


def difference(name, sequence, regather, ring):
    """The largest difference anywhere, relative to the largest value."""
    tp, rank, size = TensorParallel(None, sequence, regather, ring), dist.get_rank(), dist.get_world_size()
    plain = made(0, LAYERS[name][0])
    twin = LAYERS[name][1](copy.deepcopy(plain), tp)
    width = 48 if name == "grouped" else 24 if name == "attention" else 12
    x = torch.randn(3, PLACES[size], width, dtype=torch.float64, requires_grad=True)
    y = plain(x)
    weight = torch.randn_like(y)
    (wanted,) = torch.autograd.grad((y * weight).sum(), x, retain_graph=True)
    (y * weight).sum().backward(inputs=list(plain.parameters()))

    cut_inputs = name == "row"
    dim = 2 if cut_inputs else 1 if sequence else None
    own = (x if dim is None else x.chunk(size, dim)[rank]).detach().clone().requires_grad_()
    if name.startswith("linear"):
        part, wanted_y = weight.chunk(size, 2)[rank], y.chunk(size, 2)[rank]
    elif sequence:
        part, wanted_y = weight.chunk(size, 1)[rank], y.chunk(size, 1)[rank]
    else:
        part, wanted_y = weight, y
    out = twin(own)
    (out * part).sum().backward()
    pairs = [(out, wanted_y), (own.grad, wanted if dim is None else wanted.chunk(size, dim)[rank])]
    theirs = dict(plain.named_parameters())
    for key, parameter in twin.named_parameters():
        pairs.append((whole(parameter.grad, parameter, tp), theirs[key].grad))
        pairs.append((whole(parameter, parameter, tp), theirs[key]))
    assert all(a.shape == b.shape for a, b in pairs)
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_a_shared_layer_is_the_plain_one(ranks, size, name):
    for form in FORMS:
        assert max(ranks(size, difference, name, *form)) < 1e-12, form


def bias_once(size):
    linear = nn.Linear(4, 3)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.copy_(torch.tensor([100.0, 200.0, 300.0]))
    return RowParallelLinear(linear, TensorParallel())(torch.ones(1, 4 // size)).tolist()


def test_the_published_bias_is_added_once(ranks):
    assert ranks(2, bias_once, 2) == [[[100.0, 200.0, 300.0]]] * 2


def gathered_and_scattered():
    """X by columns, concatenated, redistributed, by rows: the form that gathers between the two."""
    tp = TensorParallel()
    up, down = made(0, lambda: nn.Linear(5, 6)), made(1, lambda: nn.Linear(6, 4))
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    down(up(x)).square().sum().backward()
    wanted, x.grad = x.grad, None
    first = ColumnParallelLinear(up, tp, gather_output=True)
    y = RowParallelLinear(down, tp, scatter_input=True)(first(x))
    y.square().sum().backward()
    same = whole(first.weight.grad, first.weight, tp)
    return torch.allclose(y, down(up(x))), torch.allclose(x.grad, wanted), torch.allclose(same, up.weight.grad)


def test_gather_output_then_scatter_input(ranks):
    assert ranks(3, gathered_and_scattered) == [(True, True, True)] * 3


def gathered_vocabulary():
    """Five outputs on two ranks are three and two: gathered, the padding is gone."""
    linear = made(0, lambda: nn.Linear(4, 5))
    x = torch.randn(3, 4, dtype=torch.float64)
    twin = ColumnParallelLinear(linear, TensorParallel(), gather_output=True, padded=True)
    return (twin(x) - linear(x)).abs().max().item()


def test_gathered_outputs_have_no_padding(ranks):
    assert max(ranks(2, gathered_vocabulary)) < 1e-12


def embedded(sequence):
    """Vocabulary 11, token 10, padding_idx 3: looked up by its owner alone, and only its row has no gradient."""
    tp = TensorParallel(sequence=sequence)
    plain = made(0, lambda: nn.Embedding(11, 4, padding_idx=3))
    twin = VocabParallelEmbedding(copy.deepcopy(plain), tp)
    tokens = torch.tensor([[10, 3, 7, 0, 9, 5, 2]])
    wanted, out = plain(tokens), twin(tokens)
    rank, size = dist.get_rank(), dist.get_world_size()
    if sequence:
        wanted = nn.functional.pad(wanted, (0, 0, 0, -7 % size)).chunk(size, 1)[rank]
    (wanted * (1 + rank)).sum().backward() if sequence else wanted.sum().backward()
    (out * (1 + rank)).sum().backward() if sequence else out.sum().backward()
    gradient = whole(twin.weight.grad, twin.weight, tp)
    rows = [row for row in range(11) if not gradient[row].any()]
    return torch.equal(out, wanted), rows, gradient[10, 0].item()


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_embedding_of_a_vocabulary_that_does_not_divide(ranks, size, sequence):
    for same, still, first in ranks(size, embedded, sequence):
        assert same
        assert still == [1, 3, 4, 6, 8]  # those not asked for, and the padding
        assert first == 1.0  # token 10 is at place 0, on rank 0


def refusals():
    tp, said = TensorParallel(), []
    for make in (
        lambda: ColumnParallelLinear(nn.Linear(4, 5), tp),
        lambda: ColumnParallelLinear(nn.Linear(4, 6), tp, (3, 3)),
        lambda: ColumnParallelLinear(nn.Linear(4, 6), tp, (2, 2)),
        lambda: ColumnParallelLinear(nn.Linear(4, 8), tp, (4, 4), gather_output=True),
        lambda: RowParallelLinear(nn.Linear(5, 4), tp),
        lambda: ParallelAttention(Attention(6, 3), tp),
        lambda: ParallelAttention(Attention(8, 4, 1), tp),
        lambda: VocabParallelEmbedding(nn.Embedding(8, 4, max_norm=1.0), tp),
        lambda: VocabParallelEmbedding(nn.Embedding(8, 4), tp)(torch.tensor([8])),
        lambda: TensorParallel(ring=True),
    ):
        try:
            make()
            said.append("accepted")
        except ValueError as error:
            said.append(str(error))
    return said


def test_refusals_name_the_argument_and_the_way_out(ranks):
    first, second = ranks(2, refusals)
    assert first == second
    for said, words in zip(
        first,
        [
            "linear.weight (its outputs) has 5 rows or columns to share, which 2 ranks do not divide: take 4 or 6",
            "has 3 rows or columns",
            "parts=(2, 2) add up to 4, but linear has 6 outputs",
            "give one part",
            "linear.weight (its inputs) has 5",
            "heads=3: 2 ranks do not divide them",
            "kv_heads=1: 2 ranks do not divide them",
            "max_norm",
            "tokens has 8 to 8, but the vocabulary is 0 to 7",
            "set sequence=True",
        ],
        strict=True,
    ):
        assert words in said


def frozen():
    """A weight that does not train has no gradient, and its input is not gathered for one; the others are right."""
    tp = TensorParallel(sequence=True)
    linear = made(0, lambda: nn.Linear(4, 6))
    linear.weight.requires_grad_(False)
    twin = ColumnParallelLinear(linear, tp)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    with counted() as traffic:
        twin(x).sum().backward()
    assert twin.weight.grad is None
    assert twin.bias.grad.tolist() == [12.0] * 3  # 2 sequences of 2 · 3 places
    assert torch.allclose(x.grad, linear.weight.sum(0).expand_as(x), rtol=1e-12)
    return traffic.elements[torch.float64]


def test_a_frozen_weight(ranks):
    assert ranks(2, frozen) == [2 * 24] * 2  # a gather and a reduce-scatter, of half of 2 · 6 · 4
