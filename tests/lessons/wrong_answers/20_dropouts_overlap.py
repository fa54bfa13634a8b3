# expects: dropouts: rank 0 has the common seed twice
# finding: dropouts tensor.dropouts.overlap
# says: On one rank both dropouts draw the same masks: its own seed is the common one. Take seeds that differ from it on every rank, as seed + 1 + rank.
from __future__ import annotations

import torch
import torch.distributed as dist

from lessons.finished import finished

column_linear, row_linear = finished("column_linear"), finished("row_linear")


def mlp(x, up, up_bias, down, down_bias):
    raise NotImplementedError


def qkv_part(whole):
    raise NotImplementedError


def attention(x, qkv, qkv_bias, projection, projection_bias, heads):
    raise NotImplementedError


def dropouts(seed):
    def make(own: int) -> object:
        stream = torch.Generator().manual_seed(own)
        return lambda x, p: x * (torch.rand(x.shape, generator=stream) >= p) / (1 - p)

    return make(seed), make(seed + dist.get_rank())
