"""Causal self-attention: of every head its own, or with several query heads sharing a key and value head.

    x (b, s, h) ─▶ qkv ─▶ queries │ keys │ values ─▶ heads (b, a, s, d) ─▶ softmax(QKᵀ/√d)V ─▶ (b, s, a·d) ─▶ projection

The rows of qkv are all queries, then all keys, then all values. With fewer key and value heads than query heads
(grouped-query attention) query head i reads key and value head i // (heads / kv_heads).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """One attention block without its norm.

    Args:
        hidden: width h; heads: a divisor of it. kv_heads: a divisor of heads; None is as many.
        bias: of both linear layers; dropout: probability on the attention weights.
        theta: base of rotary positions; None leaves positions to whoever made x.
    """

    def __init__(
        self,
        hidden: int,
        heads: int,
        kv_heads: int | None = None,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        theta: float | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads or heads, hidden // heads
        self.dropout, self.theta = dropout, theta
        self.qkv = nn.Linear(hidden, (heads + 2 * self.kv_heads) * self.size, bias=bias)
        self.projection = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(b, s, h) → (b, s, h)."""
        qkv = self.qkv(x)
        heads = qkv.unflatten(-1, (self.heads + 2 * self.kv_heads, self.size)).transpose(1, 2)
        query, key, value = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if self.theta is not None:
            query, key = rotate(query, self.theta), rotate(key, self.theta)
        if self.kv_heads < self.heads:
            key, value = (each.repeat_interleave(self.heads // self.kv_heads, dim=1) for each in (key, value))
        out: Tensor = self.projection(self.mix(query, key, value).transpose(1, 2).flatten(2))
        return out

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Each (b, a, s, d) → (b, a, s, d): the values of the places up to one's own, weighted."""
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)


def rotate(x: Tensor, theta: float) -> Tensor:
    """Rotary positions: place p turns the pair (i, i + d/2) of a head by the angle p · theta^(−2i/d).

    The product of a turned query and a turned key depends on how far apart they are, not on where.
    Source: Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021.

    Args:
        x: (…, s, d), d even.
    """
    length, size = x.shape[-2:]
    wide = torch.promote_types(x.dtype, torch.float32)
    places = torch.arange(length, device=x.device, dtype=wide)
    speeds = theta ** (-torch.arange(0, size, 2, device=x.device, dtype=wide) / size)
    angles = places[:, None] * speeds
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)
