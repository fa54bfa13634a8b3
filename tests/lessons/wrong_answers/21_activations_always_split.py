# expects: layer_activations: split without sequence parallelism, too
# finding: layer_activations tensor.layer_activations.always
# says: Norms and dropouts are taken to be split always. Without sequence parallelism every rank has all of what is between the blocks: 10 sbh.
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
    return 34 * sequence * batch * hidden / ranks
