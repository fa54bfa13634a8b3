"""Activations and optimizer states on a slower tier: the same numbers, and the bytes that theory says."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from parallel import expectations
from parallel.expectations import Job
from parallel.memory import Ledger
from parallel.model import GPT, SIZES, cross_entropy
from parallel.offload import Activations, Disk, OffloadedStates, OnHost
from parallel.offload.tiers import Form, Parcel
from parallel.recompute import checkpoint
from parallel.strategies import STRATEGIES

WIDTH, BATCH, DEPTH, FLOAT = 32, 40, 6, 4


def model_of(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(DEPTH))).to(dtype)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24.0).view(2, 3, 4),
        torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1),
        torch.arange(24.0).view(4, 6)[1:3, ::2],
        torch.arange(6.0)[None].expand(3, 6),
        torch.tensor(2.5),
        torch.empty(0, 3),
        torch.arange(10, dtype=torch.bfloat16)[3:],
        torch.tensor([True, False, True]),
        torch.arange(6).to(torch.complex64),
        torch.arange(9, dtype=torch.uint8).view(3, 3).t(),
    ],
)
def test_a_tensor_comes_back_as_it_was(tensor: Tensor, tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    parcel = disk.put(tensor)
    back = parcel.get()
    assert torch.equal(back, tensor)
    assert back.dtype == tensor.dtype
    assert back.stride() == (tensor.stride() if Form.of(tensor).dense else tensor.contiguous().stride())
    assert disk.out == disk.back == tensor.nbytes


def gradients(run: Callable[[nn.Sequential, Tensor], Tensor]) -> list[Tensor]:
    model, value = model_of(), torch.arange(BATCH * WIDTH, dtype=torch.float32).sin().view(BATCH, WIDTH)
    value.requires_grad_()
    result = run(model, value)
    result.square().sum().backward(retain_graph=True)
    result.sum().backward()
    return [value.grad, *(parameter.grad for parameter in model.parameters())]  # type: ignore[list-item]


def test_gradients_are_bitwise_those_of_activations_in_memory(tmp_path: Path) -> None:
    def offloaded(model: nn.Sequential, value: Tensor) -> Tensor:
        with Activations(Disk(tmp_path), keep=model.parameters(), least=1):
            return model(value)

    def both(model: nn.Sequential, value: Tensor) -> Tensor:
        """Only what the segments keep is there to be moved."""
        with Activations(disk := Disk(tmp_path), keep=model.parameters(), least=1):
            for block in model:
                value = checkpoint(block, value)
        assert disk.out == DEPTH * BATCH * WIDTH * FLOAT
        return value

    plain = gradients(lambda model, value: model(value))
    for run in (offloaded, both):
        assert all(torch.equal(one, other) for one, other in zip(gradients(run), plain, strict=True))


def test_what_two_operators_save_moves_once_and_leaves_memory(tmp_path: Path) -> None:
    """Of each block the linear's input, which is the tanh's result before: n + 1 tensors in all."""
    model, disk = model_of(), Disk(tmp_path)
    value = torch.ones(BATCH, WIDTH)
    with Ledger(model) as ledger:
        with Activations(disk, keep=model.parameters(), least=1):
            result = model(value)
        disk._writer.submit(int).result()  # all are written
        assert ledger.now()["activations"] == result.nbytes  # the caller's own
        assert disk.out == (DEPTH + 1) * value.nbytes
        result.sum().backward()
        assert disk.back == disk.out


def test_the_peak_falls_to_what_is_under_way(tmp_path: Path) -> None:
    def peak(tier: Disk | None) -> int:
        model = model_of()
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        value = torch.ones(BATCH, WIDTH)
        with Ledger(model) as ledger:
            if tier is None:
                model(value).sum().backward()
            else:
                with Activations(tier, keep=model.parameters(), least=1, ahead=0):
                    result = model(value)
                tier._writer.submit(int).result()
                ledger.reset_peak()
                result.sum().backward()
        return ledger.peak["activations"]

    one = BATCH * WIDTH * FLOAT
    assert peak(None) >= (DEPTH - 1) * one
    assert peak(Disk(tmp_path)) <= 2 * one + 2 * FLOAT  # the result, one that is back; the sum and its gradient


class Reluctant(Disk):
    """Writes a tensor only when another one waits for its place: no disk is slower."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.wanted = threading.Semaphore(0)

    def put(self, tensor: Tensor) -> Parcel:
        if self._pending.acquire(blocking=False):
            self._pending.release()
        else:
            self.wanted.release()
        return super().put(tensor)

    def write(self, rows: list[Tensor], version: int, path: Path) -> bool:
        self.wanted.acquire()
        return super().write(rows, version, path)


@pytest.mark.parametrize(("batch", "length"), [(2, 40), (3, 17)])
def test_the_slowest_disk_leaves_in_memory_what_the_closed_form_says(batch: int, length: int, tmp_path: Path) -> None:
    job = Job("tiny", SIZES["tiny"], 1, batch, length)
    rows = torch.randint(job.config.vocabulary, (batch, length + 1), generator=torch.Generator().manual_seed(3))
    tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
    model, disk = GPT(job.config), Reluctant(tmp_path)
    with Ledger(model) as ledger:
        with Activations(disk, keep=model.parameters()):
            logits = model(tokens)
        total, count = cross_entropy(logits, targets)
        loss = total / count
        disk.wanted.release(1000)
        loss.backward()
    assert ledger.tops["activations"] == expectations.activations(STRATEGIES["offload-activations"], job)


