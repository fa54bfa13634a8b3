# expects: quantize: codes are cut off, not rounded
# finding: quantize memory.quantize.cut_off
# says: The codes are cut off towards 0, not rounded: they are off by up to a whole scale. Use round().
from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import Tensor


def quantize(matrix: Tensor, block: int) -> tuple[Tensor, Tensor]:
    blocks = matrix.split(block, dim=1)
    scales = torch.stack([one.abs().amax(dim=1) for one in blocks], dim=1) / 127
    shares = matrix / _spread(scales, matrix, block).clamp(min=1e-38)
    return shares.to(torch.int8), scales


def dequantize(codes: Tensor, scales: Tensor, block: int) -> Tensor:
    return codes * _spread(scales, codes, block)


def _spread(scales: Tensor, like: Tensor, block: int) -> Tensor:
    return scales.repeat_interleave(block, dim=1)[:, : like.shape[1]]


def sent_bytes(elements: int, ranks: int, block: int) -> int:
    part = elements // ranks
    return (ranks - 1) * (part + 4 * math.ceil(part / block))


def reduce_scatter_int8(gradient: Tensor, residual: Tensor, block: int) -> Tensor:
    wanted = gradient + residual
    codes, scales = quantize(wanted, block)
    residual.copy_(wanted - dequantize(codes, scales, block))
    their_codes, their_scales = torch.empty_like(codes), torch.empty_like(scales)
    dist.all_to_all_single(their_codes, codes)
    dist.all_to_all_single(their_scales, scales)
    return dequantize(their_codes, their_scales, block).sum(0)


def int8_linear(x: Tensor, weight: Tensor) -> Tensor:
    width = x.shape[1]
    (x_codes, x_scales), (codes, scales) = quantize(x, width), quantize(weight, width)
    product = x_codes.int() @ codes.int().T
    return product * x_scales * scales.T
