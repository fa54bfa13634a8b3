# expects: cross_entropy: every rank gives a logit of the target
# finding: cross_entropy tensor.cross_entropy.on_all
# says: The logit of the target is counted on every rank: where a rank does not have the target, it gives another logit of its own. It must give 0.
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
    largest = logits.detach().amax(-1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest.unsqueeze(-1)
    local = targets - dist.get_rank() * logits.shape[-1]
    foreign = (local < 0) | (local >= logits.shape[-1])
    own = shifted.gather(-1, local.masked_fill(foreign, 0).unsqueeze(-1)).squeeze(-1)
    return (g(shifted.exp().sum(-1)).log() - g(own)).mean()


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
