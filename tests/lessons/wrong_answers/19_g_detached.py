# expects: g: outside of autograd
# finding: g tensor.g.lost
# says: The sum is right, but no gradient arrives at x. g must be an autograd function: a class with forward and backward, called by its apply(x).
from __future__ import annotations

import torch.distributed as dist


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    raise NotImplementedError


def g(x):
    total = x.detach().clone()
    dist.all_reduce(total)
    return total


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
