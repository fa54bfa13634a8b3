# expects: embed: foreign tokens give row 0
# finding: embed tensor.embed.first_row
# says: Tokens that belong to other ranks are looked up in this rank's first row, and that is added to the sum. Set their result to 0: masked_fill after the look-up, too.
from __future__ import annotations

import torch.distributed as dist
from torch.nn.functional import embedding

from lessons.finished import finished

g = finished("g")


def gather_places(x):
    raise NotImplementedError


def scatter_sum(x):
    raise NotImplementedError


def embed(tokens, weight):
    local = tokens - dist.get_rank() * len(weight)
    foreign = (local < 0) | (local >= len(weight))
    return g(embedding(local.masked_fill(foreign, 0), weight))


def cross_entropy(logits, targets):
    raise NotImplementedError


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
