"""Training that survives the death of a rank, on backend ``ring``::

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --standalone --nproc-per-node 3 --max-restarts 3 examples/elastic.py --checkpoint run.pt

When a rank dies, the others raise CollectiveError within moments instead of waiting for it. torchrun starts all ranks
again, and they go on where the last checkpoint is: all that the next step depends on is in it.

The variable gives every start of the ranks a store of its own. Torch 2.13 shares torchrun's otherwise, with the
addresses of the ranks that are gone, and the new ones (of gloo, too) try to reach those.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import collectives.torch_backend  # noqa: F401
from collectives.atomic import replacing


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the step and the rank alone, so that a step that is done again is the same: (16, 8) and (16, 1)."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(16, 8, generator=draw)
    return x, x.sin().sum(1, keepdim=True)


def train(checkpoint: Path, steps: int, before_backward: Callable[[int], None] = lambda step: None) -> None:
    """Train up to ``steps``, from the checkpoint if there is one; it is written again after every step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    first = 0
    if checkpoint.exists():  # nobody writes to it before all have read it: a step needs all
        saved = torch.load(checkpoint)
        first = saved["step"]
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    parallel = DistributedDataParallel(model)
    for step in range(first, steps):
        x, y = batch(step, dist.get_rank())
        loss = (parallel(x) - y).square().mean()
        before_backward(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            state = {"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            with replacing(checkpoint) as fresh:  # whole or not at all, whenever this rank dies
                torch.save(state, fresh)
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    dist.init_process_group("ring")
    train(options.checkpoint, options.steps)
    dist.destroy_process_group()
    if os.environ["RANK"] == "0":
        print(f"step {options.steps} is done, after {os.environ['TORCHELASTIC_RESTART_COUNT']} restarts")


if __name__ == "__main__":
    main()
