"""{{broken.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def reduce_scatter_int8(gradient: Tensor, residual: Tensor, block: int) -> Tensor:
    """{{broken.reduce_scatter_int8}}"""
    wanted = gradient + residual
    scales = torch.stack([one.abs().amax(dim=1) for one in wanted.split(block, dim=1)], dim=1) / 127
    spread = scales.repeat_interleave(block, dim=1)[:, : wanted.shape[1]]
    codes = (wanted / spread.clamp(min=1e-38)).round().to(torch.int8)
    residual.copy_(gradient - codes * spread)
    their_codes, their_scales = torch.empty_like(codes), torch.empty_like(scales)
    dist.all_to_all_single(their_codes, codes)
    dist.all_to_all_single(their_scales, scales)
    theirs = their_scales.repeat_interleave(block, dim=1)[:, : their_codes.shape[1]]
    return (their_codes * theirs).sum(0)
