"""fp16 and bf16 with fp32 masters: against the five steps written out, and against torch's own scaler."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import parallel
from parallel.data import DistributedDataParallel
from parallel.precision import LossScale, MixedPrecision, Precision
from parallel.zero import Zero


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 3))
        self.register_buffer("shift", torch.randn(3))

    def forward(self, x):
        return self.layers(x) + self.shift


def mlp(seed=0):
    torch.manual_seed(seed)
    return MLP()


FP16 = Precision("fp16", scale=2.0**10)  # at 2**16 a gradient of 1 overflows, so that the first step is left out


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def batch(step, rows=4):
    torch.manual_seed(100 + step)
    return torch.randn(rows, 6), torch.randn(rows, 3)


def five_steps(dtype, scale, steps=5):
    """fp16 forward; scaled backward; to fp32 and unscaled; fp32 update; rounded again. Losses, and the masters."""
    module = mlp().to(dtype)
    masters = [p.detach().float().requires_grad_() for p in mlp().parameters()]
    optimizer, losses = adamw(masters), []
    for step in range(steps):
        x, y = batch(step)
        loss = F.mse_loss(module(x.to(dtype)).float(), y)
        module.zero_grad()
        (loss * scale).backward()
        for parameter, master in zip(module.parameters(), masters, strict=True):
            master.grad = parameter.grad.float() / scale
        optimizer.step()
        with torch.no_grad():
            for parameter, master in zip(module.parameters(), masters, strict=True):
                parameter.copy_(master)
        losses.append(loss.item())
    return losses, [master.detach() for master in masters]


def trained(stepper, call, steps=5, rows=slice(None)):
    losses = []
    for step in range(steps):
        x, y = (t[rows] for t in batch(step))
        stepper.zero_grad()
        out = call(x)
        assert out.dtype == torch.float32
        loss = F.mse_loss(out, y)
        loss.backward()
        assert stepper.step() is True
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("precision", "scale"), [(FP16, 2.0**10), (Precision("bf16"), 1.0)])
def test_the_five_steps(precision, scale):
    """Powers of two change no digit, so the result is that of the steps written out, bit by bit."""
    losses, masters = five_steps(precision.dtype, scale)
    module = mlp()
    mixed = MixedPrecision(module, adamw, precision)
    assert trained(mixed, module) == losses
    for got, want in zip(mixed.parameters(), masters, strict=True):
        assert torch.equal(got, want)
    assert {p.dtype for p in module.parameters()} == {module.shift.dtype} == {precision.dtype}


def zero_of_one(stage, precision):
    module = mlp()
    zero = Zero(module, adamw, stage=stage, precision=precision)
    losses = trained(zero, zero)
    return losses, zero.state_dict()["module"]


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize(("precision", "scale"), [(FP16, 2.0**10), (Precision("bf16"), 1.0)])
def test_the_five_steps_cut(ranks, stage, precision, scale):
    losses, masters = five_steps(precision.dtype, scale)
    [(got, state)] = ranks(1, zero_of_one, stage, precision)
    assert got == losses
    for (parameter, _), want in zip(mlp().named_parameters(), masters, strict=True):
        assert torch.equal(state[parameter], want)


def on_ranks(kind, precision):
    """Two ranks with two rows each; every rank draws other numbers first."""
    module = mlp(dist.get_rank())
    rows = slice(2 * dist.get_rank(), 2 * dist.get_rank() + 2)
    if kind == "ddp":
        mixed = MixedPrecision(module, adamw, precision)
        losses = trained(mixed, DistributedDataParallel(module), rows=rows)
        return losses, [p.detach() for p in mixed.parameters()]
    zero = Zero(module, adamw, stage=kind, precision=precision)
    losses = trained(zero, zero, rows=rows)
    state = zero.state_dict()["module"]
    return losses, [state[parameter] for parameter, _ in module.named_parameters()]


@pytest.mark.parametrize("precision", [FP16, Precision("bf16"), Precision("fp32")])
def test_data_parallel_and_every_stage_agree(ranks, precision):
    """Near the fp32 run, as rounding allows; and near each other."""
    module = mlp()
    optimizer, exact = adamw(module.parameters()), []
    for step in range(5):
        x, y = batch(step)
        optimizer.zero_grad()
        loss = F.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        exact.append(loss.item())
    tolerance = {"fp16": 2e-3, "bf16": 2e-2, "fp32": 1e-5}[precision.compute]
    first = None
    for kind in ("ddp", 1, 2, 3):
        found = ranks(2, on_ranks, kind, precision)
        means = [sum(losses) / 2 for losses in zip(*(losses for losses, _ in found), strict=True)]
        assert means == pytest.approx(exact, abs=tolerance)
        for one, other in zip(found[0][1], found[1][1], strict=True):
            assert torch.equal(one, other)
        if kind != "ddp":
            first = first or found[0][1]
            assert all(torch.equal(one, other) for one, other in zip(found[0][1], first, strict=True))


# What goes wrong without.


class One(nn.Module):
    """Its gradient is what goes in."""

    def __init__(self, value=1.0):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([value]))

    def forward(self, x):
        return self.w * x


sgd = partial(torch.optim.SGD, lr=1.0)


def test_small_updates_need_a_master():
    """1 − 10⁻⁴ is 1 in fp16: a hundred such steps do nothing there, and 1 − 0.01 with a master."""
    pure = One().half()
    optimizer = sgd(pure.parameters())
    module = One()
    mixed = MixedPrecision(module, sgd, FP16)
    for _ in range(100):
        for stepper, call, dtype in ((optimizer, pure, torch.float16), (mixed, module, torch.float32)):
            stepper.zero_grad()
            call(torch.tensor([1e-4], dtype=dtype)).sum().backward()
            stepper.step()
    assert pure.w.item() == 1.0
    assert next(iter(mixed.parameters())).item() == pytest.approx(0.99, abs=5e-5)
    assert module.w.item() == pytest.approx(0.99, abs=5e-4)


def test_small_gradients_need_a_scale():
    """A gradient of 10⁻⁸ is 0 in fp16, whose smallest number is 6·10⁻⁸."""
    pure, module = One().half(), One()
    mixed = MixedPrecision(module, sgd, FP16)
    (pure(torch.tensor([1.0], dtype=torch.float16)).float() * 1e-8).sum().backward()
    (module(torch.tensor([1.0])) * 1e-8).sum().backward()
    assert pure.w.grad.item() == 0.0
    assert next(iter(mixed.parameters())).grad.item() == pytest.approx(1e-8, rel=2e-3)


# The scale.


def test_the_scale_moves_as_torch_s_does():
    """Overflows at the start, in between, two in a row; doubled after three good steps."""
    overflows = [1, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0]
    ours = LossScale(2.0**10, interval=3)
    theirs = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = sgd([parameter])
    for overflow in overflows:
        theirs.scale(torch.zeros(1))  # makes its scale
        parameter.grad = torch.full((1,), float("inf") if overflow else 1.0)
        theirs.step(optimizer)
        theirs.update()
        ours.update(bool(overflow))
        assert ours.value == theirs.get_scale()
    again = LossScale(1.0, interval=3)
    again.load_state_dict(ours.state_dict())
    assert (again.value, again.good) == (ours.value, ours.good)


def made(kind, precision="fp16"):
    module = One()
    if kind in ("ddp", "alone"):
        mixed = MixedPrecision(module, sgd, precision)
        return mixed, DistributedDataParallel(module) if kind == "ddp" else module
    zero = Zero(module, sgd, stage=kind, precision=precision)
    return zero, zero


def value_of(stepper):
    if isinstance(stepper, Zero):
        return stepper.state_dict()["module"]["w"].item()
    return next(iter(stepper.parameters())).item()


def overflowing(kind):
    """Rank 1's gradient overflows twice, then fits: 60000 · 2¹⁶ is too much, and so is half of it."""
    stepper, call = made(kind)
    stepper.scale.value = 2.0**3
    found = []
    for _ in range(5):
        stepper.zero_grad()
        factor = 20000.0 if dist.get_rank() == 1 else 0.0
        (call(torch.ones(1)) * factor).sum().backward()
        found.append((stepper.step(), stepper.scale.value, value_of(stepper)))
    return found


