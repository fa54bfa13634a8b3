# expects: embed: the token behind the last row counts as own
# finding: embed tensor.embed.border
# says: The token behind a rank's last row counts as its own, too: it is looked up twice. Own are the numbers from 0 to rows − 1, foreign those from rows on: `>=`.
from __future__ import annotations

import torch.distributed as dist
from torch.nn.functional import embedding

from lessons.finished import finished

g = finished("g")


def embed(tokens, weight):
    rows = len(weight)
    local = tokens - dist.get_rank() * rows
    foreign = (local < 0) | (local > rows)
    return g(embedding(local.clamp(0, rows - 1), weight).masked_fill(foreign.unsqueeze(-1), 0))


def gather_places(x):
    raise NotImplementedError


def scatter_sum(x):
    raise NotImplementedError


def cross_entropy(logits, targets):
    raise NotImplementedError


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
