"""Lesson 18 on real ranks: layers that are whole only while they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from ..experiment import Example, Experiment

BYTES = 8  # of a float64
ROWS = 2  # of a rank's batch
SPARE = 16 << 10  # bytes of what a group keeps from its first collective on


def _drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _up(elements: int, size: int) -> int:
    return -(-elements // size)


def _cut(whole: Tensor, size: int) -> list[Tensor]:
    """A shard for each rank, zeros at the end."""
    length = _up(whole.numel(), size)
    flat = torch.cat([whole.flatten(), whole.new_zeros(length * size - whole.numel())])
    return [shard.clone() for shard in flat.split(length)]


# gather_layer: a matrix from everybody's shard


def _matrix(example: Example) -> Tensor:
    return _drawn(*example, seed=3)


def _gather_arguments(example: Example, rank: int, size: int) -> tuple[Tensor, tuple[int, ...]]:
    return _cut(_matrix(example), size)[rank], tuple(example)


def _turned_round(example: Example, size: int) -> list[Tensor]:
    """The shards in the wrong order: the own one first, as a ring brings them."""
    shards = _cut(_matrix(example), size)
    return [torch.cat(shards[rank:] + shards[:rank])[: math.prod(example)].view(example) for rank in range(size)]


def _summed(example: Example, size: int) -> list[Tensor]:
    """The shard of one, everywhere: added in place of laid side by side."""
    total = torch.stack(_cut(_matrix(example), size)).sum(0)
    return [torch.cat([total] * size)[: math.prod(example)].view(example)] * size


# zero3_gradients: y = tanh(x W), layer after layer, and back


def _weights(example: Example) -> list[Tensor]:
    layers, width = example
    return [_drawn(width, width, seed=10 + number) / math.sqrt(width) for number in range(layers)]


def _rows(example: Example, rank: int) -> tuple[Tensor, Tensor]:
    """What goes in, and what should come out."""
    width = example[1]
    return _drawn(ROWS, width, seed=200 + rank), _drawn(ROWS, width, seed=300 + rank)


def _zero3_arguments(example: Example, rank: int, size: int) -> tuple[list[Tensor], Tensor, Tensor]:
    return ([_cut(weight, size)[rank] for weight in _weights(example)], *_rows(example, rank))


def _passed(weights: Sequence[Tensor], inputs: Tensor, aims: Tensor, late: int = 0) -> list[Tensor]:
    """The gradients of one rank's rows. late: 1 takes a layer's output for its input."""
    kept = [inputs]
    for one in weights:
        kept.append(torch.tanh(kept[-1] @ one))
    gradient = 2 * (kept[-1] - aims) / aims.numel()
    found: list[Tensor] = []
    for number in reversed(range(len(weights))):
        gradient = gradient * (1 - kept[number + 1] ** 2)
        found.insert(0, kept[number + late].T @ gradient)
        gradient = gradient @ weights[number].T
    return found


def _reduced(
    example: Example,
    size: int,
    reduce: Callable[[Tensor, int], Tensor] = lambda gradients, rank: gradients.mean(0),
    turned: bool = False,
    late: int = 0,
    place: Callable[[int], int] = lambda rank: rank,
    weights: Callable[[list[Tensor], int, int], list[Tensor]] = lambda weights, rank, size: weights,
) -> list[list[Tensor]]:
    """Each rank's shards of the gradients, a layer each; every argument is a way to go wrong."""
    every = [_passed(weights(_weights(example), rank, size), *_rows(example, rank), late=late) for rank in range(size)]
    found = []
    for rank in range(size):
        mine = [
            _cut(reduce(torch.stack([gradients[number] for gradients in every]), rank), size)[place(rank)]
            for number in range(example[0])
        ]
        found.append(mine[::-1] if turned else mine)
    return found


def _own_rows_only(weights: list[Tensor], rank: int, size: int) -> list[Tensor]:
    """As if the other ranks' shards were zeros."""
    found = []
    for weight in weights:
        shards = _cut(weight, size)
        kept = [shard if number == rank else torch.zeros_like(shard) for number, shard in enumerate(shards)]
        found.append(torch.cat(kept)[: weight.numel()].view_as(weight))
    return found


def _local(gradients: Tensor, rank: int) -> Tensor:
    return gradients[rank]


def _limit(example: tuple[int, int], size: int) -> float:
    """Six matrices at once, every layer's shard of a gradient, and what is kept of the rows."""
    layers, width = example
    shards = layers * _up(width * width, size)
    return BYTES * (6 * width * width + size + shards + (layers + 8) * ROWS * width) + SPARE


ZERO3: Mapping[str, Experiment] = {
    "gather_layer": Experiment(
        examples=lambda size: ((3, 3), (5, 2), (size, size)),
        arguments=_gather_arguments,
        expected=lambda example, size: [_matrix(example)] * size,
        mistakes={
            "zero.gather_layer.own_first": _turned_round,
            "zero.gather_layer.added": _summed,
        },
        sent=lambda example, size: (size - 1) * _up(math.prod(example), size) * BYTES,
    ),
    "zero3_gradients": Experiment(
        examples=lambda size: ((16, 48), (3, 3), (1, 5)),
        arguments=_zero3_arguments,
        expected=_reduced,
        mistakes={
            "zero.zero3_gradients.turned": partial(_reduced, turned=True),
            "zero.zero3_gradients.local": partial(_reduced, reduce=_local),
            "zero.zero3_gradients.outputs": partial(_reduced, late=1),
            "zero.zero3_gradients.first": partial(_reduced, place=lambda rank: 0),
            "zero.zero3_gradients.not_gathered": partial(_reduced, weights=_own_rows_only),
        },
        sent=lambda example, size: 3 * (size - 1) * example[0] * _up(example[1] ** 2, size) * BYTES,
        memory=_limit,
    ),
}