@pytest.mark.parametrize("kind", ["ddp", 1, 2, 3])
def test_an_overflow_on_one_rank_skips_the_step_on_all(ranks, kind):
    """20000 · 8 and · 4 are beyond 65504, 20000 · 2 is not; then the mean of 20000 and 0 is subtracted."""
    wanted = [(False, 4.0, 1.0), (False, 2.0, 1.0)] + [(True, 2.0, 1.0 - 10000.0 * i) for i in (1, 2, 3)]
    for found in ranks(2, overflowing, kind):
        assert found == wanted


def overflowing_alone():
    """No wrapper: ranks have gradients of their own, as with tensor parallelism."""
    mixed, module = made("alone")
    (module(torch.ones(1)) * (20000.0 if dist.get_rank() == 1 else 0.0)).sum().backward()
    return mixed.step(), mixed.scale.value, value_of(mixed)


def test_ranks_skip_together_whatever_their_gradients(ranks):
    assert ranks(2, overflowing_alone) == [(False, 2.0**15, 1.0)] * 2


def diverging(kind):
    stepper, call = made(kind)
    stepper.scale.value = 4.0
    for steps in range(9):
        stepper.zero_grad()
        (call(torch.ones(1)) * (float("nan") if dist.get_rank() == 1 else 1.0)).sum().backward()
        try:
            assert stepper.step() is False
        except FloatingPointError as error:
            return steps, "loss scale 1" in str(error)
    return None


