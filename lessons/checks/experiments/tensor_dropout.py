"""Lesson 20: dropout of what all ranks have, and of what each has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..experiment import Experiment
from .gradients import numbers

# dropouts(seed): a dropout for what all ranks have, and one for what each rank has its own of.

_RATE, _ALIKE, _OWN, _OTHER, _AGAIN = 0.25, "alike on all ranks", "each rank's own", "another mask", "the same mask"
_SCALED, _SOME = "0 or x / (1 − p)", "something else"
_ELEMENTS, _SAME, _SPLIT, _NEXT, _STREAMS = (
    "elements", "first, for what all ranks have", "second, for what is split", "called again", "second beside first",
)  # fmt: skip


def _of_dropouts(arguments: tuple[Any, ...], value: Any) -> Any:
    """What the two do, called in turn."""
    if not (isinstance(value, (tuple, list)) and len(value) == 2 and all(map(callable, value))):
        return value
    same, own = value
    x = numbers(60, 40, 50)
    came = [drop(x, _RATE) for drop in (own, same, same, own)]
    if not all(isinstance(one, Tensor) and one.shape == x.shape for one in came):
        return came
    masks = [one != 0 for one in came]
    right = all(torch.allclose(one, x * mask / (1 - _RATE)) for one, mask in zip(came, masks, strict=True))
    share = [float(mask.float().mean()) for mask in masks]
    split, everywhere = (_agreement(mask) for mask in masks[:2])
    again = all(not torch.equal(one, other) for one, other in ((masks[0], masks[3]), (masks[1], masks[2])))
    return {
        _ELEMENTS: _SCALED if right and all(abs(one - (1 - _RATE)) < 0.1 for one in share) else _SOME,
        _SAME: everywhere,
        _SPLIT: split,
        _NEXT: _OTHER if again else _AGAIN,
        _STREAMS: _AGAIN if _anywhere(torch.equal(masks[0], masks[1])) else _OTHER,
    }


def _agreement(mask: Tensor) -> str:
    """Whether the ranks have one mask, or all different ones."""
    every = [torch.empty_like(mask, dtype=torch.uint8) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mask.to(torch.uint8))
    different = {tuple(one.flatten().tolist()) for one in every}
    return _ALIKE if len(different) == 1 else _OWN if len(different) == len(every) else "alike on some ranks"


def _anywhere(found: bool) -> bool:
    flag = torch.tensor([int(found)])
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag.item())


_RIGHT = {_ELEMENTS: _SCALED, _SAME: _ALIKE, _SPLIT: _OWN, _NEXT: _OTHER, _STREAMS: _OTHER}


def _all(**found: str) -> Callable[[Any, int], list[dict[str, str]]]:
    names = {"elements": _ELEMENTS, "same": _SAME, "split": _SPLIT, "again": _NEXT, "streams": _STREAMS}
    outcome = {**_RIGHT, **{names[short]: value for short, value in found.items()}}
    return lambda example, size: [outcome] * size


DROPOUTS = Experiment(
    examples=lambda n: [7],
    arguments=lambda seed, rank, size: (seed,),
    outcome=_of_dropouts,
    expected=_all(),
    mistakes={
        "tensor.dropouts.same": _all(split=_ALIKE),
        "tensor.dropouts.all_own": _all(same=_OWN),
        "tensor.dropouts.exchanged": _all(same=_OWN, split=_ALIKE),
        "tensor.dropouts.again": _all(again=_AGAIN),
        "tensor.dropouts.same_again": _all(split=_ALIKE, again=_AGAIN),
        "tensor.dropouts.same_stream": _all(split=_ALIKE, streams=_AGAIN),
        "tensor.dropouts.same_stream_again": _all(split=_ALIKE, streams=_AGAIN, again=_AGAIN),
        "tensor.dropouts.overlap": _all(streams=_AGAIN),
        "tensor.dropouts.overlap_again": _all(streams=_AGAIN, again=_AGAIN),
        "tensor.dropouts.scale": _all(elements=_SOME),
    },
)
