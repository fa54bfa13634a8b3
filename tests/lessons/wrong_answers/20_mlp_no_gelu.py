# expects: mlp: no GELU
# finding: mlp tensor.mlp.no_gelu
# says: GELU is missing between the two layers. Without it, two matrices are no more than one.
from __future__ import annotations

from lessons.finished import finished

column_linear, row_linear = finished("column_linear"), finished("row_linear")


def mlp(x, up, up_bias, down, down_bias):
    return row_linear(column_linear(x, up, up_bias), down, down_bias)


def qkv_part(whole):
    raise NotImplementedError


def attention(x, qkv, qkv_bias, projection, projection_bias, heads):
    raise NotImplementedError


def dropouts(seed):
    raise NotImplementedError
