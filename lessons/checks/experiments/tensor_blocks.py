"""Lesson 20: the MLP and attention, split over ranks, beside the whole ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from ..experiment import Experiment
from .gradients import Learned, all_reduce_bytes, alone, changed, leaf, learned, numbers, zeros
from .tensor_dropout import DROPOUTS

Parts: TypeAlias = dict[str, Tensor]
Local: TypeAlias = Callable[..., Tensor]  # (x, a rank's parts) → its summand of the output


def _summands(
    local: Local, x: Tensor, parts: Sequence[Parts], bias: Tensor, gradient: Tensor, *, f: bool = True, biases: int = 1
) -> list[Learned]:
    """What each rank has of a block whose output is the sum of all ``local`` and the bias, in one process.

    f: whether x's gradient is summed. biases: how often the bias is added.
    """
    each = [(leaf(x), {name: leaf(one) for name, one in part.items()}) for part in parts]
    last = leaf(bias)
    out = sum((local(own, **part) for own, part in each), biases * last)
    assert isinstance(out, Tensor)
    out.backward(gradient)

    def of(tensor: Tensor) -> Tensor:
        return zeros(tensor) if tensor.grad is None else tensor.grad

    total = torch.stack([of(own) for own, _ in each]).sum(0)
    return [
        {
            "output": out.detach(),
            "gradient of x": total if f else of(own),
            **{f"gradient of {name}": of(one) for name, one in part.items()},
            "gradient of bias": of(last) / biases if biases else of(last),
        }
        for own, part in each
    ]


# mlp(x, up, up_bias, down, down_bias): example = (dimensions before the last, h, width a rank).


def _mlp_whole(example: Any, size: int) -> dict[str, Tensor]:
    leading, hidden, each = example
    return {
        "x": numbers(40, *leading, hidden),
        "up": numbers(41, each * size, hidden),
        "up_bias": numbers(42, each * size),
        "down": numbers(43, hidden, each * size),
        "bias": numbers(44, hidden),
        "gradient": numbers(45, *leading, hidden),
    }


def _mlp_parts(example: Any, rank: int, size: int) -> Parts:
    whole = _mlp_whole(example, size)
    cut = {name: whole[name].chunk(size)[rank] for name in ("up", "up_bias")}
    return {**cut, "down": whole["down"].chunk(size, 1)[rank]}


def _mlp_arguments(example: Any, rank: int, size: int) -> tuple[Tensor, ...]:
    whole = _mlp_whole(example, size)
    return tuple(leaf(one) for one in (whole["x"], *_mlp_parts(example, rank, size).values(), whole["bias"]))


def _of_mlp(arguments: tuple[Any, ...], value: Any) -> Any:
    x, up, up_bias, down, bias = arguments
    return learned(value, numbers(45, *x.shape), x=x, up=up, up_bias=up_bias, down=down, bias=bias)


def _layer(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, bias: Tensor) -> Tensor:
    return linear(gelu(linear(x, up, up_bias)), down, bias)


def _mlp(example: Any, size: int, layer: Callable[..., Tensor] = _layer) -> list[Learned]:
    found = alone(layer, **_mlp_whole(example, size))
    cuts = {"gradient of up": 0, "gradient of up_bias": 0, "gradient of down": 1}
    return [
        {name: value.chunk(size, cuts[name])[rank] if name in cuts else value for name, value in found.items()}
        for rank in range(size)
    ]


def _local_mlp(between: Callable[[Tensor], Tensor] = gelu) -> Local:
    return lambda x, up, up_bias, down: linear(between(linear(x, up, up_bias)), down)


def _mlp_with(local: Local, **options: Any) -> Callable[[Any, int], list[Learned]]:
    def found(example: Any, size: int) -> list[Learned]:
        whole = _mlp_whole(example, size)
        parts = [_mlp_parts(example, rank, size) for rank in range(size)]
        return _summands(local, whole["x"], parts, whole["bias"], whole["gradient"], **options)

    return found


def _gelu_last(example: Any, size: int) -> list[Learned]:
    def layer(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, bias: Tensor) -> Tensor:
        return gelu(linear(linear(x, up, up_bias), down, bias))

    return _mlp(example, size, layer)


def _bias_each(example: Any, size: int) -> list[Learned]:
    bias = _mlp_whole(example, size)["bias"]
    return changed(_mlp(example, size), output=lambda _, y: y + (size - 1) * bias)


MLP = Experiment(
    examples=lambda n: [((5,), 4, 3), ((2, 2), 3, 2)],
    arguments=_mlp_arguments,
    outcome=_of_mlp,
    expected=_mlp,
    mistakes={
        "tensor.mlp.no_gelu": _mlp_with(_local_mlp(lambda wide: wide)),
        "tensor.mlp.gelu_last": _gelu_last,
        "tensor.mlp.tanh": _mlp_with(_local_mlp(lambda wide: gelu(wide, approximate="tanh"))),
        "tensor.mlp.relu": _mlp_with(_local_mlp(torch.relu)),
        "tensor.mlp.no_f": _mlp_with(_local_mlp(), f=False),
        "tensor.mlp.bias_each": _bias_each,
        "tensor.mlp.no_bias": _mlp_with(_local_mlp(), biases=0),
    },
    sent=lambda example, n: all_reduce_bytes(_mlp_whole(example, n)["x"], n, times=2),
)


# qkv_part(whole): a rank's heads of a fused matrix: all queries, all keys, all values.


def _fused(example: Any) -> Tensor:
    return numbers(46, *example)


def fused_part(whole: Tensor, rank: int, size: int) -> Tensor:
    return torch.cat([part.chunk(size)[rank] for part in whole.chunk(3)])


def _per_row(whole: Tensor, rank: int, size: int) -> Tensor:
    """Its queries, keys and values in turn, as if whole were laid out head by head."""
    return torch.stack([part.chunk(size)[rank] for part in whole.chunk(3)], 1).flatten(0, 1)


def _every(cut: Callable[[Tensor, int, int], Tensor]) -> Callable[[Any, int], list[Tensor]]:
    return lambda example, size: [cut(_fused(example), rank, size) for rank in range(size)]


QKV_PART = Experiment(
    examples=lambda n: [(3 * 2 * n, 4), (3 * 3 * n,)],
    arguments=lambda example, rank, size: (_fused(example),),
    expected=_every(fused_part),
    mistakes={
        "tensor.qkv_part.rows": _every(lambda whole, rank, size: whole.chunk(size)[rank]),
        "tensor.qkv_part.first": _every(lambda whole, rank, size: fused_part(whole, 0, size)),
        "tensor.qkv_part.in_turn": _every(_per_row),
        "tensor.qkv_part.queries": _every(lambda whole, rank, size: whole.chunk(3)[0].chunk(size)[rank]),
        "tensor.qkv_part.whole": _every(lambda whole, rank, size: whole),
    },
)


# attention(x, qkv, qkv_bias, projection, projection_bias, heads): example = (b, s, heads a rank, size of a head).


def _attention_whole(example: Any, size: int) -> dict[str, Tensor]:
    batch, places, each, wide = example
    hidden = each * size * wide
    return {
        "x": numbers(50, batch, places, hidden),
        "qkv": numbers(51, 3 * hidden, hidden),
        "qkv_bias": numbers(52, 3 * hidden),
        "projection": numbers(53, hidden, hidden),
        "bias": numbers(54, hidden),
        "gradient": numbers(55, batch, places, hidden),
    }


def _attention_parts(example: Any, rank: int, size: int) -> Parts:
    whole = _attention_whole(example, size)
    cut = {name: fused_part(whole[name], rank, size) for name in ("qkv", "qkv_bias")}
    return {**cut, "projection": whole["projection"].chunk(size, 1)[rank]}


def _attention_arguments(example: Any, rank: int, size: int) -> tuple[Any, ...]:
    whole = _attention_whole(example, size)
    tensors = (whole["x"], *_attention_parts(example, rank, size).values(), whole["bias"])
    return (*map(leaf, tensors), example[2] * size)


def _of_attention(arguments: tuple[Any, ...], value: Any) -> Any:
    x, qkv, qkv_bias, projection, bias, _ = arguments
    inputs = {"x": x, "qkv": qkv, "qkv_bias": qkv_bias, "projection": projection, "bias": bias}
    return learned(value, numbers(55, *x.shape), **inputs)


def _heads(x: Tensor, heads: int) -> Tensor:
    """(b, s, h) → (b, heads, s, d)."""
    apart: Tensor = x.unflatten(-1, (heads, -1))
    return apart.transpose(1, 2)


def _attention(example: Any, size: int) -> list[Learned]:
    heads = example[2] * size

    def layer(x: Tensor, qkv: Tensor, qkv_bias: Tensor, projection: Tensor, bias: Tensor) -> Tensor:
        query, key, value = (_heads(one, heads) for one in linear(x, qkv, qkv_bias).chunk(3, -1))
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        return linear(mixed.transpose(1, 2).flatten(2), projection, bias)

    found = alone(layer, **_attention_whole(example, size))
    cut: dict[str, Callable[[Tensor, int], Tensor]] = {
        "gradient of qkv": lambda one, rank: fused_part(one, rank, size),
        "gradient of qkv_bias": lambda one, rank: fused_part(one, rank, size),
        "gradient of projection": lambda one, rank: one.chunk(size, 1)[rank],
    }
    return [
        {name: cut[name](value, rank) if name in cut else value for name, value in found.items()}
        for rank in range(size)
    ]


Mix: TypeAlias = Callable[[Tensor, int, int], Tensor]  # (queries, keys and values of a rank, its heads, all) → mixed


def _attention_with(mix: Mix, **options: Any) -> Callable[[Any, int], list[Learned]]:
    """The attention whose ranks mix so."""

    def found(example: Any, size: int) -> list[Learned]:
        whole = _attention_whole(example, size)
        parts = [_attention_parts(example, rank, size) for rank in range(size)]

        def local(x: Tensor, qkv: Tensor, qkv_bias: Tensor, projection: Tensor) -> Tensor:
            return linear(mix(linear(x, qkv, qkv_bias), example[2], example[2] * size), projection)

        return _summands(local, whole["x"], parts, whole["bias"], whole["gradient"], **options)

    return found


def _mixed(qkv: Tensor, heads: int, causal: bool = True, scale: float | None = None) -> Tensor:
    query, key, value = (_heads(one, heads) for one in qkv.chunk(3, -1))
    return scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)


def _joined(mixed: Tensor) -> Tensor:
    return mixed.transpose(1, 2).flatten(2)


def _across_heads(qkv: Tensor, own: int, heads: int) -> Tensor:
    query, key, value = (one.unflatten(-1, (own, -1)) for one in qkv.chunk(3, -1))
    return scaled_dot_product_attention(query, key, value, is_causal=True).flatten(2)


def _head_by_head(qkv: Tensor, own: int, heads: int) -> Tensor:
    query, key, value = qkv.unflatten(-1, (own, 3, -1)).permute(3, 0, 2, 1, 4)
    return _joined(scaled_dot_product_attention(query, key, value, is_causal=True))


def _not_put_back(qkv: Tensor, own: int, heads: int) -> Tensor:
    mixed = _mixed(qkv, own)
    return mixed.reshape(mixed.shape[0], mixed.shape[2], -1)


ATTENTION = Experiment(
    examples=lambda n: [(2, 5, 2, 12), (1, 3, 1, 12)],
    arguments=_attention_arguments,
    outcome=_of_attention,
    expected=_attention,
    mistakes={
        "tensor.attention.all_heads": _attention_with(lambda qkv, own, heads: _joined(_mixed(qkv, heads))),
        "tensor.attention.not_causal": _attention_with(lambda qkv, own, heads: _joined(_mixed(qkv, own, False))),
        "tensor.attention.no_scale": _attention_with(lambda qkv, own, heads: _joined(_mixed(qkv, own, scale=1.0))),
        "tensor.attention.one_head": _attention_with(lambda qkv, own, heads: _joined(_mixed(qkv, 1))),
        "tensor.attention.across_heads": _attention_with(_across_heads),
        "tensor.attention.head_by_head": _attention_with(_head_by_head),
        "tensor.attention.not_put_back": _attention_with(_not_put_back),
        "tensor.attention.no_f": _attention_with(lambda qkv, own, heads: _joined(_mixed(qkv, own)), f=False),
        "tensor.attention.no_bias": _attention_with(lambda qkv, own, heads: _joined(_mixed(qkv, own)), biases=0),
    },
    sent=lambda example, n: all_reduce_bytes(_attention_whole(example, n)["x"], n, times=2),
)


BLOCKS: Mapping[str, Experiment] = {"mlp": MLP, "qkv_part": QKV_PART, "attention": ATTENTION, "dropouts": DROPOUTS}
