"""ZeRO-Offload: Zero with an optimizer whose copies, states and arithmetic are on the host."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import parallel
from parallel.offload import Activations, Disk, OnHost
from tests.conftest import Ranks


def trained(stage: int, offload: bool, precision: str | None, resume: bool) -> tuple[list[torch.Tensor], int]:
    """Parameters after four steps, and the bytes of fp32 copies and states on this rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def wrapped() -> parallel.Zero:
        torch.manual_seed(1)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(13, 13), nn.Tanh()) for _ in range(3)))

        def make(parameters: Any) -> torch.optim.Optimizer:
            inner = lambda own: torch.optim.AdamW(own, lr=0.01)  # noqa: E731
            return OnHost(parameters, inner) if offload else inner(parameters)

        return parallel.Zero(model, make, stage=stage, precision=precision)

    zero = wrapped()
    data = torch.arange(12 * 13, dtype=torch.float32).sin().view(12, 13)
    for step in range(4):
        if resume and step == 2:
            saved = copy.deepcopy(zero.state_dict())
            zero = wrapped()
            zero.load_state_dict(saved)
        zero.zero_grad()
        zero(data[rank::ranks]).square().sum().backward()
        zero.step()
    held = sum(v.nbytes for state in zero.optimizer.state.values() for v in state.values() if v.dim())
    with zero.whole() as module:
        return [parameter.detach().clone() for parameter in module.parameters()], held


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_it_trains_as_without(ranks: Ranks, size: int, stage: int) -> None:
    """In fp32 bitwise, through a saved state as well; a master and two moments of this rank's elements on the host."""
    plain = ranks(size, trained, stage, False, None, False)
    for resume in (False, True):
        for (one, held), (other, without) in zip(ranks(size, trained, stage, True, None, resume), plain, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
            assert held == without * 3 // 2


def activations_on_disk() -> bool:
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(13, 13), nn.Tanh()) for _ in range(3)))
    reference = copy.deepcopy(model)
    data = torch.arange(12 * 13, dtype=torch.float32).sin().view(12, 13)
    zero = parallel.Zero(model, lambda p: torch.optim.SGD(p, lr=0.1), stage=3)
    with Activations(disk := Disk(), keep=model.parameters(), least=1):
        loss = zero(data).square().sum()
    loss.backward()
    zero.step()
    reference(data).square().sum().backward()
    expected = [p.detach() - 0.1 * p.grad for p in reference.parameters()]
    with zero.whole() as module:
        return disk.back > 0 and all(torch.allclose(a, b) for a, b in zip(module.parameters(), expected, strict=True))


def test_activations_leave_beside_sharded_parameters(ranks: Ranks) -> None:
    assert ranks(2, activations_on_disk) == [True, True]
