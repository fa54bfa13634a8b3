# expects: attention: later tokens are seen
# finding: attention tensor.attention.not_causal
# says: Every token looks at all tokens, also at later ones. Pass is_causal=True.
from __future__ import annotations

import torch.distributed as dist
from torch.nn.functional import scaled_dot_product_attention

from lessons.finished import finished

column_linear, row_linear = finished("column_linear"), finished("row_linear")


def mlp(x, up, up_bias, down, down_bias):
    raise NotImplementedError


def qkv_part(whole):
    raise NotImplementedError


def attention(x, qkv, qkv_bias, projection, projection_bias, heads):
    own = heads // dist.get_world_size()
    query, key, value = (
        part.unflatten(-1, (own, -1)).transpose(1, 2) for part in column_linear(x, qkv, qkv_bias).chunk(3, dim=-1)
    )
    mixed = scaled_dot_product_attention(query, key, value, is_causal=False)
    return row_linear(mixed.transpose(1, 2).flatten(2), projection, projection_bias)


def dropouts(seed):
    raise NotImplementedError
