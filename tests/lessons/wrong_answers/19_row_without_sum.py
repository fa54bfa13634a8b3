# expects: row_linear: every rank returns its summand
# finding: row_linear tensor.row_linear.no_g
# says: Every rank returns its own summand. The product over all inputs is their sum: let it pass through g.
from __future__ import annotations

from torch.nn.functional import linear


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    raise NotImplementedError


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    return linear(x, weight) + bias


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
