# expects: own_part: a view
# finding: own_part tensor.own_part.view
# says: The part is right, but it is a view: it keeps the memory of the whole tensor, which can then not be freed. Return a copy: .clone().
from __future__ import annotations

import torch.distributed as dist


def own_part(whole, dim):
    return whole.chunk(dist.get_world_size(), dim)[dist.get_rank()]


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
