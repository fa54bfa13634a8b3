"""The pipeline engine on real ranks, against one process with the whole model and batch."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from collectives.trace import Tape
from parallel.pipeline import Stages, find, schedules
from parallel.pipeline.engine import Pipeline
from parallel.pipeline.splitting import balanced
from tests.parallel.pipelined import batch, one_process, pipeline, whole, worst

WORLDS = [1, 2, 3, 4, 5]
NAMES = [schedule.name for schedule in schedules()]


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def train(names, counts, dtype, chunks=None, tied=True):
    """Steps with pipelines on this rank: how far losses and parameters are from one process's, by schedule and m."""
    layers = (chunks or 2) * dist.get_world_size() + 1
    batches = (7, 7, 8)
    losses, _, wanted = one_process(whole(layers, dtype, tied), batches, sgd)
    found = {}
    for name in names:
        for m in counts:
            pipe = pipeline(whole(layers, dtype, tied), name, m, chunks)
            optimizer, off = sgd(pipe.parameters()), []
            for number, rows in enumerate(batches):
                optimizer.zero_grad()
                loss = pipe.mean_loss(pipe.step(*batch(rows, seed=number)))
                optimizer.step()
                off.append(abs(loss.item() - losses[number]))
            found[name, m] = max(off), worst(pipe, wanted, lambda p: p.detach())
    return found


@pytest.mark.parametrize("size", WORLDS)
def test_every_schedule_is_one_process_whatever_the_microbatches(ranks, size):
    # 1: fewer than stages; 3: 7 rows are 3, 2, 2; 7: one row each. The third batch has another shape
    for found in ranks(size, train, NAMES, (1, 3, 7), torch.float64):
        assert all(max(off) < 1e-9 for off in found.values()), found


def test_in_fp32_the_loss_is_the_same_to_1e_5(ranks):
    for found in ranks(3, train, ["gpipe", "interleaved", "zb-h1", "zbv"], (4,), torch.float32):
        assert all(max(off) < 1e-5 for off in found.values()), found


@pytest.mark.parametrize("name", ["interleaved", "looped"])
def test_any_number_of_chunks(ranks, name):
    for found in ranks(2, train, [name], (4,), torch.float64, chunks=3):
        assert max(found[name, 4]) < 1e-9


@pytest.mark.parametrize("name", ["1f1b", "zbv"])
def test_a_head_of_its_own(ranks, name):
    for found in ranks(2, train, [name], (3,), torch.float64, tied=False):
        assert max(found[name, 3]) < 1e-9


# Stages of any kind.


