"""Lesson 19: linear layers that are split over ranks, beside the whole ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import linear

from ..experiment import Experiment
from .gradients import Learned, all_reduce_bytes, alone, changed, leaf, learned, numbers, zeros

# own_part(whole, dim): a rank's part of a parameter, in memory of its own.


def _whole(example: Any) -> Tensor:
    return numbers(1, *example[0])


def _kept(arguments: tuple[Any, ...], value: Any) -> Any:
    return {"part": value, "bytes of its memory": value.untyped_storage().nbytes()} if torch.is_tensor(value) else value


def _parts(cut: Callable[[Tensor, int, int, int], Tensor]) -> Callable[[Any, int], list[Any]]:
    """For every rank what ``cut(whole, dim, rank, ranks)`` gives and keeps."""
    return lambda example, size: [_kept((), cut(_whole(example), example[1], rank, size)) for rank in range(size)]


def _chunk(whole: Tensor, dim: int, rank: int, size: int) -> Tensor:
    return whole.chunk(size, dim)[rank]


def _every_nth(whole: Tensor, dim: int, rank: int, size: int) -> Tensor:
    return whole.index_select(dim, torch.arange(rank, whole.shape[dim], size))


OWN_PART = Experiment(
    examples=lambda n: [((2 * n, 3), 0), ((3, 2 * n), 1), ((3 * n,), 0)],
    arguments=lambda example, rank, size: (_whole(example), example[1]),
    outcome=_kept,
    expected=_parts(lambda *of: _chunk(*of).clone()),
    mistakes={
        "tensor.own_part.view": _parts(_chunk),
        "tensor.own_part.contiguous": _parts(lambda *of: _chunk(*of).contiguous()),
        "tensor.own_part.every_nth": _parts(_every_nth),
        "tensor.own_part.first": _parts(lambda whole, dim, rank, size: _chunk(whole, dim, 0, size).clone()),
        "tensor.own_part.whole": _parts(lambda whole, dim, rank, size: whole),
    },
)


# f(x) and g(x), which exchange in one direction only.


def _of_f(arguments: tuple[Any, ...], value: Any) -> Any:
    (x,) = arguments
    return learned(value, numbers(20 + dist.get_rank(), *x.shape), x=x)


def _f(example: Any, size: int) -> list[Learned]:
    total = sum(numbers(20 + rank, *example) for rank in range(size))
    return [{"output": numbers(2, *example), "gradient of x": total} for _ in range(size)]


def _own(example: Any) -> Callable[[int, Tensor], Tensor]:
    return lambda rank, _: numbers(20 + rank, *example)


F = Experiment(
    examples=lambda n: [(4, 3), (5,)],
    arguments=lambda example, rank, size: (leaf(numbers(2, *example)),),
    outcome=_of_f,
    expected=_f,
    mistakes={
        "tensor.f.nothing": lambda e, n: changed(_f(e, n), x=_own(e)),
        "tensor.f.exchanged": lambda e, n: changed(_f(e, n), output=lambda _, x: n * x, x=_own(e)),
        "tensor.f.both": lambda e, n: changed(_f(e, n), output=lambda _, x: n * x),
        "tensor.f.mean": lambda e, n: changed(_f(e, n), x=lambda _, total: total / n),
        "tensor.f.lost": lambda e, n: changed(_f(e, n), x=lambda _, total: zeros(total)),
    },
    sent=lambda example, n: all_reduce_bytes(numbers(2, *example), n),
)


def _of_g(arguments: tuple[Any, ...], value: Any) -> Any:
    (x,) = arguments
    found = learned(value, numbers(3, *x.shape), x=x)
    return found and {**found, "x afterwards": x.detach()}


def _g(example: Any, size: int) -> list[Learned]:
    each = [numbers(30 + rank, *example) for rank in range(size)]
    return [{"output": sum(each), "gradient of x": numbers(3, *example), "x afterwards": x} for x in each]


def _in_place(ranks: Sequence[Learned]) -> list[Learned]:
    return [{**one, "x afterwards": one["output"]} for one in ranks]


G = Experiment(
    examples=lambda n: [(4, 3), (5,)],
    arguments=lambda example, rank, size: (leaf(numbers(30 + rank, *example)),),
    outcome=_of_g,
    expected=_g,
    mistakes={
        "tensor.g.in_place": lambda e, n: _in_place(_g(e, n)),
        "tensor.g.both": lambda e, n: changed(_g(e, n), x=lambda _, gradient: n * gradient),
        "tensor.g.both_in_place": lambda e, n: _in_place(changed(_g(e, n), x=lambda _, gradient: n * gradient)),
        "tensor.g.exchanged": lambda e, n: changed(
            _g(e, n), output=lambda rank, _: numbers(30 + rank, *e), x=lambda _, gradient: n * gradient
        ),
        "tensor.g.nothing": lambda e, n: changed(_g(e, n), output=lambda rank, _: numbers(30 + rank, *e)),
        "tensor.g.mean": lambda e, n: changed(_g(e, n), output=lambda _, total: total / n),
        "tensor.g.share": lambda e, n: changed(_g(e, n), x=lambda _, gradient: gradient / n),
        "tensor.g.lost": lambda e, n: changed(_g(e, n), x=lambda _, gradient: zeros(gradient)),
        "tensor.g.lost_in_place": lambda e, n: _in_place(changed(_g(e, n), x=lambda _, gradient: zeros(gradient))),
    },
    sent=lambda example, n: all_reduce_bytes(numbers(3, *example), n),
)


# column_linear(x, weight, bias): example = (dimensions before the last, inputs, outputs a rank).


def _column(example: Any, size: int) -> dict[str, Tensor]:
    """The whole layer, its input, and the gradient of its output."""
    leading, inputs, each = example
    outputs = each * size
    return {
        "x": numbers(4, *leading, inputs),
        "weight": numbers(5, outputs, inputs),
        "bias": numbers(6, outputs),
        "gradient": numbers(7, *leading, outputs),
    }


def _column_part(example: Any, rank: int, size: int) -> tuple[Tensor, ...]:
    whole = _column(example, size)
    return (leaf(whole["x"]), *(leaf(whole[name].chunk(size)[rank]) for name in ("weight", "bias")))


def _of_column(arguments: tuple[Any, ...], value: Any) -> Any:
    x, weight, bias = arguments
    rank, size = dist.get_rank(), dist.get_world_size()
    gradient = numbers(7, *x.shape[:-1], weight.shape[0] * size).chunk(size, -1)[rank]
    return learned(value, gradient, x=x, weight=weight, bias=bias)


def _columns(example: Any, size: int) -> list[Learned]:
    found = alone(linear, **_column(example, size))
    return [
        {
            "output": found["output"].chunk(size, -1)[rank],
            "gradient of x": found["gradient of x"],
            "gradient of weight": found["gradient of weight"].chunk(size)[rank],
            "gradient of bias": found["gradient of bias"].chunk(size)[rank],
        }
        for rank in range(size)
    ]


def _without_f(example: Any, size: int) -> list[Learned]:
    whole = _column(example, size)
    pairs = zip(whole["gradient"].chunk(size, -1), whole["weight"].chunk(size), strict=True)
    parts = [gradient @ weight for gradient, weight in pairs]
    return changed(_columns(example, size), x=lambda rank, _: parts[rank])


def _g_for_f(example: Any, size: int) -> list[Learned]:
    bias = _column(example, size)["bias"].chunk(size)
    return changed(
        _without_f(example, size),
        output=lambda rank, y: size * (y - bias[rank]) + bias[rank],
        weight=lambda _, gradient: size * gradient,
    )


def _gathered(example: Any, size: int) -> list[Learned]:
    whole = alone(linear, **_column(example, size))["output"]
    none = {name: (lambda _, gradient: zeros(gradient)) for name in ("x", "weight", "bias")}
    return changed(_columns(example, size), output=lambda *_: whole, **none)


def _unbiased(example: Any, size: int) -> list[Learned]:
    bias = _column(example, size)["bias"].chunk(size)
    return changed(_columns(example, size), output=lambda rank, y: y - bias[rank], bias=lambda _, b: zeros(b))


COLUMN_LINEAR = Experiment(
    examples=lambda n: [((5,), 3, 2), ((2, 3), 4, 1)],
    arguments=_column_part,
    outcome=_of_column,
    expected=_columns,
    mistakes={
        "tensor.column_linear.no_f": _without_f,
        "tensor.column_linear.g_for_f": _g_for_f,
        "tensor.column_linear.gathered": _gathered,
        "tensor.column_linear.no_bias": _unbiased,
        "tensor.column_linear.mean": lambda e, n: changed(_columns(e, n), x=lambda _, gradient: gradient / n),
    },
    sent=lambda example, n: all_reduce_bytes(_column(example, n)["x"], n),
)


# row_linear(x, weight, bias): example = (dimensions before the last, inputs a rank, outputs).


def _row(example: Any, size: int) -> dict[str, Tensor]:
    leading, each, outputs = example
    return {
        "x": numbers(8, *leading, each * size),
        "weight": numbers(9, outputs, each * size),
        "bias": numbers(10, outputs),
        "gradient": numbers(11, *leading, outputs),
    }


def _row_part(example: Any, rank: int, size: int) -> tuple[Tensor, ...]:
    whole = _row(example, size)
    return (*(leaf(whole[name].chunk(size, -1)[rank]) for name in ("x", "weight")), leaf(whole["bias"]))


def _of_row(arguments: tuple[Any, ...], value: Any) -> Any:
    x, weight, bias = arguments
    return learned(value, numbers(11, *x.shape[:-1], weight.shape[0]), x=x, weight=weight, bias=bias)


def _rows(example: Any, size: int) -> list[Learned]:
    found = alone(linear, **_row(example, size))
    cut = ("gradient of x", "gradient of weight")
    return [
        {name: value.chunk(size, -1)[rank] if name in cut else value for name, value in found.items()}
        for rank in range(size)
    ]


def _summand(example: Any, size: int) -> Callable[[int, Tensor], Tensor]:
    """What a rank has without the sum: its own product, and the bias."""
    whole = _row(example, size)
    pairs = zip(whole["x"].chunk(size, -1), whole["weight"].chunk(size, -1), strict=True)
    parts = [linear(x, weight, whole["bias"]) for x, weight in pairs]
    return lambda rank, _: parts[rank]


def _output(example: Any, size: int, of_sum: float, of_bias: float) -> list[Learned]:
    """So many times the sum, and so many times the bias."""
    bias = _row(example, size)["bias"]
    return changed(_rows(example, size), output=lambda _, y: of_sum * (y - bias) + of_bias * bias)


def _n_times(size: int) -> dict[str, Callable[[int, Tensor], Tensor]]:
    """The gradients of what lies before the sum, all-reduced once more."""
    return {name: (lambda _, gradient: size * gradient) for name in ("x", "weight")}


ROW_LINEAR = Experiment(
    examples=lambda n: [((5,), 2, 3), ((2, 3), 1, 4)],
    arguments=_row_part,
    outcome=_of_row,
    expected=_rows,
    mistakes={
        "tensor.row_linear.bias_each": lambda e, n: _output(e, n, 1, n),
        "tensor.row_linear.bias_share": lambda e, n: changed(_rows(e, n), bias=lambda _, b: b / n),
        "tensor.row_linear.bias_first": lambda e, n: changed(_rows(e, n), bias=lambda rank, b: zeros(b) if rank else b),
        "tensor.row_linear.no_bias": lambda e, n: changed(_output(e, n, 1, 0), bias=lambda _, b: zeros(b)),
        "tensor.row_linear.no_g": lambda e, n: changed(_rows(e, n), output=_summand(e, n)),
        "tensor.row_linear.f_for_g": lambda e, n: changed(_rows(e, n), output=_summand(e, n), **_n_times(n)),
        "tensor.row_linear.both": lambda e, n: changed(_rows(e, n), **_n_times(n)),
        "tensor.row_linear.mean": lambda e, n: _output(e, n, 1 / n, 1),
        "tensor.row_linear.mean_of_all": lambda e, n: _output(e, n, 1 / n, 1 / n),
    },
    sent=lambda example, n: all_reduce_bytes(_row(example, n)["gradient"], n),
)

TENSOR: Mapping[str, Experiment] = {
    "own_part": OWN_PART,
    "f": F,
    "g": G,
    "column_linear": COLUMN_LINEAR,
    "row_linear": ROW_LINEAR,
}
