# expects: f: nothing in the backward either
# finding: f tensor.f.nothing
# says: The forward of f is right, but in the backward each rank keeps its own gradient. Every rank has used x, so its gradient is the sum of theirs: all-reduce it.
from __future__ import annotations


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    return x


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
