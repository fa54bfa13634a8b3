# expects: own_part: contiguous() of rows is no copy
# finding: own_part tensor.own_part.contiguous
# says: `.contiguous()` copies only what is not contiguous. Rows are, so the part is still a view there, and keeps the whole tensor's memory. `.clone()` always copies.
from __future__ import annotations

import torch.distributed as dist


def own_part(whole, dim):
    return whole.chunk(dist.get_world_size(), dim)[dist.get_rank()].contiguous()


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
