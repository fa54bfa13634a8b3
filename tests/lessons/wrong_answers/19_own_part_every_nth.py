# expects: own_part: every n-th row
# finding: own_part tensor.own_part.every_nth
# says: This takes every n-th row or column. The parts must be runs: rank 0 has the first ones, and so on, so that the parts one after another are the whole. `chunk` cuts so.
from __future__ import annotations

import torch.distributed as dist


def own_part(whole, dim):
    if dim == 0:
        return whole[dist.get_rank() :: dist.get_world_size()].clone()
    return whole[:, dist.get_rank() :: dist.get_world_size()].clone()


def f(x):
    raise NotImplementedError


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
