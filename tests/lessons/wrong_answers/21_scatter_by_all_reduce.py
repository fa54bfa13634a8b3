# expects: scatter_sum: an all-reduce, of which the places are cut out
# finding: scatter_sum tensor.scatter_sum.padded
# says: The output is right, but in the backward each rank has a gradient at its own places only. Its summand went into the places of all ranks: gather their gradients.
from __future__ import annotations

import torch.distributed as dist

from lessons.finished import finished

g = finished("g")


def gather_places(x):
    raise NotImplementedError


def scatter_sum(x):
    total = x.clone()
    dist.all_reduce(total)
    return total.chunk(dist.get_world_size(), -2)[dist.get_rank()]


def embed(tokens, weight):
    raise NotImplementedError


def cross_entropy(logits, targets):
    raise NotImplementedError


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