def test_files_go_with_their_tensors_and_the_folder_with_its_owner(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    parcels = [disk.put(torch.ones(100)) for _ in range(3)]
    assert all(torch.equal(parcel.get(), torch.ones(100)) for parcel in parcels)
    assert len(list(disk.folder.iterdir())) == 3
    del parcels[1:]
    assert len(list(disk.folder.iterdir())) == 1
    folder = disk.folder
    del disk, parcels
    assert not folder.exists()


def test_a_tensor_that_changes_on_its_way_is_noticed(tmp_path: Path) -> None:
    disk, tensor = Disk(tmp_path), torch.zeros(10)
    changed = threading.Event()
    disk._writer.submit(changed.wait)
    parcel = disk.put(tensor)
    tensor.add_(1)
    changed.set()
    with pytest.raises(RuntimeError, match="changed in place"):
        parcel.get()


def optimizers(dtype: torch.dtype = torch.float32) -> tuple[nn.Sequential, list[dict[str, Any]]]:
    model = model_of(dtype)
    parameters = list(model.parameters())
    return model, [{"params": parameters[:3], "lr": 0.05, "weight_decay": 0.1}, {"params": parameters[3:]}]


def train(model: nn.Sequential, optimizer: Optimizer, steps: int = 4) -> list[Tensor]:
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    value = torch.arange(BATCH * WIDTH, dtype=torch.float32).cos().view(BATCH, WIDTH)
    dtype = next(model.parameters()).dtype
    for _ in range(steps):
        optimizer.zero_grad()
        model(value.to(dtype)).square().sum().backward()
        optimizer.step()
        schedule.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize(
    "make",
    [
        lambda groups: AdamW(groups, lr=0.01),
        lambda groups: AdamW(groups, lr=0.01, amsgrad=True, foreach=True),
        lambda groups: SGD(groups, lr=0.01, momentum=0.9),
    ],
)
def test_an_optimizer_with_its_states_away_does_the_same(make: Callable[[Any], Optimizer], tmp_path: Path) -> None:
    model, groups = optimizers()
    reference = train(model, make(groups))
    model, groups = optimizers()
    away = OffloadedStates(make(groups), Disk(tmp_path))
    assert all(torch.equal(one, other) for one, other in zip(train(model, away), reference, strict=True))
    assert Ledger(model, away._inner).now()["optimizer"] == 0
    saved = copy.deepcopy(away.state_dict())
    other, groups = optimizers()
    other.load_state_dict(model.state_dict())
    again = OffloadedStates(make(groups), Disk(tmp_path))
    again.load_state_dict(saved)
    assert all(torch.equal(one, two) for one, two in zip(train(model, away), train(other, again), strict=True))


def test_one_parameter_at_a_time_is_in_memory(tmp_path: Path) -> None:
    model, groups = optimizers()
    away = OffloadedStates(AdamW(groups, lr=0.01), Disk(tmp_path))
    train(model, away, 1)
    largest = max(parameter.nbytes for parameter in model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with Ledger(model, away._inner) as ledger:
        away.step()
        assert 2 * largest <= ledger.tops["optimizer"] <= 4 * largest  # what the writer still holds, at most
        disk = away.tier
        assert disk.out == 2 * sum(2 * parameter.nbytes for parameter in model.parameters())


def test_on_the_host_it_is_the_same_update_in_fp32() -> None:
    model, groups = optimizers()
    reference = train(model, AdamW(groups, lr=0.01))
    model, groups = optimizers()
    assert all(
        torch.equal(one, other)
        for one, other in zip(train(model, OnHost(groups, lambda own: AdamW(own, lr=0.01))), reference, strict=True)
    )


def test_on_the_host_small_steps_of_half_precision_add_up(tmp_path: Path) -> None:
    """A step of 2⁻¹² is lost on a bf16 weight of 1; on its fp32 copy 16 of them are 2⁻⁸, half a unit: 0.9961."""
    weight = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    optimizer = OnHost([weight], lambda own: SGD(own, lr=2.0**-12))
    for _ in range(16):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    assert torch.equal(weight.detach().float(), torch.full((3,), 1 - 2.0**-8))
    saved = copy.deepcopy(optimizer.state_dict())
    fresh = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    other = OnHost([fresh], lambda own: SGD(own, lr=2.0**-12))
    other.load_state_dict(saved)
    assert torch.equal(fresh, weight)
    for one in (weight, fresh):
        one.grad = torch.ones_like(one)
    optimizer.step()
    other.step()
    assert torch.equal(other.state[fresh]["master"], optimizer.state[weight]["master"])
    assert optimizer.state[weight]["master"].tolist() == [1 - 17 * 2.0**-12] * 3


def test_on_the_host_a_scheduler_reaches_the_inner_optimizer() -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = OnHost([{"params": [weight], "lr": 1.0}], lambda own: SGD(own, lr=0.1))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for expected in (0.0, -0.5):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        schedule.step()
        assert weight.tolist() == [expected] * 2
