# expects: attention: the heads of the whole layer
# finding: attention tensor.attention.all_heads
# says: The rank's part is cut into as many heads as the whole layer has, so each is too narrow. `heads` are those of all ranks: this rank has heads / n.
from __future__ import annotations

from torch.nn.functional import scaled_dot_product_attention

from lessons.finished import finished

column_linear, row_linear = finished("column_linear"), finished("row_linear")


def mlp(x, up, up_bias, down, down_bias):
    raise NotImplementedError


def qkv_part(whole):
    raise NotImplementedError


def attention(x, qkv, qkv_bias, projection, projection_bias, heads):
    own = heads
    query, key, value = (
        part.unflatten(-1, (own, -1)).transpose(1, 2) for part in column_linear(x, qkv, qkv_bias).chunk(3, dim=-1)
    )
    mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
    return row_linear(mixed.transpose(1, 2).flatten(2), projection, projection_bias)


def dropouts(seed):
    raise NotImplementedError
