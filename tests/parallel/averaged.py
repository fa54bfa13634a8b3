"""What the tests of DDP share: a small GPT of odd sizes, the rank and world, how far two sets of tensors are apart."""

from __future__ import annotations

import torch.distributed as dist

from parallel.model import Config

ODD = Config(layers=2, hidden=12, heads=3, vocabulary=37, positions=9)  # sizes that no world divides


def here():
    return dist.get_rank(), dist.get_world_size()


def largest(ours, theirs):
    assert ours.keys() == theirs.keys()
    return max((ours[name] - theirs[name]).abs().max().item() for name in ours if ours[name].numel())
