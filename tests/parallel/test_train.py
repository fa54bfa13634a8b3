"""``python -m parallel train`` and what it stands on: every mesh is one process, a checkpoint fits every mesh."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from parallel.checkpoints import Folder
from parallel.checkpoints.folder import find
from parallel.deferred import defer
from parallel.tensor import TensorParallel, parallelize_
from parallel.training.build import EPS
from parallel.training.models import MODELS, build
from parallel.training.recipe import Recipe
from parallel.training.text import Text
from parallel.training.training import Training

ROOT = Path(__file__).parents[2]
EXACT = Recipe(model="tiny", precision="fp64", batch=7, sequence=19, seed=5, lr=0.01, warmup=2)


def trained(recipe: Recipe, steps: int, save: str | None = None, resume: str | None = None) -> Any:
    """Losses, norms and (where they are whole) parameters after some more steps, on every rank."""
    training, text = Training(recipe), Text(__file__)
    if resume is not None:
        training.load(find(resume))
    taken = [training.step(text.rows(training.steps, recipe.batch, recipe.sequence, recipe.seed)) for _ in range(steps)]
    if save is not None:
        folder = Folder(save)
        if dist.get_rank() == 0:
            folder.prepare()
        training.save(folder)
    training.settle()
    losses = [(step.loss, training.norms[number]) for number, step in enumerate(taken, training.steps - steps + 1)]
    return losses, whole(training)


def whole(training: Training) -> dict[str, torch.Tensor]:
    """The parameters that this rank is the first to hold, by name in the whole model: put together from all ranks."""
    found: dict[str, torch.Tensor] = {}
    everyone: list[Any] = [None] * dist.get_world_size()
    mine = [(held.name, held.place, held.weight.detach().flatten()) for held in training.holdings() if held.first]
    dist.all_gather_object(everyone, mine)
    for name, place, values in (entry for entries in everyone for entry in entries):
        place.fill(found.setdefault(name, torch.full(place.shape, torch.nan, dtype=values.dtype)), values)
    return found


@functools.cache
def plain(recipe: Recipe, steps: int) -> Any:
    """The same by torch alone: one process, one batch, its own AdamW and clipping."""
    torch.manual_seed(recipe.seed)
    model, text = build(MODELS[recipe.model]).double(), Text(__file__)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, eps=EPS)
    found = []
    for step in range(steps):
        rows = text.rows(step, recipe.batch, recipe.sequence, recipe.seed)
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * min(1.0, (step + 1) / (recipe.warmup + 1))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_norm)
        optimizer.step()
        found.append((loss.item(), norm.item()))
    return found, dict(model.named_parameters())


def assert_same(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    assert found[0] == [pytest.approx(pair, rel=tolerance, abs=tolerance) for pair in wanted[0]]
    assert found[1].keys() == wanted[1].keys()
    for name, value in wanted[1].items():
        torch.testing.assert_close(found[1][name], value, rtol=0, atol=tolerance, msg=name)


def alike(ranks: Any, recipe: Recipe, tolerance: float = 1e-9, steps: int = 4) -> None:
    wanted = plain(replace(EXACT, model=recipe.model), steps)  # where and how it is trained does not matter here
    for found in ranks(recipe.ranks, trained, recipe, steps):
        assert_same(found, wanted, tolerance)


@pytest.mark.parametrize("dp", [1, 2, 3])
@pytest.mark.parametrize(
    "way",
    [{}, {"zero": 1}, {"zero": 2, "microbatches": 2}, {"zero": 3, "recompute": "full"}, {"microbatches": 2},
     {"offload": ("activations",), "recompute": "full"}, {"zero": 3, "offload": ("activations",), "microbatches": 2}],
    ids=str,
)  # fmt: skip
def test_data_parallel_is_one_process(ranks: Any, dp: int, way: dict[str, Any]) -> None:
    alike(ranks, replace(EXACT, dp=dp, **way))


MESHES: list[dict[str, Any]] = [
    {"tp": 2},
    {"tp": 2, "sp": True, "recompute": "full"},
    {"tp": 2, "dp": 2},
    {"tp": 2, "dp": 2, "zero": 3, "microbatches": 2},
    {"tp": 2, "dp": 2, "zero": 2, "sp": True},
    {"pp": 2, "microbatches": 3},
    {"pp": 2, "dp": 2, "microbatches": 2},
    {"pp": 2, "dp": 2, "microbatches": 2, "clip": "postvalidate"},
    {"pp": 2, "dp": 2, "zero": 1, "microbatches": 2, "recompute": "full"},
    {"pp": 2, "tp": 2, "microbatches": 2},
    {"pp": 2, "tp": 2, "dp": 2, "microbatches": 2, "sp": True},
    {"pp": 2, "tp": 2, "dp": 2, "microbatches": 2, "zero": 1, "offload": ("activations",)},
]


@pytest.mark.parametrize("model", ["tiny", "llama-tiny"])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_every_mesh_is_one_process(ranks: Any, mesh: dict[str, Any], model: str) -> None:
    alike(ranks, replace(EXACT, model=model, **mesh))


def test_four_ranks_share_heads_and_a_sequence_that_they_do_not_divide(ranks: Any) -> None:
    alike(ranks, replace(EXACT, tp=4, sp=True))


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "interleaved", "zb-h1", "zb-h2", "zbv"])
@pytest.mark.parametrize("more", [{}, {"dp": 2, "zero": 1}, {"tp": 2}], ids=str)
def test_every_schedule_is_one_process(ranks: Any, schedule: str, more: dict[str, int]) -> None:
    recipe = replace(
        EXACT, model="small", pp=2, microbatches=1 if schedule == "naive" else 2, schedule=schedule, **more
    )
    alike(ranks, recipe, steps=2)


@pytest.mark.parametrize("model", ["small", "llama-small"])
@pytest.mark.parametrize("schedule", ["zb-h1", "zbv"])
def test_shared_layers_put_off_their_weight_gradients(ranks: Any, schedule: str, model: str) -> None:
    alike(ranks, replace(EXACT, model=model, pp=2, tp=2, sp=True, microbatches=3, schedule=schedule), steps=2)


def who_cannot_wait(form: dict[str, Any]) -> list[str]:
    """Of a model's layers, once they are shared; and what a backward in two halves leaves for the second."""
    found = []
    for config in (MODELS["tiny"], MODELS["llama-tiny"]):
        model = build(config).double()
        parallelize_(model, TensorParallel(**form))
        plain_gradients = gradients(model)
        owed, foreign = defer(model)
        found += foreign
        model.zero_grad()
        later = gradients(model)
        waiting = {name for name, value in later.items() if value is None and plain_gradients[name] is not None}
        found += sorted(
            name for name in plain_gradients if "norm" not in name and "bias" not in name and name not in waiting
        )
        for entry in owed.take():
            entry.pay()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, plain_gradients[name], rtol=0, atol=1e-12, msg=name)
    return found


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor | None]:
    tokens = torch.randint(256, (3, 13), generator=torch.Generator().manual_seed(2))
    model(tokens).square().sum().backward()
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize(
    "form", [{}, {"sequence": True}, {"sequence": True, "regather": False}, {"sequence": True, "ring": True}], ids=str
)
def test_no_shared_layer_is_foreign_to_a_backward_in_two_halves(ranks: Any, form: dict[str, Any]) -> None:
    assert ranks(2, who_cannot_wait, form) == [[], []]


@pytest.mark.parametrize("mesh", [{"dp": 2}, {"dp": 2, "zero": 3}, {"tp": 2}, {"pp": 2, "microbatches": 2}], ids=str)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_rounded_runs_stay_near_and_agree_on_skipping(ranks: Any, mesh: dict[str, Any], precision: str) -> None:
    """fp16 begins with a loss scale of 2¹⁶; whichever rank overflows, all leave the step out."""
    wanted = plain(replace(EXACT, precision="fp64"), 4)[0]
    each = [found[0] for found in ranks(2, trained, replace(EXACT, precision=precision, **mesh), 4)]
    assert all(found == each[0] for found in each)
    assert [loss for loss, _ in each[0]] == pytest.approx([loss for loss, _ in wanted], rel=0.02)


def test_the_update_on_the_host_is_the_same_in_fp32(ranks: Any) -> None:
    for zero in (0, 3):
        alike(ranks, replace(EXACT, dp=2, zero=zero, offload=("optimizer",)), tolerance=1e-5)
