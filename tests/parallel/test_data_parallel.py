"""Data parallel by threads against the module alone, with the five exchanges counted."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from parallel import DataParallel, formulas
from parallel.model import GPT, SIZES


def model_and_batch(rows):
    torch.manual_seed(0)
    config = SIZES["tiny"]
    tokens = torch.randint(0, config.vocabulary, (rows, 17))
    return GPT(config).double(), tokens[:, :-1], tokens[:, 1:]


@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_five_steps_are_those_of_the_module_alone(replicas, rows):
    """Also where the batch does not divide, or has fewer rows than there are replicas."""
    alone, tokens, targets = model_and_batch(rows)
    module = copy.deepcopy(alone)
    parallel = DataParallel(module, ["cpu"] * replicas)
    steppers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (alone, module)]
    for _ in range(5):
        losses = [F.cross_entropy(m(tokens).flatten(0, 1), targets.flatten()) for m in (alone, parallel)]
        assert losses[1].item() == pytest.approx(losses[0].item(), abs=1e-9)
        for loss, stepper in zip(losses, steppers, strict=True):
            stepper.zero_grad()
            loss.backward()
            stepper.step()
        for a, b in zip(alone.parameters(), module.parameters(), strict=True):
            assert (a.grad - b.grad).abs().max() < 1e-9
            assert (a - b).abs().max() < 1e-9


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_five_exchanges_of_a_step(replicas):
    module, tokens, targets = model_and_batch(8)
    parallel = DataParallel(module, ["cpu"] * replicas)
    F.cross_entropy(parallel(tokens).flatten(0, 1), targets.flatten()).backward()
    parameters = sum(p.numel() for p in module.parameters())
    outputs = tokens.numel() * module.config.vocabulary
    wanted = formulas.thread_exchanges(parameters, parameters, tokens.numel(), outputs, replicas)
    assert wanted == {name: parallel.exchanges[name] for name in wanted}
    assert sum(parallel.exchanges.values()) == sum(wanted.values())


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.used.weight
        self.used.bias.requires_grad_(False)
        self.register_buffer("scale", torch.tensor(2.0))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, pair, factor=1.0, *, names):
        x, y = pair
        return {"sum": self.tied(self.used(x)) * self.scale + y, "norm": self.norm(x), "factor": factor, "n": names}


def test_structures_buffers_frozen_tied_and_unused_parameters():
    torch.manual_seed(0)
    module = Odd()
    alone = copy.deepcopy(module)
    x = torch.randn(5, 3, requires_grad=True)
    z = x.detach().clone().requires_grad_(True)
    y = torch.randn(5, 3)
    got = DataParallel(module, ["cpu"] * 2)((x, y), 3.0, names=["a"])
    wanted = alone((z, y), 3.0, names=["a"])
    assert (got["factor"], got["n"]) == (3.0, ["a"])
    assert torch.allclose(got["sum"], wanted["sum"])
    got["sum"].square().sum().backward()
    wanted["sum"].square().sum().backward()
    assert torch.allclose(x.grad, z.grad)
    for (name, p), q in zip(module.named_parameters(), alone.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        assert p.grad is None or torch.allclose(p.grad, q.grad), name
    once = nn.BatchNorm1d(3)
    once(x[:3])
    assert torch.equal(module.norm.running_mean, once.running_mean)  # replica 0's share, on the module itself


class Modes(nn.Linear):
    def forward(self, x):
        return super().forward(x), torch.is_grad_enabled()


def test_modes_of_this_thread_hold_in_the_others():
    modes = DataParallel(Modes(2, 2), ["cpu"] * 2)
    assert modes(torch.ones(4, 2))[1] is True
    with torch.no_grad():
        assert modes(torch.ones(4, 2))[1] is False
    parallel = DataParallel(nn.Linear(2, 2), ["cpu"] * 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert parallel(torch.ones(4, 2)).dtype == torch.bfloat16
    with torch.inference_mode():
        assert parallel(torch.ones(4, 2)).is_inference()
    assert DataParallel(nn.Linear(2, 2), ["cpu"] * 2)(torch.ones(0, 2)).shape == (0, 2)


class Picky(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x, y=None):
        if (x > 2).any():
            raise ArithmeticError("too large")
        return x * self.weight if x[0] > 0 else [x * self.weight]


def test_refused():
    parallel = DataParallel(Picky(), ["cpu"] * 3)
    with pytest.raises(ArithmeticError, match="too large") as caught:
        parallel(torch.tensor([1.0, 1.0, 3.0]))
    assert caught.value.__notes__ == ["on replica 2 of 3"]
    with pytest.raises(ValueError, match="inputs have 2 and 3 rows"):
        parallel(torch.ones(2), torch.ones(3))
    with pytest.raises(ValueError, match="differ in form"):
        parallel(torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="no parameters"):
        DataParallel(nn.ReLU(), ["cpu"])
    with pytest.raises(ValueError, match="name one a replica"):
        DataParallel(nn.Linear(1, 1), [])
    with pytest.raises(ValueError, match="must be on the first device"):
        DataParallel(nn.Linear(1, 1, device="meta"), ["cpu"] * 2)
