# expects: mlp: GELU behind the second layer
# finding: mlp tensor.mlp.gelu_last
# says: GELU comes behind the second layer. It stands between the two, on this rank's columns, where nothing needs to be exchanged.
from __future__ import annotations

from torch.nn.functional import gelu

from lessons.finished import finished

column_linear, row_linear = finished("column_linear"), finished("row_linear")


def mlp(x, up, up_bias, down, down_bias):
    return gelu(row_linear(column_linear(x, up, up_bias), down, down_bias))


def qkv_part(whole):
    raise NotImplementedError


def attention(x, qkv, qkv_bias, projection, projection_bias, heads):
    raise NotImplementedError


def dropouts(seed):
    raise NotImplementedError
