"""The ledger of live bytes, against sums done by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
import torch
from torch import Tensor, nn

from parallel.memory import KINDS, Bytes, Ledger
from parallel.precision import MixedPrecision
from parallel.recompute import checkpoint, matmuls

BATCH, WIDTH, INNER, DEPTH = 10, 16, 48, 5
BLOCK = WIDTH * INNER + INNER + INNER * WIDTH + WIDTH  # parameters
FLOAT = 4


def blocks() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH)) for _ in range(DEPTH))
    )


def expect(found: Bytes, **kinds: int) -> None:
    assert found == {**dict.fromkeys(KINDS, 0), **kinds, "total": sum(kinds.values())}


def test_a_step_of_adam_at_rest() -> None:
    """X parameters in fp32: 4X, then 4X of gradients, then 8X of moments; a counter of 4 bytes a parameter tensor."""
    model = blocks()
    optimizer = torch.optim.AdamW(model.parameters())
    states, tensors = DEPTH * BLOCK * FLOAT, 4 * DEPTH
    expect(Ledger(model, optimizer).now(), parameters=states)
    with Ledger(model, optimizer) as ledger:
        model(torch.ones(BATCH, WIDTH)).sum().backward()
        expect(ledger.now(), parameters=states, gradients=states)
        optimizer.step()
    everything = {"parameters": states, "gradients": states, "optimizer": 2 * states, "other": 4 * tensors}
    expect(ledger.now(), **everything)
    optimizer.zero_grad()
    expect(ledger.now(), **{**everything, "gradients": 0})


@pytest.mark.parametrize(
    ("save", "kept"),
    [
        ("everything", INNER + WIDTH),  # of each block ReLU's result and its own, which is the next one's input
        ("inputs", WIDTH),
        ("matmuls", WIDTH + INNER + WIDTH),  # the input, and both products: ReLU's result is computed again
    ],
)
def test_activations_between_forward_and_backward(save: str, kept: int) -> None:
    model = blocks()
    with Ledger(model) as ledger:
        value = torch.ones(BATCH, WIDTH)  # made by the caller, while the ledger watches
        made = value
        for block in model:
            if save == "everything":
                value = block(value)
            else:
                value = checkpoint(block, value, save=matmuls if save == "matmuls" else None)
        own = made.nbytes
        once = BATCH * WIDTH * FLOAT if save == "matmuls" else 0  # a block's product is its result: one storage
        assert ledger.now()["activations"] - own == DEPTH * (BATCH * kept * FLOAT - once)
    assert value.requires_grad


def test_the_peak_of_a_recomputed_backward_is_the_inputs_and_one_block() -> None:
    model = blocks()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with Ledger(model) as ledger:
        value = torch.ones(BATCH, WIDTH)
        for block in model:
            value = checkpoint(block, value)
        loss = value.sum()
        del value
        ledger.reset_peak()
        loss.backward()
    of_one = BATCH * (INNER + WIDTH) * FLOAT
    inputs = DEPTH * BATCH * WIDTH * FLOAT
    scalar = FLOAT
    assert inputs < ledger.peak["activations"] <= inputs + of_one + scalar
    assert ledger.now()["activations"] <= scalar + BATCH * WIDTH * FLOAT


def test_what_lies_in_one_storage_counts_once() -> None:
    model = nn.Linear(6, 6, bias=False)
    flat = torch.zeros(100)
    model.weight.grad = flat[10:46].view(6, 6)
    expect(Ledger(model).now(), parameters=36 * FLOAT, gradients=100 * FLOAT)
    tied = nn.ModuleList([model, nn.Linear(6, 6, bias=False)])
    tied[1].weight = model.weight
    expect(Ledger(tied).now(), parameters=36 * FLOAT, gradients=100 * FLOAT)


def test_buffers_and_memory_that_has_been_given_back() -> None:
    model = nn.BatchNorm1d(8)
    assert Ledger(model).now()["buffers"] == 2 * 8 * FLOAT + 8
    model.weight.untyped_storage().resize_(0)  # as a sharded layer's is between its uses
    assert Ledger(model).now()["parameters"] == 8 * FLOAT


def test_who_holds_more_is_asked() -> None:
    class Sharded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shard, self.master = torch.zeros(5), torch.zeros(7, dtype=torch.float64)

        def holdings(self) -> Mapping[str, Iterable[Tensor]]:
            return {"parameters": [self.shard], "optimizer": [self.master]}

    expect(Ledger(Sharded()).now(), parameters=20, optimizer=56)


def test_each_kind_has_a_maximum_of_its_own() -> None:
    """Activations first, temporaries later and more of them: the highest total has no activation in it."""
    model = nn.Linear(10, 10, bias=False)
    with Ledger(model) as ledger:
        out = model(torch.ones(4, 10))
        del out
        with torch.no_grad():
            torch.ones(1000)
    assert ledger.peak["activations"] == 0
    assert ledger.tops == {
        **dict.fromkeys(KINDS, 0),
        "parameters": 100 * FLOAT,
        "activations": 2 * 40 * FLOAT,  # the input, too, was made while it watched
        "other": 1000 * FLOAT,
        "total": 1100 * FLOAT,
    }


def test_masters_and_states_of_mixed_precision_are_the_optimizer_s() -> None:
    """16X: 2X, 2X and 12X; when the update has begun, 4X of unscaled gradients instead of the rounded ones."""
    model = nn.Linear(10, 10, bias=False)
    mixed = MixedPrecision(model, torch.optim.AdamW, "bf16")
    ledger = Ledger(model, mixed)
    for _ in range(2):
        mixed.zero_grad()
        model(torch.ones(4, 10)).sum().backward()
        held = ledger.now()
        mixed.step()
    assert [held[kind] for kind in ("parameters", "gradients", "optimizer")] == [200, 200, 1200]
    assert [ledger.now()[kind] for kind in ("parameters", "gradients", "optimizer")] == [200, 400, 1200]


def test_temporaries_show_in_the_peak_and_are_gone_afterwards() -> None:
    with Ledger(nn.Identity()) as ledger, torch.no_grad():
        value = torch.ones(1000)
        total = (value + 1).sum()  # value, value + 1, and the sum when value + 1 is not yet gone
    expect(ledger.peak, other=8000 + FLOAT)
    assert ledger.tops == ledger.peak
    expect(ledger.now(), other=4000 + FLOAT)
    assert total == 2000
