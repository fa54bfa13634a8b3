"""ZeRO's forward and backward passes: skipped, several before a step, failed; and parameters between them."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel.zero import Zero
from tests.parallel.sharded import (
    ROWS,
    STAGES,
    WIDTH,
    Stack,
    Twice,
    adamw,
    batch,
    built,
    mine,
    momentum,
    on_rank,
    parameters_of,
    same,
    train_plain,
)


class Branching(Stack):
    """Rank 1 skips the middle layer, and no rank ever uses the last layer's ``gain``'s neighbour ``spare``."""

    def __init__(self):
        super().__init__(layers=4)
        self.layers[3].spare = nn.Parameter(torch.randn(3))
        self.skips = False

    def forward(self, x):
        x = self.entry(x)
        for number, layer in enumerate(self.layers):
            if not (self.skips and number in (0, 2)):
                x = layer(x)
        return self.exit(x)


def train_branching(stage, **options):
    zero = Zero(on_rank(Branching), adamw, stage=stage, **options)
    zero.module.skips = dist.get_rank() == 1
    found = []
    for step in range(4):
        x, y = (mine(t) for t in batch(step, ROWS * dist.get_world_size()))
        zero.zero_grad()
        out = zero(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        found.append(zero.gradients())
        zero.step()
    return found, parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_branch_that_one_rank_skips(ranks, stage, prefetch):
    """What a rank does not use counts as zero; what nobody uses has no gradient, and AdamW leaves it alone."""
    world = 3
    module = built(Branching)
    optimizer, start = adamw(list(module.parameters())), module.layers[3].spare.detach().clone()
    wanted = []
    for step in range(4):
        x, y = batch(step, ROWS * world)
        loss = 0
        for rank in range(world):
            module.skips = rank == 1
            rows = slice(rank * ROWS, (rank + 1) * ROWS)
            out = module(x[rows])
            loss = loss + F.mse_loss(out, y[rows].expand_as(out)) / world
        optimizer.zero_grad()
        loss.backward()
        wanted.append({name: p.grad for name, p in module.named_parameters()})
        optimizer.step()
    for found, after in ranks(world, train_branching, stage, prefetch=prefetch):
        for got, want in zip(found, wanted, strict=True):
            same(got, want)
        assert found[0]["layers.3.spare"] is None
        assert torch.equal(after["layers.3.spare"], start)
        same(after, dict(module.named_parameters()))


def accumulate(stage, deferred, around, **options):
    """Three microbatches; ``around``: no_sync is around forward and backward, or around the backward alone."""
    zero = Zero(on_rank(Twice), adamw, stage=stage, **options)
    world, micro = dist.get_world_size(), 3
    for step in range(2):
        x, y = batch(step, ROWS * world * micro)
        zero.zero_grad()
        for i in range(micro):
            rows = slice((i * world + dist.get_rank()) * ROWS, (i * world + dist.get_rank() + 1) * ROWS)
            quiet = zero.no_sync() if deferred and i < micro - 1 else contextlib.nullcontext()
            with quiet if around else contextlib.nullcontext():
                out = zero(x[rows])
                loss = F.mse_loss(out, y[rows].expand_as(out)) / micro
                with quiet if not around else contextlib.nullcontext():
                    loss.backward()
        gradients = zero.gradients()
        zero.step()
    return gradients, parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("deferred", "around"), [(False, True), (True, True), (True, False)])
def test_three_microbatches_are_one_batch(ranks, stage, deferred, around):
    module = built(Twice)
    optimizer = adamw(list(module.parameters()))
    for step in range(2):
        x, y = batch(step, ROWS * 2 * 3)
        optimizer.zero_grad()
        out = module(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        gradients = {name: p.grad for name, p in module.named_parameters()}
        optimizer.step()
    for got, after in ranks(2, accumulate, stage, deferred, around):
        same(got, gradients)
        same(after, dict(module.named_parameters()))


class Scalar(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, factor):
        return self.w * factor


def one_ten_hundred(stage, quiet):
    zero = Zero(Scalar(), partial(torch.optim.SGD, lr=1.0), stage=stage)
    for factor in (1.0, 10.0, 100.0):
        with zero.no_sync() if quiet else contextlib.nullcontext():
            zero(torch.tensor([factor * (1 + dist.get_rank())], dtype=torch.float64)).sum().backward()
    zero.step()
    return parameters_of(zero)["w"].item()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("quiet", [False, True])
def test_no_microbatch_is_lost(ranks, stage, quiet):
    """Gradients 1, 10, 100 on rank 0 and twice that on rank 1, even if no backward pass reduces them."""
    assert ranks(2, one_ten_hundred, stage, quiet) == [-111 * 1.5] * 2


def several_graphs(stage):
    """Two forwards and one backward; one backward each, the older first; the same graph twice."""
    zero = Zero(on_rank(Stack), momentum, stage=stage)
    x, y = (mine(t) for t in batch(0, 2 * dist.get_world_size()))
    found = []
    (zero(x) + zero(y * x)).sum().backward()
    found.append(zero.gradients())
    zero.zero_grad()
    first, second = zero(x).sum(), zero(y * x).sum()
    first.backward()
    second.backward()
    found.append(zero.gradients())
    zero.zero_grad()
    zero(y * x).sum()  # a graph that is never used
    loss = zero(x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    found.append(zero.gradients())
    zero.zero_grad()
    with torch.no_grad():
        zero(x)
    zero.step()
    return found


@pytest.mark.parametrize("stage", STAGES)
def test_several_graphs(ranks, stage):
    module = built(Stack)
    x, y = batch(0, 4)

    def gradients(loss):
        return dict(
            zip(dict(module.named_parameters()), torch.autograd.grad(loss / 2, module.parameters()), strict=True)
        )

    both, twice = gradients((module(x) + module(y * x)).sum()), gradients(2 * module(x).sum())
    for found in ranks(2, several_graphs, stage):
        for got, want in zip(found, [both, both, twice], strict=True):
            same(got, want)


def kept(stage):
    """A forward whose parameters are kept for a backward that never comes; then a step."""
    zero = Zero(on_rank(Stack), momentum, stage=stage, reshard_after_forward=False)
    x = mine(batch(0, 2 * dist.get_world_size())[0])
    zero(x).sum().backward()
    zero(x)
    zero.step()
    return zero(x).detach()


@pytest.mark.parametrize("stage", STAGES)
def test_kept_parameters_are_not_of_yesterday(ranks, stage):
    module = built(Stack)
    optimizer, x = momentum(list(module.parameters())), batch(0, 4)[0]
    (module(x).sum() / 2).backward()
    optimizer.step()
    got = torch.cat(ranks(2, kept, stage))
    torch.testing.assert_close(got, module(x).detach(), rtol=1e-9, atol=1e-9)


def nan_on_one(stage):
    zero = Zero(on_rank(Stack), momentum, stage=stage)
    x = torch.full((1, WIDTH), float("nan") if dist.get_rank() == 1 else 1.0, dtype=torch.float64)
    zero(x).sum().backward()
    zero.step()
    return parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
def test_a_nan_on_one_rank_reaches_all(ranks, stage):
    """As one process would have it: silence would be worse."""
    module = built(Stack)
    optimizer = momentum(list(module.parameters()))
    x = torch.ones(3, WIDTH, dtype=torch.float64)
    x[1] = float("nan")
    (module(x).sum() / 3).backward()
    optimizer.step()
    assert module.layers[0].inner.weight.isnan().all()
    for after in ranks(3, nan_on_one, stage):
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(after[name], parameter.detach(), equal_nan=True)


def failing_passes(stage):
    """A forward and a backward that fail in the middle, on all ranks; then all is as if they had not been."""
    zero = Zero(on_rank(Stack), momentum, stage=stage)
    x, y = (mine(t) for t in batch(0, ROWS * dist.get_world_size()))
    trouble = zero.module.layers[1].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        zero(x)
    trouble.remove()
    out = zero(x)
    handle = zero.module.layers[1].inner.bias.register_hook(lambda gradient: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        out.sum().backward()
    handle.remove()
    zero.zero_grad()
    out = zero(x)
    F.mse_loss(out, y.expand_as(out)).backward()
    zero.step()
    return parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
def test_after_a_pass_that_failed(ranks, stage):
    wanted = train_plain(Stack, 2, momentum, steps=1)[0][3]
    for after in ranks(2, failing_passes, stage):
        same(after, wanted)


def in_words(stage):
    """Parameters outside of a forward in stage 3: empty, not garbage; whole when asked for."""
    zero = Zero(on_rank(Stack), momentum, stage=stage)
    zero(mine(batch(0, 4)[0])).sum().backward()
    return [tuple(p.shape) for p in zero.module.parameters()], {
        n: tuple(v.shape) for n, v in parameters_of(zero).items()
    }


def test_parameters_between_passes(ranks):
    shapes = {name: tuple(p.shape) for name, p in built(Stack).named_parameters()}
    for outside, inside in ranks(2, in_words, 3):
        assert set(outside) == {(0,)}
        assert inside == shapes
    for outside, _ in ranks(2, in_words, 2):
        assert outside == list(shapes.values())
