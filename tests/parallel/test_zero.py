"""Training with ZeRO on real ranks, against one process that trains the plain model on the whole batch."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import parallel
from parallel.mesh import Mesh
from parallel.model import GPT, Config
from parallel.zero import Zero
from tests.parallel.sharded import (
    MODELS,
    ROWS,
    STAGES,
    Alone,
    Frozen,
    Recomputed,
    Stack,
    Twice,
    adamw,
    batch,
    built,
    compare,
    mine,
    momentum,
    on_rank,
    parameters_of,
    same,
    train_plain,
    train_zero,
)

WORLDS = [1, 2, 3, 4, 5]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("model", "world"), [(model, world) for model in MODELS for world in (WORLDS if model in (Stack, Twice) else [3])]
)
def test_trains_like_one_process(ranks, model, world, stage):
    compare(ranks(world, train_zero, model, adamw, stage=stage), train_plain(model, world, adamw))


@pytest.mark.parametrize("options", [
    {"gather": "broadcast"}, {"gather": "broadcast", "stage": 1}, {"prefetch": 0}, {"prefetch": 2}, {"prefetch": 9},
    {"reshard_after_forward": False}, {"gather": "broadcast", "prefetch": 0, "reshard_after_forward": False},
])  # fmt: skip
@pytest.mark.parametrize("model", [Stack, Twice, Frozen, Recomputed])
def test_options_change_no_number(ranks, model, options):
    compare(ranks(3, train_zero, model, momentum, **options), train_plain(model, 3, momentum))


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return (x[:, :3] * self.w).sum(-1, keepdim=True)


@pytest.mark.parametrize("stage", STAGES)
def test_more_ranks_than_parameters(ranks, stage):
    """Three parameters on eight ranks: five of them have nothing but padding."""
    compare(ranks(8, train_zero, Three, adamw, steps=2, stage=stage), train_plain(Three, 8, adamw, steps=2))


def train_hybrid(shape, model, stage):
    return train_zero(model, adamw, steps=3, stage=stage, group=Mesh(dp_replicate=shape[0], dp_shard=shape[1]))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1)])
def test_hybrid_sharding(ranks, stage, shape):
    world = shape[0] * shape[1]
    compare(ranks(world, train_hybrid, shape, Twice, stage), train_plain(Twice, world, adamw, steps=3))


# Against torch's own.


def tokens(step, rows, config):
    torch.manual_seed(step)
    return torch.randint(config.vocabulary, (rows, 8)), torch.randint(config.vocabulary, (rows, 8))


GPT_CONFIG = Config(layers=3, hidden=20, heads=2, vocabulary=31, positions=8)


def train_gpt(stage, kind):
    """This project's, or torch's twin on the same ranks: FSDP2 for stage 3, ZeroRedundancyOptimizer for stage 1."""
    rank, world, rate = dist.get_rank(), dist.get_world_size(), 1e-2
    factory = partial(torch.optim.AdamW, lr=rate, eps=1e-4)
    torch.manual_seed(0 if kind == "torch" else rank)
    module = GPT(GPT_CONFIG)
    if kind == "ours":
        zero = Zero(module, factory, stage=stage)
        call, zero_grad, step = zero, zero.zero_grad, zero.step
    elif stage == 3:
        from torch.distributed.fsdp import fully_shard

        for block in module.blocks:
            fully_shard(block)
        fully_shard(module)
        optimizer = factory(module.parameters())
        call, zero_grad, step = module, optimizer.zero_grad, optimizer.step
    else:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        call = nn.parallel.DistributedDataParallel(module)
        optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.AdamW, lr=rate, eps=1e-4)
        zero_grad, step = optimizer.zero_grad, optimizer.step
    losses = []
    for number in range(5):
        x, y = (t[2 * rank : 2 * rank + 2] for t in tokens(number, 2 * world, GPT_CONFIG))
        zero_grad()
        loss = F.cross_entropy(call(x).flatten(0, 1), y.flatten())
        loss.backward()
        step()
        losses.append(loss.item())
    if kind == "ours":
        return losses, parameters_of(zero)
    return losses, {
        n: (p.full_tensor() if hasattr(p, "full_tensor") else p).detach() for n, p in module.named_parameters()
    }


@pytest.mark.parametrize("stage", [1, 3])
def test_trains_like_torch_s_own(ranks, stage):
    """fp32. (AdamW with an eps: a key's bias has a gradient of rounding noise, which it would turn into full steps.)"""
    for (losses, after), (wanted, torch_s) in zip(
        ranks(2, train_gpt, stage, "ours"), ranks(2, train_gpt, stage, "torch"), strict=True
    ):
        assert losses == pytest.approx(wanted, abs=1e-5)
        same(after, torch_s, 1e-5)


def test_fp32_loss_is_that_of_one_process(ranks):
    torch.manual_seed(0)
    module = GPT(GPT_CONFIG)
    optimizer, wanted = torch.optim.AdamW(module.parameters(), lr=1e-2, eps=1e-4), []
    for number in range(5):
        x, y = tokens(number, 6, GPT_CONFIG)
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    for stage in STAGES:
        every = ranks(3, train_gpt, stage, "ours")
        means = [sum(losses) / 3 for losses in zip(*(losses for losses, _ in every), strict=True)]
        assert means == pytest.approx(wanted, abs=1e-5)
        same(every[0][1], dict(module.named_parameters()), 1e-5)


# Optimizers.


def decayed(parameters):
    """Weights decay, all else does not; the rate of the second group changes."""
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.3},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0, "lr": 0.03},
        ],
        lr=0.01,
    )


