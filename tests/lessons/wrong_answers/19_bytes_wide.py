# expects: tensor_parallel_bytes: the sums of the MLP are 4h wide
# finding: tensor_parallel_bytes tensor.tensor_parallel_bytes.wide
# says: The sums of the MLP are taken to be 4h wide. Inside, the MLP is 4h wide, but there nothing is exchanged: what is summed has the width h.
from __future__ import annotations


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    raise NotImplementedError


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    one = 2 * (ranks - 1) / ranks * batch * sequence * itemsize
    return 2 * one * hidden + 2 * one * 4 * hidden
