"""Rounded numbers on shared layers: one norm, one loss scale, one decision to step, for all ranks of the mesh."""

from __future__ import annotations

import math

import pytest
import torch

from parallel import Mesh, MixedPrecision, Zero, clip_grad_norm_
from parallel.model import GPT, Config, cross_entropy
from parallel.tensor import TensorParallel, parallelize_, vocab_parallel_cross_entropy, whole_state

CONFIG = Config(layers=1, hidden=8, heads=2, vocabulary=11, positions=6)
TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def model():
    torch.manual_seed(0)
    return GPT(CONFIG)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def plain():
    """Norm of the gradient in fp32 by one process, and the parameters after two steps."""
    alone, norms = model(), []
    stepper = sgd(alone.parameters())
    for _ in range(2):
        stepper.zero_grad()
        total, count = cross_entropy(alone(TOKENS), TOKENS)
        (total / count).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(alone.parameters(), math.inf).item())
        stepper.step()
    return norms, dict(alone.named_parameters())


def rounded(wrapper, precision):
    """dp 1 × tp 2: two steps, then one in which a gradient of rank 1 alone is infinite."""
    mesh = Mesh(tp=2)
    tp = TensorParallel(mesh.group("tp"), sequence=True)
    shared = parallelize_(model(), tp)
    if wrapper == "zero":
        forward = stepper = Zero(shared, sgd, 2, mesh, precision=precision)
    else:
        forward, stepper = shared, MixedPrecision(shared, sgd, precision, mesh)
    norms, stepped = [], []
    for step in range(3):
        stepper.zero_grad()
        if step == 2 and tp.rank == 1:
            shared.blocks[0].mlp.up.weight.register_hook(lambda gradient: torch.full_like(gradient, math.inf))
        total, count = vocab_parallel_cross_entropy(forward(TOKENS), TOKENS, 11, tp)
        (total / count).backward()
        if step < 2:
            norms.append(clip_grad_norm_(stepper, math.inf, mesh).item())
        stepped.append(stepper.step())
        if step == 1:
            state = whole_state(shared, tp)
    kept = whole_state(shared, tp)
    scale = stepper.scale.value if stepper.scale else 1.0
    return norms, stepped, state, scale, all(torch.equal(kept[name], state[name]) for name in state)


@pytest.mark.parametrize("wrapper", ["mixed", "zero"])
def test_fp16_on_two_ranks_of_a_layer(ranks, wrapper):
    wanted, parameters = plain()
    for norms, stepped, state, scale, unchanged in ranks(2, rounded, wrapper, "fp16"):
        assert norms == pytest.approx(wanted, rel=2e-2)
        assert stepped == [True, True, False]
        assert scale == 2.0**15
        assert unchanged
        for name, value in state.items():
            assert torch.allclose(value.float(), parameters[name], atol=2e-3), name


@pytest.mark.parametrize("wrapper", ["mixed", "zero"])
def test_bf16_on_two_ranks_of_a_layer(ranks, wrapper):
    wanted, _ = plain()
    first, second = ranks(2, rounded, wrapper, "bf16")
    assert first[0] == second[0] == pytest.approx(wanted, rel=5e-2)
