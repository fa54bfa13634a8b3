"""State saved on some ranks and loaded on others: it must not matter how many, which stage, or whether ZeRO at all."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel.model import GPT, Config
from parallel.zero import Zero

CONFIG = Config(layers=2, hidden=12, heads=2, vocabulary=13, positions=8)
BATCH = 12  # rows of all ranks together: 1, 2, 3 and 4 divide it


class Model(GPT):
    """Tied, with buffers, a scalar, frozen parameters, and one that nobody uses."""

    def __init__(self):
        super().__init__(CONFIG)
        self.temperature = nn.Parameter(torch.tensor(1.5))
        self.unused = nn.Parameter(torch.randn(5))
        self.register_buffer("shift", torch.randn(3))
        self.blocks[0].mlp.down.requires_grad_(False)

    def forward(self, tokens):
        return super().forward(tokens) * self.temperature + self.shift.sum()


def model(seed):
    torch.manual_seed(seed)
    return Model().double()


def adamw(parameters):
    """Two groups that lie across each other; the counters differ, as one parameter is never used."""
    return torch.optim.AdamW(
        [{"params": parameters[1::2], "weight_decay": 0.2}, {"params": parameters[0::2], "lr": 0.02}], lr=0.01
    )


def steps(call, zero_grad, step, numbers, rank=0, world=1):
    for number in numbers:
        torch.manual_seed(number)
        x = torch.randint(13, (BATCH, 8))[rank * BATCH // world : (rank + 1) * BATCH // world]
        zero_grad()
        F.cross_entropy(call(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten()).backward()
        step()


def train(zero, numbers):
    steps(zero, zero.zero_grad, zero.step, numbers, dist.get_rank(), dist.get_world_size())
    return zero.state_dict()


def start(factory, stage, numbers, seed=0, **options):
    return train(Zero(model(seed + dist.get_rank()), factory, stage=stage, **options), numbers)


def resume(factory, stage, state, numbers, seed=50, **options):
    zero = Zero(model(seed + dist.get_rank()), factory, stage=stage, **options)
    zero.load_state_dict(state)
    return train(zero, numbers)


def plain(factory, numbers, state=None):
    module = model(0)
    optimizer = factory([p for p in module.parameters() if p.requires_grad])
    if state is not None:
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
    steps(module, optimizer.zero_grad, optimizer.step, numbers)
    return {"module": module.state_dict(), "optimizer": optimizer.state_dict()}


def same(one, other, tolerance=0.0):
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key], tolerance)
    elif isinstance(one, list):
        for a, b in zip(one, other, strict=True):
            same(a, b, tolerance)
    else:
        assert one == other


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("factory", [adamw, partial(torch.optim.SGD, lr=0.1, momentum=0.9)])
def test_the_state_is_that_of_one_process(ranks, stage, factory):
    """Torch's own format: what is saved can be loaded by the plain module and optimizer, and the reverse."""
    wanted = plain(factory, range(3))
    for state in ranks(3, start, factory, stage, range(3)):
        same({key: state[key] for key in wanted}, wanted, 1e-9)
    more = plain(factory, range(3, 5), state)
    for resumed in ranks(2, resume, factory, stage, wanted, range(3, 5)):
        same({key: resumed[key] for key in more}, more, 1e-9)


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_resuming_is_as_if_nothing_had_been(ranks, stage, precision):
    """Bitwise: four steps, or three, saved, loaded into fresh objects, and one more."""
    straight = ranks(2, start, adamw, stage, range(4), precision=precision)
    saved = ranks(2, start, adamw, stage, range(3), precision=precision)
    resumed = ranks(2, resume, adamw, stage, saved[1], range(3, 4), precision=precision)
    for one, other in zip(straight, resumed, strict=True):
        same(one, other)


@pytest.mark.parametrize(("world", "stage"), [(1, 3), (2, 3), (3, 1), (3, 2), (4, 3)])
def test_other_ranks_and_other_stages(ranks, world, stage):
    """Saved on four ranks in stage 3 and loaded anywhere: what is saved again is the same, bit by bit."""
    state = ranks(4, start, adamw, 3, range(3))[3]
    for again in ranks(world, resume, adamw, stage, state, []):
        same(again, state)
    wanted = plain(adamw, range(5))
    for after in ranks(world, resume, adamw, stage, state, range(3, 5)):
        same({key: after[key] for key in wanted}, wanted, 1e-9)


def wrong_states():
    zero = Zero(model(0), adamw)
    state, found = zero.state_dict(), []
    missing = dict(state, module={k: v for k, v in state["module"].items() if k != "norm.bias"})
    shaped = dict(state, module=dict(state["module"], unused=torch.zeros(4)))
    for wrong in (missing, shaped):
        with pytest.raises(ValueError, match="state") as caught:
            zero.load_state_dict(wrong)
        found.append(str(caught.value))
    return found


def test_state_of_another_model(ranks):
    for missing, shaped in ranks(2, wrong_states):
        assert "norm.bias" in missing
        assert "unused" in shaped


class OfItsOwn(torch.optim.Optimizer):
    """Updates copies, as an optimizer on another device would."""

    def __init__(self, parameters):
        self.given = list(parameters)
        copies = [p.detach().clone().requires_grad_() for p in self.given]
        self.inner = torch.optim.SGD(copies, lr=0.1)
        super().__init__(self.inner.param_groups, {})

    @torch.no_grad()
    def step(self, closure=None):
        for given, copy in zip(self.given, self.param_groups[0]["params"], strict=True):
            copy.grad = given.grad
        self.inner.step()
        for given, copy in zip(self.given, self.param_groups[0]["params"], strict=True):
            given.copy_(copy)


class InBlocks(torch.optim.SGD):
    """Its state has another shape than the parameter."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["codes"] = torch.zeros(7, 3)
        super().step()


def unusual(factory):
    zero = Zero(model(dist.get_rank()), factory)
    steps(zero, zero.zero_grad, zero.step, range(2), dist.get_rank(), dist.get_world_size())
    with pytest.raises(ValueError, match="on every rank by itself") as caught:
        zero.state_dict()
    with zero.whole() as module:
        return str(caught.value), module.embedding.weight.detach().clone()


@pytest.mark.parametrize(
    ("factory", "words"), [(OfItsOwn, "parameters of its own"), (partial(InBlocks, lr=0.1), "'codes'")]
)
def test_an_optimizer_that_cannot_be_put_together_trains_but_is_not_saved_wrongly(ranks, factory, words):
    wanted = plain(partial(torch.optim.SGD, lr=0.1), range(2))["module"]["embedding.weight"]
    for message, weight in ranks(2, unusual, factory):
        assert words in message
        same(weight, wanted, 1e-9)
