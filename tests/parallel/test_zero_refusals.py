"""What ZeRO refuses before anything is sent, and what may change after wrapping."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import parallel
from parallel.zero import Zero
from tests.parallel.sharded import (
    ROWS,
    STAGES,
    Frozen,
    adamw,
    batch,
    built,
    mine,
    momentum,
    on_rank,
    parameters_of,
    same,
)


def refused(world_function):
    with pytest.raises(ValueError, match=r"\w") as caught:
        world_function()
    return str(caught.value)


def bad_inputs():
    linear = nn.Linear(2, 2)
    frozen = nn.Linear(2, 2).requires_grad_(False)
    sgd = partial(torch.optim.SGD, lr=0.1)
    cases = {
        "stage=0": lambda: Zero(linear, sgd, stage=0),
        "stage=4": lambda: Zero(linear, sgd, stage=4),
        "stage=True": lambda: Zero(linear, sgd, stage=True),
        "no trainable parameter": lambda: Zero(frozen, sgd),
        "no trainable parameter ": lambda: Zero(nn.Module(), sgd),
        "prefetch=-1": lambda: Zero(linear, sgd, prefetch=-1),
        "gather='ring'": lambda: Zero(linear, sgd, gather="ring"),
        "optimizer is a SGD": lambda: Zero(linear, sgd(linear.parameters())),
        "returned a list": lambda: Zero(linear, list),
        "LBFGS": lambda: Zero(linear, torch.optim.LBFGS),
        "group 0": lambda: Zero(linear, lambda parameters: sgd(frozen.parameters())),
        "precision='int8'": lambda: Zero(linear, sgd, precision="int8"),
        "module is a list": lambda: Zero([linear], sgd),
    }
    return {words: refused(case) for words, case in cases.items()}


def test_bad_input_is_refused_before_anything_is_sent(ranks):
    for found in ranks(1, bad_inputs):
        for words, message in found.items():
            assert words.strip() in message


DIFFERENT = {
    "shape": lambda rank: Zero(nn.Linear(3 + rank, 2), momentum),
    "frozen": lambda rank: Zero(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(rank == 0)), momentum),
    "stage": lambda rank: Zero(nn.Linear(2, 2), momentum, stage=1 + rank % 2),
    "prefetch": lambda rank: Zero(nn.Linear(2, 2), momentum, prefetch=rank),
    "one copy of two": lambda rank: Zero(
        nn.Linear(2, 2 + rank // 2), momentum, group=parallel.Mesh(dp_replicate=2, dp_shard=2)
    ),
}


def different(what):
    return refused(lambda: DIFFERENT[what](dist.get_rank()))


@pytest.mark.parametrize("what", DIFFERENT)
def test_ranks_that_differ_are_refused_on_all(ranks, what):
    for said in ranks(4, different, what):
        assert "differ between ranks (rank 0:" in said


def changed(stage):
    module = on_rank(Frozen)
    zero = Zero(module, adamw, stage=stage)
    x, y = (mine(t) for t in batch(0, ROWS * dist.get_world_size()))
    snapshots = []
    for step in range(4):
        zero.zero_grad()
        out = zero(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        zero.step()
        snapshots.append(parameters_of(zero))
        if step == 1:
            module.layers[0].requires_grad_(False)
    module.layers[1].gain.requires_grad_(True)
    thawed = refused(lambda: zero(x))
    module.layers[1].gain.requires_grad_(False)
    module.float()
    converted = refused(lambda: zero(x))
    module.double()
    module.extra = nn.Linear(2, 2)
    return snapshots, thawed, converted, refused(lambda: zero(x))


@pytest.mark.parametrize("stage", STAGES)
def test_freezing_later_thawing_converting_and_new_parameters(ranks, stage):
    module = built(Frozen)
    optimizer = adamw([p for p in module.parameters() if p.requires_grad])
    x, y = batch(0, ROWS * 2)
    wanted = []
    for step in range(4):
        optimizer.zero_grad()
        out = module(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        optimizer.step()
        wanted.append(copy.deepcopy(dict(module.named_parameters())))
        if step == 1:
            module.layers[0].requires_grad_(False)
    for snapshots, thawed, converted, extra in ranks(2, changed, stage):
        for got, want in zip(snapshots, wanted, strict=True):
            same(got, {name: value.detach() for name, value in want.items()})
        assert "layers.1.gain was frozen" in thawed
        assert "was torch.float64 on cpu when the module was wrapped, and is torch.float32 on cpu" in converted
        assert "extra.weight is a new parameter" in extra


def lost(stage, precision, how):
    """What the forward says after a parameter has been written to or replaced; and after loading what it shall be."""
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    zero = Zero(module, adamw, stage=stage, precision=precision)
    x = torch.ones(1, 3)
    zero(x).sum().backward()
    zero.step()
    state = zero.state_dict()
    if how == "written":
        with torch.no_grad():
            module[1].weight.fill_(0.5)
    else:
        module[1].weight.data = torch.full((2, 3), 0.5, dtype=module[1].weight.dtype)
    try:
        zero(x)
    except ValueError as error:
        said = str(error)
    else:
        return zero.state_dict()["module"]["1.weight"]
    if how == "written":
        state["module"]["1.weight"].fill_(0.5)
        zero.load_state_dict(state)
        zero(x)
    return said


@pytest.mark.parametrize("how", ["written", "replaced"])
@pytest.mark.parametrize(("stage", "precision"), [(1, None), (2, "bf16"), (3, None), (3, "bf16")])
def test_what_would_be_lost_is_refused(ranks, stage, precision, how):
    """Where the parameter is the state itself, what is written to it counts; elsewhere it would silently be undone."""
    for found in ranks(2, lost, stage, precision, how):
        if (stage, how) == (1, "written"):
            assert found.eq(0.5).all()
        else:
            assert "1.weight has been changed since the module was wrapped" in found


def buffers():
    module = nn.BatchNorm1d(4)
    module.running_mean.fill_(7.0 + dist.get_rank())
    Zero(module, momentum)
    return module.running_mean.tolist()


def test_buffers_are_those_of_the_first_rank(ranks):
    assert ranks(3, buffers) == [[7.0] * 4] * 3
