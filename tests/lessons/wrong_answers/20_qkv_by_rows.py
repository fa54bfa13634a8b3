# expects: qkv_part: one run of rows
# finding: qkv_part tensor.qkv_part.rows
# says: This is one run of rows of the fused matrix. Its first rows are all queries: so rank 0 has queries where its keys should be. Cut queries, keys and values each by themselves, and join the rank's parts.
from __future__ import annotations

import torch.distributed as dist

from lessons.finished import finished

column_linear, row_linear = finished("column_linear"), finished("row_linear")


def mlp(x, up, up_bias, down, down_bias):
    raise NotImplementedError


def qkv_part(whole):
    return whole.chunk(dist.get_world_size())[dist.get_rank()].clone()


def attention(x, qkv, qkv_bias, projection, projection_bias, heads):
    raise NotImplementedError


def dropouts(seed):
    raise NotImplementedError
