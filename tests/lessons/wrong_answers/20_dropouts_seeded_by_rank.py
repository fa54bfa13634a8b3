# expects: dropouts: one stream, other on every rank
# finding: dropouts tensor.dropouts.all_own
# says: The first dropout draws other masks on every rank. What it is for is the same on all ranks, and must stay so: seed its stream alike everywhere.
from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.functional import dropout

from lessons.finished import finished

column_linear, row_linear = finished("column_linear"), finished("row_linear")


def mlp(x, up, up_bias, down, down_bias):
    raise NotImplementedError


def qkv_part(whole):
    raise NotImplementedError


def attention(x, qkv, qkv_bias, projection, projection_bias, heads):
    raise NotImplementedError


def dropouts(seed):
    torch.manual_seed(seed + dist.get_rank())
    return dropout, dropout
