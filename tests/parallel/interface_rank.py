"""A rank of ``test_interface.py``: what leaves its host's port while it trains, beside the closed form, as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from parallel import formulas
from parallel.comparison import data
from parallel.expectations import Job, layers
from parallel.model import SIZES
from parallel.strategies import STRATEGIES
from parallel.trainee import Trainee

STEPS, MICROBATCHES = 2, 2


def sent() -> int:
    """Bytes that have left by this host's port, headers and all."""
    for line in Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines():
        name, _, fields = line.partition(":")
        if name.strip() == "eth0":
            return int(fields.split()[8])
    raise RuntimeError("this host has no eth0")


def measured(trainee: Trainee, tokens: torch.Tensor, targets: torch.Tensor) -> int:
    """Bytes sent in STEPS steps, after one that is not counted; a barrier shows that the other has received all."""
    for steps in (1, STEPS):
        dist.barrier()
        before = sent()
        for _ in range(steps):
            trainee.optimizer.zero_grad()
            for _ in range(MICROBATCHES):
                trainee.forward(tokens, targets).backward()
            trainee.optimizer.step()
        dist.barrier()
    return sent() - before


def wanted(name: str, job: Job) -> float:
    """The same in closed form. DDP reduces after every microbatch: as often as an all-reduce of all of it."""
    strategy = STRATEGIES[name]
    sizes = layers(job.config)
    if strategy.wrapper == "ddp":
        each = formulas.wire_bytes(strategy.wire)
        return STEPS * MICROBATCHES * formulas.elements_sent(sum(sizes), job.ranks).total * each
    padded = sum(formulas.shard(size, job.ranks) * job.ranks for size in sizes)
    sent = formulas.elements_sent(padded, job.ranks, strategy.stage, MICROBATCHES, kept=strategy.kept)
    return STEPS * sent.total * 4


def main(folder: str, names: list[str]) -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    job = Job("small", SIZES["small"], ranks, batch=ranks, length=16)
    row = data(job)[rank : rank + 1]
    found = {}
    for name in names:
        found[name] = measured(Trainee(STRATEGIES[name], job), row[:, :-1], row[:, 1:]), wanted(name, job)
    Path(folder, f"{rank}.json").write_text(json.dumps({"host": os.uname().nodename, "bytes": found}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