class Fork(nn.Module):
    """Returns three tensors of different shapes and kinds: of them one needs no gradient, and one is never used."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 6)

    def forward(self, x):
        y = self.linear(x)
        return y, y[:, :2].exp().t(), torch.arange(len(x))


class Join(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, y, unused, numbers):
        return self.linear(y) * (1 + numbers)[:, None], y.sum(1)


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, y, sums):
        return self.linear(y) + sums[:, None]


def tuples(schedule):
    torch.manual_seed(3)
    stages = [Fork().double(), Join().double(), Last().double()]
    x, goal = torch.randn(8, 5, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)

    def loss(y, target):
        return F.mse_loss(y, target, reduction="sum")

    expected = 0
    for piece, target in zip(x.tensor_split(3), goal.tensor_split(3), strict=True):  # Join numbers a microbatch's rows
        expected = expected + loss(stages[2](*stages[1](*stages[0](piece))), target) / 8
    rank = dist.get_rank()
    wanted = torch.autograd.grad(expected, list(stages[rank].parameters()))
    pipe = Pipeline(stages[rank], schedule, 3, loss, timeout=60)
    # who is not first needs the shape only, and who is not last no targets
    found = pipe.mean_loss(pipe.step(x if rank == 0 else x.to("meta"), goal if rank == 2 else None))
    gradients = [p.grad for p in pipe.parameters()]
    return (found - expected).abs().item(), max(
        (a - b).abs().max().item() for a, b in zip(gradients, wanted, strict=True)
    )


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zb-h2"])
def test_stages_may_return_tuples_of_any_shapes(ranks, name):
    for off in ranks(3, tuples, name):
        assert max(off) < 1e-9


def frozen(schedule, stages):
    """Gradients with some stages frozen, and how many gradients have crossed a boundary."""
    size = dist.get_world_size()

    def model():
        made = whole(2 * size, tied=False)
        for stage in stages:
            for layer in balanced(2 * size, size)[stage]:
                made.blocks[layer].requires_grad_(False)
        if 0 in stages:
            made.embedding.requires_grad_(False)
            made.positions.requires_grad_(False)
        return made

    _, wanted, _ = one_process(model(), [6])
    pipe = pipeline(model(), schedule, 3)
    pipe.tape = Tape(dist.get_rank(), "frozen")
    pipe.step(*batch(6, seed=0))
    trained = {name: p for name, p in pipe.named_parameters() if p.requires_grad}
    off = max(((p.grad - wanted[name]).abs().max().item() for name, p in trained.items()), default=0.0)
    none = all(p.grad is None for p in pipe.parameters() if not p.requires_grad)
    return off, none, sum(span.stream == "send" and "gradient" in span.name for span in pipe.tape.spans)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1"])
def test_gradients_that_nobody_needs_are_not_sent(ranks, name):
    def check(stages, sent):
        found = ranks(3, frozen, name, stages)
        assert all(off < 1e-9 and none for off, none, _ in found), found
        assert [count for *_, count in found] == sent

    check([1], [0, 3, 3])  # the middle stage must still pass them on
    check([0], [0, 0, 3])  # but the first needs none


def recomputed(schedule, again):
    _, wanted, _ = one_process(whole(2 * dist.get_world_size()), [7])
    pipe = pipeline(whole(2 * dist.get_world_size()), schedule, 3, recompute=again)
    pipe.step(*batch(7, seed=0))
    return worst(pipe, wanted, lambda p: p.grad)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zbv"])
def test_stages_may_recompute(ranks, name):
    assert max(ranks(2, recomputed, name, True)) < 1e-9
    assert max(ranks(2, recomputed, name, [0])) < 1e-9


class Own(nn.Module):
    """A layer that the engine does not know."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))

    def forward(self, x):
        return x * self.scale


def foreign():
    torch.manual_seed(3)
    stages = [nn.Sequential(nn.Linear(4, 4, dtype=torch.float64), Own()) for _ in range(2)]
    x, goal = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    rank = dist.get_rank()
    wanted = torch.autograd.grad(F.mse_loss(stages[1](stages[0](x)), goal), list(stages[rank].parameters()))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pipe = Pipeline(stages[rank], "zb-h1", 3, lambda y, t: F.mse_loss(y, t, reduction="sum") / 4, timeout=60)
        pipe.step(x, goal)
    found = [p.grad for p in pipe.parameters()]
    return [str(each.message) for each in said], max(
        (a - b).abs().max().item() for a, b in zip(found, wanted, strict=True)
    )


def test_foreign_layers_have_their_weight_gradients_at_once_and_it_says_so_once(ranks):
    for said, off in ranks(2, foreign):
        assert off < 1e-9
        assert len(said) == 1
        assert said[0].startswith("zb-h1: weight gradients of 1 are computed with the input gradients")


def test_layers_are_shared_out_as_the_planner_does():
    # what is left goes to the middle, then to the first, which has the embedding, too
    assert [len(layers) for layers in balanced(7, 4)] == [2, 2, 2, 1]
    assert [len(layers) for layers in balanced(6, 4)] == [1, 2, 2, 1]
    assert [len(layers) for layers in balanced(5, 1)] == [5]
    assert [list(layers) for layers in balanced(3, 2)] == [[0, 1], [2]]


def test_a_v_has_its_first_and_last_stage_on_one_rank(ranks):
    assert [Stages(find("zbv"), 3).home[stage] for stage in (0, 5)] == [(0, 0), (0, 1)]
    names = ranks(3, v_names)
    assert {"embedding.weight", "norm.weight"} <= set(names[0])
    assert sorted(name for each in names for name in each) == sorted(
        name for name, _ in whole(6).named_parameters()
    )  # the tied head is no copy, but the embedding itself


def v_names():
    return [name for name, _ in pipeline(whole(6), "zbv", 2).named_parameters()]