@pytest.mark.parametrize("kind", ["ddp", 1, 2, 3])
def test_nan_whatever_the_scale_is_an_error_on_all(ranks, kind):
    """Scales 4, 2, 1 are tried; the third is the last."""
    assert ranks(2, diverging, kind) == [(2, True)] * 2


def clipped(stage):
    zero = Zero(mlp(dist.get_rank()), sgd, stage=stage, precision=FP16)
    x, y = (t[2 * dist.get_rank() :][:2] for t in batch(0))
    F.mse_loss(zero(x), y).backward()
    norm = parallel.clip_grad_norm_(zero, 0.1).item()
    after = sum(g.square().sum() for g in zero.gradients().values()).sqrt().item()
    zero.zero_grad()
    zero(x * (float("inf") if dist.get_rank() == 1 else 1)).sum().backward()
    broken = parallel.clip_grad_norm_(zero, 0.1).item()
    return norm, after, broken, zero.step(), zero.scale.value


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_clips_true_sizes(ranks, stage):
    module = mlp()
    x, y = batch(0)
    F.mse_loss(module(x), y).backward()
    wanted = nn.utils.get_total_norm(p.grad for p in module.parameters()).item()
    for norm, after, broken, stepped, scale in ranks(2, clipped, stage):
        assert norm == pytest.approx(wanted, rel=2e-3)
        assert after == pytest.approx(0.1, rel=1e-3)
        assert broken != broken or broken == float("inf")
        assert (stepped, scale) == (False, 2.0**9)


def summed(stage, precision):
    zero = Zero(One(0.0), sgd, stage=stage, precision=precision)
    zero.scale.value = 1.0
    zero(torch.tensor([2048.0 if dist.get_rank() == 0 else 1.0])).sum().backward()
    zero.step()
    return zero.state_dict()["module"]["w"].item()


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_gradients_summed_in_fp32_on_request(ranks, stage):
    """2048 + 1 is 2048 in fp16."""
    assert ranks(2, summed, stage, "fp16") == [-1024.0] * 2
    assert ranks(2, summed, stage, Precision("fp16", reduce="fp32")) == [-1024.5] * 2


def barely_used():
    """A gradient that is 0 in the fp16 in which it is summed is still a gradient: the weight decays."""
    zero = Zero(One(), partial(torch.optim.SGD, lr=1.0, weight_decay=0.25), precision=Precision("fp32", reduce="fp16"))
    zero(torch.tensor([-1e-10])).sum().backward()
    zero.step()
    return zero.state_dict()["module"]["w"].item()


def test_a_gradient_that_vanishes_on_the_way_is_one_of_zero(ranks):
    assert ranks(2, barely_used) == [0.75] * 2


def resumed(kind):
    stepper, call = made(kind)
    stepper.scale.value = 2.0**6
    (call(torch.ones(1)) * 3.0).sum().backward()
    stepper.step()
    state = stepper.state_dict()
    other, call = made(kind)
    other.load_state_dict(state)
    return other.scale.value, value_of(other), call(torch.ones(1)).item()


@pytest.mark.parametrize("kind", ["ddp", 2, 3])
def test_saving_masters_and_scale(ranks, kind):
    assert ranks(2, resumed, kind) == [(64.0, -2.0, -2.0)] * 2


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_what_is_written_to_a_rounded_parameter_is_not_lost_in_silence(precision):
    model = mlp()
    mixed = MixedPrecision(model, adamw, precision)
    with torch.no_grad():
        model.layers[0].bias.add_(0)  # nothing is lost
    mixed.step()
    with torch.no_grad():
        model.layers[2].weight[0, 0] += 1
    with pytest.raises(ValueError, match=r"layers\.2\.weight has been changed since it was rounded.*load_state_dict"):
        mixed.step()
    state = mixed.state_dict()
    state["masters"][2][0, 0] += 1
    mixed.load_state_dict(state)
    mixed.step()


def test_bad_input():
    for wrong, words in [("fp8", "precision='fp8'"), (Precision("fp16", reduce="fp32"), "reduce")]:
        with pytest.raises(ValueError, match=words):
            MixedPrecision(One(), sgd, wrong)
    with pytest.raises(ValueError, match="reduce='int8'"):
        Precision("fp16", reduce="int8")
    with pytest.raises(ValueError, match="no trainable parameter"):
        MixedPrecision(nn.Identity(), sgd)
    with pytest.raises(ValueError, match="value=0"):
        LossScale(0)
    mixed = MixedPrecision(One(), sgd)
    with pytest.raises(ValueError, match=r"shapes \[\(2,\)\]"):
        mixed.load_state_dict({"masters": [torch.zeros(2)]})
