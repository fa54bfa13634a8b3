"""Numbers as small integers: the largest of a block becomes 127 (or 7), the rest keep their proportion to it.

    block      0.50  −1.27  0.02  0.64        largest 1.27, scale 1.27/127 = 0.01
    codes        50   −127     2    64        one byte each; back: code × scale, off by half a scale at most

With 4 bits, two codes share a byte: the first in the low half, the second in the high one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LARGEST = {8: 127, 4: 7}


@dataclass(slots=True)
class Quantized:
    """A matrix in few bits.

    codes: int8 (rows, columns), or uint8 (rows, ⌈columns/2⌉) with 4 bits; scales: fp32 (rows, blocks).
    """

    codes: Tensor
    scales: Tensor
    bits: int
    block: int
    columns: int

    def dequantize(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """(rows, columns), in ``dtype``."""
        codes = self.codes if self.bits == 8 else _unpacked(self.codes)[:, : self.columns]
        scales = self.scales.repeat_interleave(self.block, dim=1)[:, : self.columns]
        return (codes * scales).to(dtype)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes


def check_bits(bits: int, block: int | None) -> None:
    """
    Raises:
        ValueError: bits that there are not, or a block without elements.
    """
    if bits not in LARGEST:
        raise ValueError(f"bits={bits}: give 8 or 4")
    if block is not None and block < 1:
        raise ValueError(f"block={block}: give at least 1, or None for a scale a row")


def quantize(matrix: Tensor, bits: int = 8, block: int | None = None) -> Quantized:
    """A matrix in ``bits`` bits, with a scale for each row or for each ``block`` columns of it.

    Raises:
        ValueError: no matrix, bits other than 8 and 4, a block below 1, or a NaN or infinity, which has no code.
    """
    check_bits(bits, block)
    if matrix.dim() != 2:
        raise ValueError(f"matrix of shape {tuple(matrix.shape)}: give one with rows and columns")
    if not torch.isfinite(matrix).all():
        raise ValueError("matrix has a NaN or an infinity, which no code stands for")
    rows, columns = matrix.shape
    block = max(1, min(block or columns, columns))
    padded = torch.nn.functional.pad(matrix.detach().float(), (0, -columns % block)).view(rows, -1, block)
    scales = padded.abs().amax(dim=2) / LARGEST[bits]
    # an all-zero block has scale 0, and its codes are 0 whatever they are divided by
    codes = (padded / scales.clamp(min=torch.finfo(torch.float32).tiny)[..., None]).round()
    codes = codes.clamp(-LARGEST[bits], LARGEST[bits]).to(torch.int8).view(rows, -1)[:, :columns].contiguous()
    return Quantized(codes if bits == 8 else _packed(codes), scales, bits, block, columns)


def _packed(codes: Tensor) -> Tensor:
    """Two codes from −7 to 7 a byte, each 8 more than it is."""
    low, high = (
        (torch.nn.functional.pad(codes, (0, codes.shape[1] % 2)) + 8).to(torch.uint8).view(len(codes), -1, 2).unbind(2)
    )
    return low | high << 4


def _unpacked(packed: Tensor) -> Tensor:
    return torch.stack((packed & 15, packed >> 4), dim=2).view(len(packed), -1).to(torch.int8) - 8
