"""{{stub.file}}"""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import Tensor


def quantize(matrix: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """{{stub.quantize}}"""
    # TODO: {{stub.quantize_todo}}
    raise NotImplementedError


def dequantize(codes: Tensor, scales: Tensor, block: int) -> Tensor:
    """{{stub.dequantize}}"""
    # TODO: {{stub.dequantize_todo}}
    raise NotImplementedError


def sent_bytes(elements: int, ranks: int, block: int) -> int:
    """{{stub.sent_bytes}}"""
    # TODO: {{stub.sent_bytes_todo}}
    raise NotImplementedError


def reduce_scatter_int8(gradient: Tensor, residual: Tensor, block: int) -> Tensor:
    """{{stub.reduce_scatter_int8}}"""
    # TODO: {{stub.reduce_scatter_int8_todo}}
    raise NotImplementedError


def int8_linear(x: Tensor, weight: Tensor) -> Tensor:
    """{{stub.int8_linear}}"""
    # TODO: {{stub.int8_linear_todo}}
    raise NotImplementedError
