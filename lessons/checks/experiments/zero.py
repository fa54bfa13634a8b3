"""Lessons 17 and 18 on real ranks: one process that has all gradients, and what classic faults of ZeRO would make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..experiment import Example, Experiment
from .zero3 import ZERO3

Shapes = Sequence[tuple[int, ...]]
BYTES = 8  # of a float64
STEPS, RATE = 3, 0.1


def _drawn(shapes: Shapes, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def _flat(tensors: Sequence[Tensor], length: int = 0) -> Tensor:
    """One after another, and zeros up to the length."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    return torch.cat([flat, flat.new_zeros(max(0, length - flat.numel()))])


def _elements(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes)


def _up(elements: int, size: int) -> int:
    """Elements of a shard: rounded up."""
    return -(-elements // size)


# flatten_padded: tensors one after another, then zeros


def _padded(shapes: Shapes, size: int) -> list[Tensor]:
    return [_flat(_drawn(shapes, 1), _up(_elements(shapes), size) * size)] * size


def _cut(shapes: Shapes, size: int) -> list[Tensor]:
    return [_flat(_drawn(shapes, 1))[: _elements(shapes) // size * size]] * size


def _always_more(shapes: Shapes, size: int) -> list[Tensor]:
    return [_flat(_drawn(shapes, 1), (_elements(shapes) // size + 1) * size)] * size


def _each_padded(shapes: Shapes, size: int) -> list[Tensor]:
    parts = [_flat([one], _up(one.numel(), size) * size) for one in _drawn(shapes, 1)]
    return [torch.cat(parts)] * size


def _in_front(shapes: Shapes, size: int) -> list[Tensor]:
    flat = _flat(_drawn(shapes, 1))
    return [torch.cat([flat.new_zeros(_up(flat.numel(), size) * size - flat.numel()), flat])] * size


def _unpadded(shapes: Shapes, size: int) -> list[Tensor]:
    return [_flat(_drawn(shapes, 1))] * size


# zero1_train: Adam on a shard. The loss is a well that every rank has elsewhere: its gradient needs no autograd.


def _backward(parameters: Sequence[Tensor], aims: Sequence[Tensor]) -> list[Tensor]:
    return [one - aim + one**3 for one, aim in zip(parameters, aims, strict=True)]


def _aims(shapes: Shapes, rank: int) -> list[Tensor]:
    return _drawn(shapes, 100 + rank)


def _train_arguments(shapes: Shapes, rank: int, size: int) -> tuple[Any, ...]:
    parameters, aims = _drawn(shapes, 2), _aims(shapes, rank)
    return parameters, lambda: _backward(parameters, aims), STEPS, RATE


def _trained(arguments: tuple[Any, ...], value: Any) -> Any:
    """The parameters, and how many shards of states this rank's optimizer keeps."""
    if not isinstance(value, torch.optim.Optimizer):
        return value
    states = [one for state in value.state.values() for one in state.values() if isinstance(one, Tensor)]
    kept = sum(one.numel() for one in states if one.dim())
    shard = 2 * _up(sum(one.numel() for one in arguments[0]), dist.get_world_size())
    return {"parameters": arguments[0], "shards of states": _up(kept, shard)}


def _training(
    shapes: Shapes,
    size: int,
    length: Callable[[int, int], int] = _up,
    reduce: Callable[[Tensor, int], Tensor] = lambda gradients, rank: gradients.mean(0),
    place: Callable[[int], int] = lambda rank: rank,
    gathers: bool = True,
    fresh: bool = False,
    adds: bool = False,
    returns: bool = True,
) -> list[Any]:
    """Sharded training of all ranks, one after another; every argument is a way to go wrong.

    length: of a shard. reduce: of all ranks' gradients, to that of a rank. place: whose values a rank starts from.
    gathers: the others' shards arrive. fresh: a new optimizer in every step. adds: gradients of former steps stay.
    returns: what was updated goes back to the parameters.
    """
    elements = _elements(shapes)
    own = length(elements, size)
    flats = [_flat(_drawn(shapes, 2), own * size) for _ in range(size)]
    shards = [flat[place(rank) * own :][:own].clone() for rank, flat in enumerate(flats)]
    optimizers = [torch.optim.Adam([shard], RATE) for shard in shards]
    sums = [torch.zeros_like(shard) for shard in shards]
    sizes = [math.prod(shape) for shape in shapes]
    for _ in range(STEPS):
        seen = flats if returns else [_flat(_drawn(shapes, 2), own * size)] * size
        gradients = []
        for rank, flat in enumerate(seen):
            aims = [aim.flatten() for aim in _aims(shapes, rank)]
            gradients.append(_flat(_backward(flat[:elements].split(sizes), aims), own * size))
        for rank, shard in enumerate(shards):
            gradient = reduce(torch.stack(gradients), rank)[rank * own :][:own]
            sums[rank] = sums[rank] + gradient if adds else gradient
            shard.grad = sums[rank].clone()
            if fresh:
                optimizers[rank] = torch.optim.Adam([shard], RATE)
            optimizers[rank].step()
        for rank, flat in enumerate(flats):
            if gathers:
                flat[: own * size] = torch.cat(shards)
            else:
                flat[place(rank) * own :][:own] = shards[rank]
    ends = flats if returns else [_flat(_drawn(shapes, 2))] * size
    parts = [flat[:elements].split(sizes) for flat in ends]
    return [
        {
            "parameters": [one.view(shape) for one, shape in zip(part, shapes, strict=True)],
            "shards of states": 1,
        }
        for part in parts
    ]


def _whole_states(shapes: Shapes, size: int) -> list[Any]:
    right = _training(shapes, size)
    return [{**one, "shards of states": size} for one in right]


# zero2_reduce: gradients come layer by layer, the last layer first


def _layers(shapes: Shapes, rank: int) -> Iterator[Tensor]:
    for number in reversed(range(len(shapes))):
        yield _drawn([shapes[number]], 1000 * rank + number)[0]


def _shards(
    shapes: Shapes,
    size: int,
    reduce: Callable[[Tensor, int], Tensor] = lambda gradients, rank: gradients.mean(0),
    length: Callable[[int, int], int] = _up,
    place: Callable[[int], int] = lambda rank: rank,
    turned: bool = False,
) -> list[list[Tensor]]:
    every = [list(_layers(shapes, rank)) for rank in range(size)]
    found: list[list[Tensor]] = []
    for rank in range(size):
        mine = []
        for number in range(len(shapes)):
            parts = [gradients[number] for gradients in every]
            own = length(parts[0].numel(), size)
            whole = reduce(torch.stack([_flat([part], own * size) for part in parts]), rank)
            mine.append(whole[place(rank) * own :][:own])
        found.append(mine[::-1] if turned else mine)
    return found


def _together(shapes: Shapes, size: int) -> list[list[Tensor]]:
    """All layers cut at once, in place of each."""
    flats = torch.stack(
        [_flat(list(_layers(shapes, rank)), _up(_elements(shapes), size) * size) for rank in range(size)]
    )
    return [[one] for one in flats.mean(0).chunk(size)]


# shards_norm: each element once


def _norm_arguments(example: Example, rank: int, size: int) -> tuple[list[Tensor], list[Tensor]]:
    pieces, replicated = example
    return _drawn(pieces, 50 + rank), _drawn(replicated, 49)


def _squares(tensors: Sequence[Tensor]) -> float:
    return float(sum((tensor.square().sum() for tensor in tensors), torch.zeros((), dtype=torch.float64)))


def _norms(example: Example, size: int, norm: Callable[[list[float], float, int], float]) -> list[float]:
    """norm: of the squares of every rank's pieces, those of what all ranks have, and a rank."""
    pieces = [_squares(_norm_arguments(example, rank, size)[0]) for rank in range(size)]
    replicated = _squares(_norm_arguments(example, 0, size)[1])
    return [norm(pieces, replicated, rank) for rank in range(size)]


def _norm(norm: Callable[[list[float], float, int], float]) -> Callable[[Example, int], list[float]]:
    return partial(_norms, norm=norm)


def _local(gradients: Tensor, rank: int) -> Tensor:
    return gradients[rank]


def _sum(gradients: Tensor, rank: int) -> Tensor:
    return gradients.sum(0)


_ODD: Shapes = ((5,), (3, 4), (4,), (4, 5))  # 41 elements
_EIGHT: Shapes = ((40, 40),) * 8
_LAYER = 40 * 40 * BYTES
SPARE = 16 << 10  # bytes of what a group keeps from its first collective on

ZERO: Mapping[str, Experiment] = {
    "flatten_padded": Experiment(
        examples=lambda size: (_ODD, ((size, 2), (size,)), ((5,),)),
        arguments=lambda shapes, rank, size: (_drawn(shapes, 1), size),
        expected=_padded,
        mistakes={
            "zero.flatten_padded.cut": _cut,
            "zero.flatten_padded.always": _always_more,
            "zero.flatten_padded.each": _each_padded,
            "zero.flatten_padded.front": _in_front,
            "zero.flatten_padded.bare": _unpadded,
        },
    ),
    "zero1_train": Experiment(
        examples=lambda size: (_ODD, ((size, 2), (size,)), ((5,),)),
        arguments=_train_arguments,
        optimizes=True,
        outcome=_trained,
        expected=_training,
        mistakes={
            "zero.zero1_train.sum": partial(_training, reduce=_sum),
            "zero.zero1_train.tail": partial(_training, length=lambda elements, size: elements // size),
            "zero.zero1_train.local": partial(_training, reduce=_local),
            "zero.zero1_train.not_gathered": partial(_training, gathers=False),
            "zero.zero1_train.first": partial(_training, place=lambda rank: 0),
            "zero.zero1_train.fresh": partial(_training, fresh=True),
            "zero.zero1_train.adds": partial(_training, adds=True),
            "zero.zero1_train.not_put_back": partial(_training, returns=False),
            "zero.zero1_train.whole": _whole_states,
        },
        sent=lambda shapes, size: STEPS * 2 * (size - 1) * _up(_elements(shapes), size) * BYTES,
    ),
    "zero2_reduce": Experiment(
        examples=lambda size: (_EIGHT, ((3,), (2, 5), (7,)), ((size, 3),)),
        arguments=lambda shapes, rank, size: (_layers(shapes, rank),),
        expected=_shards,
        mistakes={
            "zero.zero2_reduce.local": partial(_shards, reduce=_local),
            "zero.zero2_reduce.tail": partial(_shards, length=lambda elements, size: elements // size),
            "zero.zero2_reduce.first": partial(_shards, place=lambda rank: 0),
            "zero.zero2_reduce.turned": partial(_shards, turned=True),
            "zero.zero2_reduce.together": _together,
        },
        sent=lambda shapes, size: (size - 1) * len(shapes) * _up(40 * 40, size) * BYTES,
        memory=lambda shapes, size: 6 * _LAYER + len(shapes) * _up(40 * 40, size) * BYTES + SPARE,
    ),
    "shards_norm": Experiment(
        examples=lambda size: ((((4,), (2, 3)), ((5,), (2,))), (((7,),), ()), (((1,), (6,)), ((1,),))),
        arguments=_norm_arguments,
        expected=_norm(lambda pieces, replicated, rank: math.sqrt(sum(pieces) + replicated)),
        mistakes={
            "zero.shards_norm.replicated": _norm(lambda p, r, rank: math.sqrt(sum(p) + len(p) * r)),
            "zero.shards_norm.own": _norm(lambda p, r, rank: math.sqrt(p[rank] + r)),
            "zero.shards_norm.roots": _norm(lambda p, r, rank: sum(map(math.sqrt, p)) + math.sqrt(r)),
            "zero.shards_norm.roots_replicated": _norm(lambda p, r, rank: sum(math.sqrt(one + r) for one in p)),
            "zero.shards_norm.squared": _norm(lambda p, r, rank: sum(p) + r),
            "zero.shards_norm.squared_replicated": _norm(lambda p, r, rank: sum(p) + len(p) * r),
            "zero.shards_norm.pieces_only": _norm(lambda p, r, rank: math.sqrt(sum(p))),
            "zero.shards_norm.mean": _norm(lambda p, r, rank: math.sqrt(sum(p) / len(p) + r)),
        },
        sent=lambda example, size: 2 * (size - 1) / size * 2 * BYTES,
    ),
    **ZERO3,
}
