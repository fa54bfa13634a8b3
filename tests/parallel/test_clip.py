"""One clip for every mesh: against the norm of the whole gradient, computed in one process."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist
from torch import nn

import collectives
from collectives.layout import cut
from parallel import DistributedDataParallel, Mesh, clip_grad_norm_


def with_gradients(*gradients):
    """A module whose parameters have these gradients (None: none)."""
    module = nn.Module()
    for i, gradient in enumerate(gradients):
        p = nn.Parameter(torch.zeros(1 if gradient is None else len(gradient), dtype=torch.float64))
        p.grad = None if gradient is None else torch.tensor(gradient, dtype=torch.float64)
        module.register_parameter(f"p{i}", p)
    return module


def gradients(module):
    return [p.grad.tolist() for p in module.parameters() if p.grad is not None]


@pytest.mark.parametrize("max_norm", [0.0, 0.5, 5.0, 1e9, math.inf])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_one_process_as_torch(max_norm, dtype):
    torch.manual_seed(0)
    ours, theirs = nn.Linear(7, 5), nn.Linear(7, 5)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        gradient = torch.randn_like(a)
        a.data, b.data = a.data.to(dtype), b.data.to(dtype)
        a.grad, b.grad = gradient.to(dtype), gradient.to(dtype).clone()
    norm = clip_grad_norm_(ours, max_norm)
    wanted = nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
    close = {"rtol": 1e-2 if dtype == torch.bfloat16 else 1e-6, "atol": 1e-7}
    assert norm.dtype == torch.promote_types(dtype, torch.float32)
    assert torch.allclose(norm.double(), wanted.double(), **close)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, **close)


def data_parallel():
    """The published case: a norm of 0.8 is 0.8 on two ranks, not 0.8·√2, and is not clipped to 1."""
    model = nn.Linear(1, 1, bias=False)
    ddp = DistributedDataParallel(model)
    ddp(torch.full((1, 1), 0.8)).sum().backward()
    mesh = Mesh(dp=dist.get_world_size())
    return clip_grad_norm_(ddp, 1.0, mesh).item(), clip_grad_norm_(ddp, 1.0).item(), model.weight.grad.item()


def test_data_parallel_counts_once(ranks):
    for result in ranks(2, data_parallel):
        assert result == pytest.approx((0.8, 0.8, 0.8))


def tensor_and_pipeline():
    """pp 2 × tp 2. Stage 0: a split weight, a norm that both have, a tied embedding; stage 1: a weight and its copy."""
    mesh = Mesh(pp=2, tp=2)
    here = mesh.coordinates()
    split, norm, tied = [3.0, 1.0 + here["tp"]], [4.0], [2.0]
    module = with_gradients(split, norm, tied) if here["pp"] == 0 else with_gradients([6.0 + here["tp"]], None, tied)
    module.p0.split_over = ("pp", "tp")
    module.p2.split_over = ()
    norm = clip_grad_norm_(module, 1.0, mesh)
    return norm.item(), gradients(module)


def test_tensor_and_pipeline_parallel(ranks):
    """√(split 3²+1²+3²+2² + norm 4² + tied 2², once + stage 1: 6²+7²), and one factor for everything."""
    whole = math.sqrt(9 + 1 + 9 + 4 + 16 + 4 + 36 + 49)
    results = ranks(4, tensor_and_pipeline)
    assert [norm for norm, _ in results] == pytest.approx([whole] * 4, rel=1e-12)
    factor = 1 / (whole + 1e-6)
    assert results[1][1] == [pytest.approx([v * factor for v in g]) for g in ([3.0, 2.0], [4.0], [2.0])]
    assert results[3][1] == [pytest.approx([v * factor for v in g]) for g in ([7.0], [2.0])]


def stages_of(gradient):
    mesh = Mesh(pp=2)
    stage = with_gradients(gradient if mesh.coordinates()["pp"] == 0 else [4.0])
    return clip_grad_norm_(stage, 1.0, mesh).item(), gradients(stage)


def test_two_stages_of_3_and_4_are_5(ranks):
    (first, one), (second, two) = ranks(2, stages_of, [3.0])
    assert first == second == pytest.approx(5.0)
    assert one[0][0] / 3 == two[0][0] / 4 == pytest.approx(0.2, rel=1e-6)


def test_a_stage_without_gradients_takes_part(ranks):
    assert [norm for norm, _ in ranks(2, stages_of, None)] == pytest.approx([4.0, 4.0])


class Pieces:
    """Gradients cut into one piece a rank, as a sharded optimizer has them; with 3 elements on 4 ranks one is empty."""

    shard_group = None
    gradient_scale = 8.0

    def __init__(self, values, skips_overflow):
        self.skips_overflow = skips_overflow
        offset, length = cut(len(values), dist.get_world_size(), dist.get_rank())
        self.piece = torch.tensor(values[offset : offset + length]) * self.gradient_scale

    def gradient_shards(self):
        return [(nn.Parameter(torch.zeros(())), self.piece)] if len(self.piece) else []


def pieces(values, skips_overflow=False):
    sharded = Pieces(values, skips_overflow)
    try:
        norm = clip_grad_norm_(sharded, 1.0).item()
    except FloatingPointError as error:
        norm = str(error)
    out = [torch.empty(cut(len(values), dist.get_world_size(), r)[1]) for r in range(dist.get_world_size())]
    collectives.all_gather(out, sharded.piece)
    return norm, (torch.cat(out) / 8.0).tolist()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_pieces_add_up_over_their_group(ranks, size):
    for norm, scaled in ranks(size, pieces, [1.0, 2.0, 2.0]):
        assert norm == pytest.approx(3.0)
        assert scaled == pytest.approx([1 / 3, 2 / 3, 2 / 3], rel=1e-5)


def test_what_is_not_finite_on_one_rank_stops_all_and_scales_nothing(ranks):
    first, second = ranks(2, pieces, [1.0, 2.0, math.inf])
    assert "on another rank" in first[0]
    assert "a parameter of shape ()" in second[0]
    assert first[1] == second[1] == [1.0, 2.0, math.inf]
    for norm, scaled in ranks(2, pieces, [1.0, 2.0, math.inf], True):
        assert (norm, scaled) == (math.inf, [1.0, 2.0, math.inf])


@pytest.mark.parametrize("max_norm", [-1.0, math.nan, "1", None])
def test_a_norm_that_is_none(max_norm):
    with pytest.raises(ValueError, match="max_norm="):
        clip_grad_norm_(nn.Linear(1, 1), max_norm)


def test_the_parameter_that_diverges_is_named():
    module = nn.Linear(1, 1)
    module.weight.grad = torch.full((1, 1), math.nan)
    with pytest.raises(FloatingPointError, match="on this rank in weight; nothing was scaled"):
        clip_grad_norm_(module, 1.0)
    assert clip_grad_norm_(nn.Linear(1, 1), 1.0).item() == 0  # no gradients at all
