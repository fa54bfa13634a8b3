# expects: cross_entropy: nothing is subtracted
# finding: cross_entropy tensor.cross_entropy.overflow
# says: With small logits the loss is right, with large ones it is not a number: exp of a large logit is infinite. Subtract the largest logit of all ranks first; the loss does not change by it.
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
    shifted = logits
    local = targets - dist.get_rank() * logits.shape[-1]
    foreign = (local < 0) | (local >= logits.shape[-1])
    own = shifted.gather(-1, local.masked_fill(foreign, 0).unsqueeze(-1)).squeeze(-1).masked_fill(foreign, 0)
    return (g(shifted.exp().sum(-1)).log() - g(own)).mean()


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
