"""{{stub.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import embedding

from lessons.finished import finished

# {{stub.finished}}
g = finished("g")


def gather_places(x: Tensor) -> Tensor:
    """{{stub.gather_places}}"""
    # TODO: {{stub.gather_places_todo}}
    raise NotImplementedError


def scatter_sum(x: Tensor) -> Tensor:
    """{{stub.scatter_sum}}"""
    # TODO: {{stub.scatter_sum_todo}}
    raise NotImplementedError


def embed(tokens: Tensor, weight: Tensor) -> Tensor:
    """{{stub.embed}}"""
    # TODO: {{stub.embed_todo}}
    raise NotImplementedError


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """{{stub.cross_entropy}}"""
    # TODO: {{stub.cross_entropy_todo}}
    raise NotImplementedError


def layer_activations(sequence: int, batch: int, hidden: int, ranks: int, sequence_parallel: bool) -> float:
    """{{stub.layer_activations}}"""
    # TODO: {{stub.layer_activations_todo}}
    raise NotImplementedError
