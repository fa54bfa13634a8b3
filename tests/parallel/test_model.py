"""The plain GPT, and the loss per token."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from parallel.loss import token_weight
from parallel.model import GPT, NO_TARGET, SIZES, Config, cross_entropy


@pytest.mark.parametrize("name", SIZES)
def test_parameters_are_those_of_the_closed_form(name):
    """12·l·h² + 13·l·h + (v + s)·h + 2h, the tied head counted once."""
    c = SIZES[name]
    with torch.device("meta"):
        count = sum(p.numel() for p in GPT(c).parameters())
    assert count == 12 * c.layers * c.hidden**2 + 13 * c.layers * c.hidden + (
        (c.vocabulary + c.positions) * c.hidden + 2 * c.hidden
    )
    assert name != "25m" or 25e6 < count < 26e6


def test_gpt_2_has_124_million():
    with torch.device("meta"):
        model = GPT(Config(layers=12, hidden=768, heads=12, vocabulary=50257, positions=1024))
    assert sum(p.numel() for p in model.parameters()) == 124_439_808


def test_no_token_sees_a_later_one():
    torch.manual_seed(0)
    model = GPT(SIZES["tiny"])
    tokens = torch.randint(0, 256, (2, 12))
    other = tokens.clone()
    other[:, 7:] = (other[:, 7:] + 1) % 256
    with torch.no_grad():
        before, after = model(tokens), model(other)
    assert torch.allclose(before[:, :7], after[:, :7], atol=1e-6)
    assert (before[:, 7:] - after[:, 7:]).abs().amax(dim=-1).min() > 1e-4


def test_it_starts_at_chance_and_learns():
    torch.manual_seed(0)
    model = GPT(SIZES["tiny"])
    assert model.head.weight is model.embedding.weight
    tokens = torch.randint(0, 256, (4, 33))
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        total, count = cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])
        losses.append((total / count).item())
        stepper.zero_grad()
        (total / count).backward()
        stepper.step()
    assert losses[0] == pytest.approx(5.545, abs=0.2)  # ln 256
    assert losses[-1] < 0.5


def test_cross_entropy_counts_valid_targets():
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1, NO_TARGET, 2], [NO_TARGET, NO_TARGET, 4]])
    total, count = cross_entropy(logits, targets)
    assert count == 3
    assert torch.allclose(total / count, F.cross_entropy(logits.flatten(0, 1), targets.flatten()))
    total, count = cross_entropy(logits, torch.full((2, 3), NO_TARGET))
    assert (total.item(), count.item()) == (0.0, 0)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"layers": 0}, "layers=0"),
        ({"heads": 3}, "heads=3 does not divide hidden=8: take 1 heads"),
        ({"vocabulary": 2.5}, "vocabulary=2.5"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_shapes_that_make_no_sense(sizes, said):
    with pytest.raises(ValueError, match=said):
        Config(**({"layers": 1, "hidden": 8, "heads": 2} | sizes))


def test_too_long_a_sequence():
    with pytest.raises(ValueError, match="tokens has 65 places, but the model 64"):
        GPT(SIZES["tiny"])(torch.zeros(1, 65, dtype=torch.int64))


def weights(counts):
    try:
        return token_weight(counts[dist.get_rank()])
    except ValueError as error:
        return str(error)


def test_a_mean_per_token_is_no_mean_of_means(ranks):
    """The published case: 3 tokens with sum 6 and 1 with sum 10 have the mean 4, not 6."""
    first, second = ranks(2, weights, [3, 1])
    assert first == second
    assert (6 * first + 10 * second) / 2 == 4.0
    assert ranks(2, weights, [[1, torch.tensor(2)], [1, 0]]) == [0.5, 0.5]
    assert all("no rank has a valid token" in said for said in ranks(2, weights, [0, 0]))
