# expects: dropouts: a new generator in every call
# finding: dropouts tensor.dropouts.again
# says: A call draws the same mask as the call before. Make the streams once, outside of the functions that draw, and let them go on.
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
        return lambda x, p: x * (torch.rand(x.shape, generator=torch.Generator().manual_seed(own)) >= p) / (1 - p)

    return make(seed), make(seed + 1 + dist.get_rank())
