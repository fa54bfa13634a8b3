# expects: mlp: by hand, with the bias before the sum, and without f
# finding: mlp tensor.mlp.bias_each
# says: down_bias is added once for each rank. Add it once, behind the sum, as row_linear does.
from __future__ import annotations

import torch.distributed as dist
from torch.nn.functional import gelu, linear

from lessons.finished import finished

column_linear, row_linear = finished("column_linear"), finished("row_linear")


def mlp(x, up, up_bias, down, down_bias):
    out = linear(gelu(linear(x, up, up_bias)), down, down_bias)
    dist.all_reduce(out)
    return out


def qkv_part(whole):
    raise NotImplementedError


def attention(x, qkv, qkv_bias, projection, projection_bias, heads):
    raise NotImplementedError


def dropouts(seed):
    raise NotImplementedError
