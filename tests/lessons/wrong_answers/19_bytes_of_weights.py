# expects: tensor_parallel_bytes: the gradients of the weights
# finding: tensor_parallel_bytes tensor.tensor_parallel_bytes.weights
# says: These are the gradients of the layer's weights. Tensor parallelism sends none of them: each rank has its own part. It sends activations.
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
    return 2 * (ranks - 1) / ranks * 12 * hidden**2 * itemsize
