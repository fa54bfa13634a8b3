# expects: column_linear: x does not pass through f
# finding: column_linear tensor.column_linear.no_f
# says: The output is right, but the gradient of x is this rank's part only: it comes from the rank's own outputs. Every rank has used x: let it pass through f.
from __future__ import annotations

from torch.nn.functional import linear


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    raise NotImplementedError


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    return linear(x, weight, bias)


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
