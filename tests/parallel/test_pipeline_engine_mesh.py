"""Pipelines side by side: data parallel, ZeRO-1, and clipping over the whole mesh."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch import nn

from parallel import Mesh, Stepper, Zero, clip_grad_norm_
from parallel.deferred import defer
from parallel.model import cross_entropy
from parallel.pipeline import Stages, find
from parallel.pipeline.chunk import Chunk
from parallel.pipeline.engine import Pipeline
from parallel.pipeline.splitting import split
from tests.parallel.pipelined import batch, loss_sum, pipeline, valid, whole, worst

LAYERS = 6


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.1, eps=1e-3)


def replicated_batch(replicas, number):
    """Rows for every replica, not the same number: replica i has 4 + i."""
    inputs, targets = batch(sum(4 + i for i in range(replicas)), seed=number)
    starts = [sum(4 + j for j in range(i)) for i in range(replicas + 1)]
    return inputs, targets, [slice(a, b) for a, b in pairwise(starts)]


def alone(replicas, make, steps, max_norm=None, tied=True):
    """One process with all rows: losses, norms, parameters."""
    model = whole(LAYERS, tied=tied)
    optimizer, losses, norms = make(model.parameters()), [], []
    for number in range(steps):
        optimizer.zero_grad()
        inputs, targets, _ = replicated_batch(replicas, number)
        total, count = cross_entropy(model(inputs), targets)
        (total / count).backward()
        if max_norm is not None:
            norms.append(clip_grad_norm_(model, max_norm).item())
        optimizer.step()
        losses.append((total / count).item())
    return losses, norms, {n: p.detach() for n, p in model.named_parameters(remove_duplicate=False)}


def beside(schedule, dp, pp, bucket_mb):
    """Pipelines in dp replicas: how far losses and parameters are from one process's."""
    mesh = Mesh(dp=dp, pp=pp)
    here = mesh.coordinates()
    model = whole(LAYERS)
    with torch.no_grad():  # replicas must become alike
        for p in model.parameters():
            p += here["dp"]
    pipe = pipeline(model, schedule, 3, group=mesh, bucket_mb=bucket_mb)
    optimizer, losses = sgd(pipe.parameters()), []
    for number in range(3):
        optimizer.zero_grad()
        inputs, targets, rows = replicated_batch(dp, number)
        losses.append(pipe.mean_loss(pipe.step(inputs[rows[here["dp"]]], targets[rows[here["dp"]]])).item())
        optimizer.step()
    expected, _, wanted = alone(dp, sgd, 3)
    return max(abs(a - b) for a, b in zip(losses, expected, strict=True)), worst(pipe, wanted, lambda p: p.detach())


@pytest.mark.parametrize(("dp", "pp"), [(2, 2), (3, 1), (1, 3)])
@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zbv"])
def test_replicas_of_pipelines_are_one_process(ranks, name, dp, pp):
    for off in ranks(dp * pp, beside, name, dp, pp, 0.002):
        assert max(off) < 1e-9


def test_a_parameter_is_complete_when_its_last_weight_gradient_is_there():
    torch.manual_seed(0)
    twice = nn.Linear(3, 3)
    module = nn.Sequential(twice, nn.LayerNorm(3), nn.Linear(3, 3), twice)
    names = {id(p): name for name, p in module.named_parameters()}
    chunk = Chunk(module, recompute=False, owed=defer(module)[0])
    for microbatch in range(2):
        chunk.forward(microbatch, [torch.randn(5, 3)], None)
        chunk.backward(microbatch, [torch.randn(5, 3)])
    assert twice.weight.grad is None  # owed
    chunk.pay(0)
    before, told = {name: p.grad.clone() for name, p in module.named_parameters()}, []

    def complete(parameters):
        changed = [name for name, p in module.named_parameters() if not torch.equal(p.grad, before[name])]
        told.append(([names[id(p)] for p in parameters], changed))

    chunk.pay(1, complete)
    first, middle = ["0.weight", "0.bias"], ["2.weight", "2.bias"]
    # the norm's came with the input gradients; of the layer that is used twice not before its second entry
    assert told == [(["1.weight", "1.bias"], []), ([], first), (middle, [*first, *middle]), (first, [*first, *middle])]


