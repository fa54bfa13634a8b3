"""A training step of ours beside one of ``torch.distributed.pipelining``: same model, microbatches, ranks; on gloo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.nn import functional as F

from parallel.model import GPT, Config
from parallel.pipeline import Stages, find
from parallel.pipeline.engine import Pipeline
from parallel.pipeline.splitting import split
from tests.system.duel.contest import contest

TORCH: dict[str, Any] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}
SHAPE = Config(layers=8, hidden=128, heads=4, positions=64)
ROWS, MICROBATCHES = 16, 8


def duel(name: str, rounds: int) -> dict[str, object]:
    """On every rank: ours, torch's, and torch's a second time, in turns."""
    torch.manual_seed(1)
    tokens, targets = torch.randint(0, SHAPE.vocabulary, (2, ROWS, SHAPE.positions))
    steps = {"ours": ours(name, tokens, targets)}
    steps |= {each: theirs(name, tokens, targets) for each in ("torch", "torch again")}
    return contest(steps, "ours", "torch", "torch again", rounds)


def _model() -> GPT:
    torch.manual_seed(0)
    model = GPT(SHAPE)
    model.head.weight = torch.nn.Parameter(model.head.weight.detach().clone())
    return model


def _total(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), targets.flatten(), reduction="sum")


def _mean(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


def ours(name: str, tokens: Tensor, targets: Tensor) -> Callable[[], object]:
    chunks, _ = split(_model(), Stages(find(name), dist.get_world_size()), dist.get_rank())
    pipe = Pipeline(chunks, name, MICROBATCHES, _total, Tensor.numel)

    def step() -> None:
        for parameter in pipe.parameters():
            parameter.grad = None
        pipe.step(tokens, targets)

    return step


def theirs(name: str, tokens: Tensor, targets: Tensor) -> Callable[[], object]:
    rank, stages = dist.get_rank(), Stages(find(name), dist.get_world_size())
    modules, _ = split(_model(), stages, rank)
    parts = [
        PipelineStage(module, stage, stages.count, torch.device("cpu"))
        for module, stage in zip(modules, stages.stage[rank], strict=True)
    ]
    schedule = TORCH[name](parts if len(parts) > 1 else parts[0], MICROBATCHES, _mean)
    inputs = [tokens] if rank == 0 else []
    goal = {"target": targets} if rank == stages.home[-1][0] else {}

    def step() -> None:
        for module in modules:
            for parameter in module.parameters():
                parameter.grad = None
        schedule.step(*inputs, return_outputs=False, **goal)

    return step
