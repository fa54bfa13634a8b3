# expects: g: the all_reduce of torch.distributed.nn
# finding: g tensor.g.both
# says: g sums in both directions. All ranks have the same gradient of the sum: summed up again, it is n times too large. Hand it back as it is.
from __future__ import annotations

from torch.distributed.nn.functional import all_reduce


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    raise NotImplementedError


def g(x):
    return all_reduce(x)


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
