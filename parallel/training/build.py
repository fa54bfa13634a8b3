"""What a recipe describes, built on this rank: its part of the model, who runs it, and who updates it.

seed ─▶ the whole model, the same on all ranks ─▶ slices (tp) ─▶ stages (pp) ─▶ masters, copies or shards (dp)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from ..data import DistributedDataParallel
from ..mesh import Mesh
from ..offload import Activations, OnHost
from ..pipeline.engine import Pipeline
from ..pipeline.schedules import find
from ..pipeline.splitting import split
from ..pipeline.stages import Stages
from ..pipeline.stepper import Stepper
from ..precision import MixedPrecision
from ..recompute import checkpoint
from ..tensor import TensorParallel, parallelize_
from ..zero import Zero
from .losses import Loss
from .models import MODELS, Model, build
from .piped import Piped
from .recipe import Recipe
from .straight import Straight

EPS = 1e-4  # a key bias has a gradient of rounding noise, of which Adam makes full steps with a smaller eps


@dataclass(frozen=True, slots=True)
class Built:
    """module: this rank's part; names: of its parameters in the whole model, by those in the module, where they differ.
    optimizer: what is stepped; engine: what runs a batch.
    """

    module: nn.Module
    names: dict[str, str]
    optimizer: torch.optim.Optimizer | MixedPrecision | Zero
    engine: Straight | Piped


def assemble(recipe: Recipe, mesh: Mesh) -> Built:
    """All of it; every rank of the mesh calls it."""
    torch.manual_seed(recipe.seed)
    config = MODELS[recipe.model]
    model = build(config)
    if recipe.precision == "fp64":
        model.double()
    tp = TensorParallel(mesh.group("tp"), sequence=recipe.sp) if recipe.tp > 1 else None
    if tp is not None:
        parallelize_(model, tp)
    loss = Loss(config.vocabulary, tp)
    return _pipelined(recipe, mesh, model, loss) if recipe.pp > 1 else _straight(recipe, mesh, model, loss)


def _straight(recipe: Recipe, mesh: Mesh, model: Model, loss: Loss) -> Built:
    if recipe.recompute == "full":
        for block in model.blocks:
            block.forward = partial(checkpoint, block.forward)
    optimizer = _optimizer(recipe, mesh, model, model)
    wrapped = optimizer if isinstance(optimizer, Zero) else DistributedDataParallel(model, mesh.group("dp"))
    engine = Straight(wrapped, loss, mesh, recipe.zero < 2, _away(recipe, model))
    return Built(model, {}, optimizer, engine)


def _pipelined(recipe: Recipe, mesh: Mesh, model: Model, loss: Loss) -> Built:
    schedule = find(recipe.schedule)
    stages, rank = Stages(schedule, recipe.pp, recipe.vpp), mesh.coordinates()["pp"]
    chunks, tied = split(model, stages, rank)
    module = nn.ModuleList(chunks)
    last = chunks[stages.home[-1][1]] if stages.home[-1][0] == rank else nn.Identity()
    optimizer = _optimizer(recipe, mesh, module, last)
    pipeline = Pipeline(
        chunks,
        schedule,
        recipe.microbatches,
        loss,
        loss.count,
        mesh,
        recipe.recompute == "full",
        tied,
        zero=optimizer if isinstance(optimizer, Zero) else None,
    )
    names = {name: name.split(".", 1)[1] for name, _ in module.named_parameters()}  # without the number of the chunk
    if tied:
        names = {name: "embedding.weight" if whole == "head.weight" else whole for name, whole in names.items()}
    stepper = None
    if recipe.clip == "postvalidate":
        assert isinstance(optimizer, torch.optim.Optimizer)
        stepper = Stepper(pipeline, optimizer, recipe.max_norm, recipe.clip)
    return Built(module, names, optimizer, Piped(pipeline, _away(recipe, module), stepper))


def _optimizer(
    recipe: Recipe, mesh: Mesh, module: nn.Module, edge: nn.Module
) -> torch.optim.Optimizer | MixedPrecision | Zero:
    """Who updates the module. edge: where outputs leave the network."""
    rounded = recipe.precision if recipe.precision in ("bf16", "fp16") else None
    make = partial(_adam, lr=recipe.lr, on_host="optimizer" in recipe.offload)
    if recipe.zero:
        return Zero(module, make, recipe.zero, mesh, precision=rounded, edge=edge)
    if rounded is not None:
        return MixedPrecision(module, make, rounded, mesh, edge)
    return make(list(module.parameters()))


def _adam(parameters: Iterable[Any], lr: float, on_host: bool) -> torch.optim.Optimizer:
    adam: Callable[[Iterable[Any]], torch.optim.Optimizer] = partial(torch.optim.AdamW, lr=lr, eps=EPS)
    return OnHost(parameters, adam) if on_host else adam(parameters)


def _away(recipe: Recipe, module: nn.Module) -> Activations | None:
    return Activations(keep=module.parameters()) if "activations" in recipe.offload else None
