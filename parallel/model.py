"""The GPT that every strategy is measured on, as one process runs it: nothing here knows of ranks.

    tokens (b, s)
      │  embedding[token] + positions[place]
      ▼
    x (b, s, h) ─┬─▶ norm ─▶ attention ─▶ + ─┬─▶ norm ─▶ MLP ─▶ + ─▶ … ─▶ norm ─▶ head = embeddingᵀ ─▶ logits (b, s, v)
                 └───────────────────────▶┘  └─────────────────▶┘
                         one block: both branches read a norm of x and add to x

Attention has 4h² weights a block, the MLP 8h², biases and norms 13h; the table of tokens v·h (shared with the head), of
positions s·h, the last norm 2h: 12·l·h² + 13·l·h + (v + s)·h + 2h parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

NO_TARGET = -100  # a target that does not count, as in torch


@dataclass(frozen=True, slots=True)
class Config:
    """The shape of a GPT.

    layers: blocks; hidden: width h, a multiple of heads; vocabulary: tokens; positions: longest sequence.
    dropout: probability on embeddings, attention weights and both branches.

    Raises:
        ValueError: a size below 1, heads that do not divide hidden, a dropout that is no probability.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary: int = 256
    positions: int = 256
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "vocabulary", "positions"):
            size = getattr(self, name)
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name}={size!r}: give a whole number of at least 1")
        if self.hidden % self.heads:
            raise ValueError(
                f"heads={self.heads} does not divide hidden={self.hidden}: "
                f"take {math.gcd(self.heads, self.hidden)} heads, or another width"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout={self.dropout!r}: give a probability from 0 to below 1")


SIZES = {
    "tiny": Config(layers=2, hidden=32, heads=4, positions=64),
    "small": Config(layers=4, hidden=128, heads=4, positions=128),
    "25m": Config(layers=8, hidden=512, heads=8),
}


class Attention(nn.Module):
    """Causal self-attention. qkv is one matrix: its rows are all queries, then all keys, then all values."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden)
        self.projection = nn.Linear(config.hidden, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, s, h) → (b, s, h)."""
        batch, length, hidden = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        out: torch.Tensor = self.projection(mixed.transpose(1, 2).reshape(batch, length, hidden))
        return out


class MLP(nn.Module):
    """Four times as wide inside; GELU between."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden, 4 * config.hidden)
        self.down = nn.Linear(4 * config.hidden, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, s, h) → (b, s, h)."""
        out: torch.Tensor = self.down(F.gelu(self.up(x)))
        return out


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden)
        self.attention = Attention(config)
        self.mlp_norm = nn.LayerNorm(config.hidden)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, s, h) → (b, s, h)."""
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        out: torch.Tensor = x + self.dropout(self.mlp(self.mlp_norm(x)))
        return out


class GPT(nn.Module):
    """The whole model.

    Args:
        config: its shape, for instance ``SIZES["small"]``.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.positions = nn.Embedding(config.positions, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self._initialise()

    def _initialise(self) -> None:
        """GPT-2's: normal weights, biases 0; the two that add to x are smaller, as 2·layers of them add up."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "norm" not in name:
                adds = name.endswith(("projection.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.layers) if adds else 0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token numbers (b, s), int64 → logits (b, s, v).

        Raises:
            ValueError: a sequence longer than the table of positions.
        """
        length = tokens.shape[-1]
        if length > self.config.positions:
            raise ValueError(f"tokens has {length} places, but the model {self.config.positions}: cut the sequence")
        places = torch.arange(length, device=tokens.device)
        x = self.dropout(self.embedding(tokens) + self.positions(places))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the token losses and how many tokens count, so that whoever adds up can divide once.

    Args:
        logits: (…, v); targets: (…), int64; ``NO_TARGET`` counts for nothing.

    Returns:
        Two scalars: the sum in the dtype of the logits, the count in int64.
    """
    total = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=NO_TARGET, reduction="sum")
    return total, (targets != NO_TARGET).sum()