def zero_one(schedule, max_norm):
    mesh = Mesh(dp=2, pp=2)
    here = mesh.coordinates()
    chunks, tied = split(whole(LAYERS), Stages(find(schedule), 2), here["pp"])
    zero = Zero(torch.nn.ModuleList(chunks), adamw, stage=1, group=mesh.group("dp"))
    pipe = Pipeline(chunks, schedule, 3, loss_sum, valid, group=mesh, tied=tied, zero=zero, timeout=60)
    stepper, losses = Stepper(pipe, zero, max_norm), []
    norms = []
    for number in range(3):
        inputs, targets, rows = replicated_batch(2, number)
        losses.append(pipe.mean_loss(stepper.step(inputs[rows[here["dp"]]], targets[rows[here["dp"]]])).item())
        norms.append(stepper.norm.item())
    expected, expected_norms, wanted = alone(2, adamw, 3, max_norm)
    return (
        max(abs(a - b) for a, b in zip(losses, expected, strict=True)),
        max(abs(a - b) for a, b in zip(norms, expected_norms, strict=True)),
        worst(pipe, wanted, lambda p: p.detach()),
    )


@pytest.mark.parametrize("name", ["1f1b", "zb-h1"])
def test_zero_1_cuts_optimizer_states_along_dp(ranks, name):
    for off in ranks(4, zero_one, name, 0.5):
        assert max(off) < 1e-9


def zero_more(stage):
    chunks, tied = split(whole(LAYERS), Stages(find("1f1b"), 2), dist.get_rank())
    zero = Zero(torch.nn.ModuleList(chunks), adamw, stage=stage, group=Mesh(pp=2).group("dp"))
    with pytest.raises(ValueError, match=rf"zero is of stage {stage}, .* m times what .* use stage=1"):
        Pipeline(chunks, "1f1b", 3, loss_sum, valid, tied=tied, zero=zero)


def test_zero_2_and_3_are_refused_with_a_reason(ranks):
    ranks(2, zero_more, 2)
    ranks(2, zero_more, 3)


def clipped(schedule, clip, max_norm, dp=1, pp=3):
    mesh = Mesh(dp=dp, pp=pp)
    here = mesh.coordinates()
    pipe = pipeline(whole(LAYERS), schedule, 3, group=mesh)
    optimizer = adamw(pipe.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    stepper, losses = Stepper(pipe, optimizer, max_norm, clip), []
    for number in range(4):
        inputs, targets, rows = replicated_batch(dp, number)
        losses.append(pipe.mean_loss(stepper.step(inputs[rows[here["dp"]]], targets[rows[here["dp"]]])))
        scheduler.step()
    stepper.finish()
    state = [(name, p.detach().clone(), optimizer.state[p]["exp_avg_sq"]) for name, p in pipe.named_parameters()]
    return [loss.item() for loss in losses], stepper.norm.item(), stepper.undone, state


@pytest.mark.parametrize("name", ["zb-h2", "zbv"])
def test_a_step_that_is_taken_back_leaves_no_trace(ranks, name):
    between = sorted(_alone_scheduled(1)[1])[1] * 1.0001  # of some steps the norm is larger, of some it is not
    for max_norm, taken_back in ((1e9, {0}), (between, {1, 2, 3}), (1e-3, {4})):
        sync = ranks(3, clipped, name, "sync", max_norm)
        later = ranks(3, clipped, name, "postvalidate", max_norm)
        for one, other in zip(sync, later, strict=True):
            assert other[2] in taken_back
            assert one[0] == other[0]  # losses
            assert one[1] == other[1]  # the last norm
            for (parameter, a, b), (_, c, d) in zip(one[3], other[3], strict=True):
                assert torch.equal(a, c), parameter
                assert torch.equal(b, d), parameter


def test_the_norm_is_that_of_the_whole_gradient(ranks):
    for dp, pp in ((2, 2), (1, 3)):
        for losses, last, *_ in ranks(dp * pp, clipped, "1f1b", "sync", 0.5, dp, pp):
            expected, norms = _alone_scheduled(dp, 0.5)
            assert losses == pytest.approx(expected, abs=1e-9)
            assert last == pytest.approx(norms[-1], abs=1e-9)


def _alone_scheduled(replicas, max_norm=math.inf):
    model = whole(LAYERS)
    optimizer, losses, norms = adamw(model.parameters()), [], []
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    for number in range(4):
        optimizer.zero_grad()
        inputs, targets, _ = replicated_batch(replicas, number)
        total, count = cross_entropy(model(inputs), targets)
        (total / count).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        optimizer.step()
        scheduler.step()
        losses.append((total / count).item())
    return losses, norms
