# expects: g: only rank 0 calls the all-reduce
# finding: g log.not_entered_at_all
# says: rank 0 waits in allreduce (19_g_on_rank_0.py:20), which rank 1 never enters
from __future__ import annotations

import torch.distributed as dist


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    raise NotImplementedError


def g(x):
    total = x.clone()
    if dist.get_rank() == 0:
        dist.all_reduce(total)
    return total


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
