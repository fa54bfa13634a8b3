# expects: cross_entropy: each rank subtracts its own maximum
# finding: cross_entropy tensor.cross_entropy.own_max
# says: Every rank subtracts the largest of its own logits. The sums of exponentials of different ranks then have different scales, and must not be added. Subtract the same number everywhere: all-reduce the maximum first.
from __future__ import annotations

import torch.distributed as dist

from lessons.finished import finished

g = finished("g")


def gather_places(x):
    raise NotImplementedError


def scatter_sum(x):
    raise NotImplementedError


def embed(tokens, weight):
    raise NotImplementedError


def cross_entropy(logits, targets):
    shifted = logits - logits.detach().amax(-1, keepdim=True)
    local = targets - dist.get_rank() * logits.shape[-1]
    foreign = (local < 0) | (local >= logits.shape[-1])
    own = shifted.gather(-1, local.masked_fill(foreign, 0).unsqueeze(-1)).squeeze(-1).masked_fill(foreign, 0)
    return (g(shifted.exp().sum(-1)).log() - g(own)).mean()


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
