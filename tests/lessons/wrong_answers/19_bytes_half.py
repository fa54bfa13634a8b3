# expects: tensor_parallel_bytes: only the forward
# finding: tensor_parallel_bytes tensor.tensor_parallel_bytes.half
# says: Two all-reduces are counted. A layer has two blocks, attention and MLP, and each has one sum in the forward and one in the backward: four.
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
    return 2 * 2 * (ranks - 1) / ranks * batch * sequence * hidden * itemsize
