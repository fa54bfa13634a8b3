"""The same model and microbatches in ``torch.distributed.pipelining``: the same gradients."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.nn import functional as F

from parallel.pipeline import Stages, find
from parallel.pipeline.splitting import split
from tests.parallel.pipelined import VOCABULARY, pipeline, whole

TORCH = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}
MICROBATCHES = 6  # a multiple of the ranks, as torch's interleaved schedule wants it


def mean(output, targets):
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


def total(output, targets):
    return F.cross_entropy(output.flatten(0, 1), targets.flatten(), reduction="sum")


def both(name):
    """This rank's gradients, ours and torch's, and the losses where the last stage is."""
    rank, size = dist.get_rank(), dist.get_world_size()
    layers = 2 * size
    seeded = torch.Generator().manual_seed(2)
    inputs, targets = torch.randint(0, VOCABULARY, (2, 2 * MICROBATCHES, 9), generator=seeded)
    ours = pipeline(whole(layers, tied=False), name, MICROBATCHES, loss=total, count=torch.numel)
    loss = ours.step(inputs, targets)
    stages = Stages(find(name), size)
    modules, _ = split(whole(layers, tied=False), stages, rank)
    theirs = [
        PipelineStage(module, stage, stages.count, torch.device("cpu"))
        for module, stage in zip(modules, stages.stage[rank], strict=True)
    ]
    schedule = TORCH[name](theirs if stages.chunks > 1 else theirs[0], MICROBATCHES, mean)
    losses = []
    schedule.step(
        *([inputs] if rank == 0 else []), **({"target": targets, "losses": losses} if loss is not None else {})
    )
    wanted = {n: p.grad for module in modules for n, p in module.named_parameters()}
    off = max((p.grad - wanted[n]).abs().max().item() for n, p in ours.named_parameters())
    return off, len(wanted), abs(loss - torch.stack(losses).mean()).item() if loss is not None else 0.0


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("size", [2, 3])
def test_gradients_are_those_of_torchs_own_pipelines(ranks, name, size):
    for off, parameters, loss in ranks(size, both, name):
        assert parameters
        assert off < 1e-9
        assert loss < 1e-9