def decayed_by_name(module, parameters):
    """The same, made of the module's own parameters by name, as closures often do."""
    weights = [p for name, p in module.named_parameters() if name.endswith("weight") and "norm" not in name]
    others = [p for name, p in module.named_parameters() if not name.endswith("weight") or "norm" in name]
    groups = [{"params": weights, "weight_decay": 0.3}, {"params": others, "weight_decay": 0.0, "lr": 0.03}]
    return torch.optim.AdamW(groups, lr=0.01)


def schedule(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda step: 1 / (1 + step), lambda step: 2.0**step])


def train_groups(stage, by_name):
    module = on_rank(Stack)
    zero = Zero(module, partial(decayed_by_name, module) if by_name else decayed, stage=stage)
    scheduler = schedule(zero.optimizer)
    for step in range(4):
        x, y = (mine(t) for t in batch(step, ROWS * dist.get_world_size()))
        zero.zero_grad()
        out = zero(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        zero.step()
        scheduler.step()
    return parameters_of(zero), [group["lr"] for group in zero.optimizer.param_groups]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("by_name", [False, True])
def test_groups_and_schedulers(ranks, stage, by_name):
    """A layer has both kinds of parameters, so the border between groups lies inside every rank's slice."""
    module = built(Stack)
    optimizer = decayed(list(module.parameters()))
    scheduler = schedule(optimizer)
    for step in range(4):
        x, y = batch(step, ROWS * 3)
        optimizer.zero_grad()
        out = module(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        optimizer.step()
        scheduler.step()
    for after, rates in ranks(3, train_groups, stage, by_name):
        same(after, dict(module.named_parameters()))
        assert rates == [group["lr"] for group in optimizer.param_groups]


OPTIMIZERS = ["ASGD", "Adadelta", "Adagrad", "Adam", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]


def made(name, options, parameters):
    return getattr(torch.optim, name)(parameters, lr=0.01, **options)


def made_of_the_module(module, name, options, parameters):
    return made(name, options, module.parameters())


def train_each(options):
    return [train_zero(Alone, partial(made, name, options), steps=3) for name in OPTIMIZERS]


def state_made_early():
    module = on_rank(Alone)
    return Zero(module, partial(made_of_the_module, module, "Adagrad", {"initial_accumulator_value": 3.0})).state_dict()


def test_state_that_is_made_early_is_cut(ranks):
    module = built(Alone)
    wanted = made_of_the_module(module, "Adagrad", {"initial_accumulator_value": 3.0}, None).state_dict()["state"]
    for state in ranks(2, state_made_early):
        assert state["optimizer"]["state"].keys() == wanted.keys()
        for number, entries in wanted.items():
            assert torch.equal(state["optimizer"]["state"][number]["sum"], entries["sum"])


@pytest.mark.parametrize("options", [{}, {"foreach": True}])
def test_optimizers_by_element(ranks, options):
    """57 parameters on two ranks; Adagrad makes its state before the first step."""
    for name, *histories in zip(OPTIMIZERS, *ranks(2, train_each, options), strict=True):
        compare(histories, train_plain(Alone, 2, partial(made, name, options), steps=3))


def clipped(stage, group):
    group = Mesh(dp_replicate=2, dp_shard=2) if group == "hybrid" else None
    zero = Zero(on_rank(Stack), momentum, stage=stage, group=group)
    norms = []
    for step in range(3):
        x, y = (mine(t) for t in batch(step, ROWS * dist.get_world_size()))
        zero.zero_grad()
        out = zero(x)
        (100 * F.mse_loss(out, y.expand_as(out))).backward()
        norms.append(parallel.clip_grad_norm_(zero, 1.0).item())
        zero.step()
    return norms, parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("group", ["plain", "hybrid"])
def test_clips_by_the_norm_of_all(ranks, stage, group):
    module = built(Stack)
    optimizer, wanted = momentum(list(module.parameters())), []
    for step in range(3):
        x, y = batch(step, ROWS * 4)
        optimizer.zero_grad()
        out = module(x)
        (100 * F.mse_loss(out, y.expand_as(out))).backward()
        wanted.append(nn.utils.clip_grad_norm_(module.parameters(), 1.0).item())
        optimizer.step()
    assert min(wanted) > 1
    for norms, after in ranks(4, clipped, stage, group):
        # torch divides by norm + 1e-6
        assert norms == pytest.approx(wanted, rel=1e-5)
        same(after, dict(module.named_parameters()), 1e-6)
