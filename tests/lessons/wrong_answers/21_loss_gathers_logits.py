# expects: cross_entropy: all logits on all ranks
# finding: cross_entropy trial.dear.sent
# says: Right, but a rank sends 576 bytes on 3 ranks, where 384 are enough.
from __future__ import annotations

import torch
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
    parts = [torch.empty_like(logits) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, logits.detach().contiguous())
    parts[dist.get_rank()] = logits
    return torch.nn.functional.cross_entropy(torch.cat(parts, -1), targets)


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
