# expects: column_linear: all outputs on all ranks
# finding: column_linear tensor.column_linear.gathered
# says: These are the outputs of all ranks. Return this rank's own: what comes next works on them as they are, and gathering costs what the split was to save.
from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.functional import linear


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    raise NotImplementedError


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    own = linear(x, weight, bias)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own.detach())
    return torch.cat(every, -1)


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
