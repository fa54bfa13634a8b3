# expects: layer_activations: norms and dropouts are never split
# finding: layer_activations tensor.layer_activations.never
# says: Norms and dropouts are never split. With sequence parallelism they are: 10 sbh / n.
from __future__ import annotations

from lessons.finished import finished

g = finished("g")


def gather_places(x):
    raise NotImplementedError


def scatter_sum(x):
    raise NotImplementedError


def embed(tokens, weight):
    raise NotImplementedError


def cross_entropy(logits, targets):
    raise NotImplementedError


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    return sequence * batch * hidden * (10 + 24 / ranks)
