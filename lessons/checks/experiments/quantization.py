"""Codes and scales beside the library's, sums over ranks that travel as codes, and products of codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from parallel.quantize import Quantized, quantize

from ..experiment import Experiment, PerRank

TINY = torch.finfo(torch.float32).tiny
Shape = tuple[int, int, int]  # rows, columns, block
Code = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def matrix(shape: Shape, seed: int = 3) -> Tensor:
    """Rows with one large negative number each, a positive one in every block, and one block of zeros."""
    rows, columns, block = shape
    found = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    found[:, 1::2].abs_()
    found[:, 0].abs_().mul_(-20)
    found[:, -1].abs_()
    found[0, block : 2 * block] = 0.0
    return found


def code(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    found = quantize(values, 8, block)
    return found.codes, found.scales


def decode(codes: Tensor, scales: Tensor, block: int) -> Tensor:
    return Quantized(codes, scales, 8, block, codes.shape[1]).dequantize()


def coder(
    largest: float = 127.0,
    absolute: bool = True,
    rounded: bool = True,
    by: str = "block",
    tail: bool = True,
    clamped: bool = True,
) -> Code:
    """A quantiser with faults."""

    def coded(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
        rows, columns = values.shape
        width = {"block": min(block, columns), "row": columns, "all": columns}[by]
        padded = torch.nn.functional.pad(values, (0, -columns % width)).view(rows, -1, width)
        tops = (padded.abs() if absolute else padded).amax(dim=2)
        tops = tops.max().expand_as(tops) if by == "all" else tops
        scales = tops / largest
        shares = padded / scales.clamp(min=TINY)[..., None]
        shares = shares.round() if rounded else shares
        codes = (shares.clamp(-127, 127) if clamped else shares).to(torch.int8).view(rows, -1)[:, :columns]
        if not tail:
            codes[:, columns - columns % width :] = 0
        return codes, scales

    return coded


def _alone(outcome: Callable[[Any], Any]) -> PerRank:
    """The same on every rank."""
    return lambda example, size: [outcome(example)] * size


def _coded(way: Code = code) -> PerRank:
    return _alone(lambda shape: list(way(matrix(shape), shape[2])))


QUANTIZE = Experiment(
    examples=lambda size: ((2, 12, 4), (3, 10, 4), (1, 5, 8)),
    arguments=lambda shape, rank, size: (matrix(shape), shape[2]),
    outcome=lambda arguments, value: list(value) if isinstance(value, (tuple, list)) else value,
    expected=_coded(),
    mistakes={
        "memory.quantize.not_absolute": _coded(coder(absolute=False)),
        "memory.quantize.wraps": _coded(coder(absolute=False, clamped=False)),
        "memory.quantize.cut_off": _coded(coder(rounded=False)),
        "memory.quantize.by_128": _coded(coder(largest=128.0, clamped=False)),
        "memory.quantize.by_255": _coded(coder(largest=255.0, clamped=False)),
        "memory.quantize.one_scale_a_row": _coded(coder(by="row")),
        "memory.quantize.one_scale": _coded(coder(by="all")),
        "memory.quantize.no_tail": _coded(coder(tail=False)),
        "memory.quantize.exchanged": _alone(lambda shape: list(code(matrix(shape), shape[2]))[::-1]),
        "memory.quantize.inverse": _alone(lambda shape: _inverse(*code(matrix(shape), shape[2]))),
    },
    tolerance=1e-6,
)


def _inverse(codes: Tensor, scales: Tensor) -> list[Tensor]:
    return [codes, 1 / scales]


def _decoded(way: Callable[[Tensor, Tensor, int], Tensor] = decode) -> PerRank:
    return _alone(lambda shape: way(*code(matrix(shape), shape[2]), shape[2]))


DEQUANTIZE = Experiment(
    examples=lambda size: ((2, 12, 4), (3, 10, 4), (1, 5, 8)),
    arguments=lambda shape, rank, size: (*code(matrix(shape), shape[2]), shape[2]),
    expected=_decoded(),
    mistakes={
        "memory.dequantize.no_scales": _decoded(lambda codes, scales, block: codes.float()),
        "memory.dequantize.divided": _decoded(lambda c, s, b: decode(c, 1 / s, b)),
        "memory.dequantize.first_scale": _decoded(lambda c, s, b: c * s[:, :1]),
        "memory.dequantize.in_turn": _decoded(lambda c, s, b: c * s.repeat(1, b)[:, : c.shape[1]]),
    },
    tolerance=1e-6,
)


def _exchanged(shape: Shape, rank: int, size: int) -> tuple[Tensor, Tensor, int]:
    """Gradient and residual of a rank, a row for each that receives."""
    _, columns, block = shape
    gradient = matrix((size, columns, block), seed=10 + rank)
    residual = 0.05 * matrix((size, columns, block), seed=50 + rank)
    return gradient, residual, block


def _summed(
    feedback: bool = True,
    lost: str = "wanted",
    added: bool = False,
    sign: float = 1.0,
    own_scales: bool = False,
    integers: bool = False,
) -> PerRank:
    """All ranks in one process; each argument is a way to go wrong."""

    def outcomes(shape: Shape, size: int) -> list[Any]:
        block, sent, residuals = shape[2], [], []
        for rank in range(size):
            gradient, residual, _ = _exchanged(shape, rank, size)
            wanted = gradient + residual if feedback else gradient
            codes, scales = code(wanted, block)
            sent.append((codes, scales))
            fresh = {"wanted": wanted, "gradient": gradient, "nothing": residual}[lost]
            fresh = sign * (fresh - decode(codes, scales, block)) if lost != "nothing" else residual
            residuals.append(residual + fresh if added else fresh)
        return [
            {"part": _received(sent, rank, block, own_scales, integers), "residual": residuals[rank]}
            for rank in range(size)
        ]

    return outcomes


def _received(sent: Sequence[tuple[Tensor, Tensor]], rank: int, block: int, own_scales: bool, integers: bool) -> Tensor:
    codes = torch.stack([codes[rank] for codes, _ in sent])
    scales = sent[rank][1] if own_scales else torch.stack([scales[rank] for _, scales in sent])
    if integers:
        return decode(codes.sum(0, dtype=torch.int8)[None], scales[rank : rank + 1], block)[0]
    return decode(codes, scales, block).sum(0)


def _bytes(shape: Shape, size: int) -> float:
    _, columns, block = shape
    return (size - 1) * (columns + 4 * -(-columns // block))


REDUCE_SCATTER = Experiment(
    examples=lambda size: ((0, 64, 16), (0, 10, 4)),
    arguments=_exchanged,
    outcome=lambda arguments, value: None if value is None else {"part": value, "residual": arguments[1]},
    expected=_summed(),
    mistakes={
        "memory.reduce_scatter_int8.no_feedback": _summed(feedback=False, lost="nothing"),
        "memory.reduce_scatter_int8.not_added": _summed(feedback=False),
        "memory.reduce_scatter_int8.not_kept": _summed(lost="nothing"),
        "memory.reduce_scatter_int8.of_gradient": _summed(lost="gradient"),
        "memory.reduce_scatter_int8.piles_up": _summed(added=True),
        "memory.reduce_scatter_int8.sign": _summed(sign=-1.0),
        "memory.reduce_scatter_int8.own_scales": _summed(own_scales=True),
        "memory.reduce_scatter_int8.integers": _summed(integers=True),
    },
    sent=_bytes,
    tolerance=1e-5,
)


def _factors(shape: Shape) -> tuple[Tensor, Tensor]:
    rows, columns, width = shape
    random = torch.Generator().manual_seed(7)  # all of one sign, so that sums get large
    return torch.rand(rows, columns, generator=random) + 0.3, -torch.rand(width, columns, generator=random)


def _product(shape: Shape, integers: torch.dtype = torch.int32, scales: str = "both", exact: bool = False) -> Tensor:
    x, weight = _factors(shape)
    if exact:
        return x @ weight.T
    (a, sa), (b, sb) = code(x, x.shape[1]), code(weight, x.shape[1])
    product = (a.int() @ b.int().T).to(integers).float()
    product = product * sa if scales in ("both", "x") else product
    return product * sb.T if scales in ("both", "weight") else product


def _multiplied(**fault: Any) -> PerRank:
    return _alone(lambda shape: _product(shape, **fault))


INT8_LINEAR = Experiment(
    examples=lambda size: ((3, 40, 4), (1, 300, 2)),
    arguments=lambda shape, rank, size: _factors(shape),
    expected=_multiplied(),
    mistakes={
        "memory.int8_linear.eight_bits": _multiplied(integers=torch.int8),
        "memory.int8_linear.sixteen_bits": _multiplied(integers=torch.int16),
        "memory.int8_linear.no_scales": _multiplied(scales="none"),
        "memory.int8_linear.no_weight_scales": _multiplied(scales="x"),
        "memory.int8_linear.no_x_scales": _multiplied(scales="weight"),
        "memory.int8_linear.not_quantized": _multiplied(exact=True),
    },
    tolerance=1e-5,
)
