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
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .attention import Attention

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
        check_config(self, "layers", "hidden", "heads", "vocabulary", "positions")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout={self.dropout!r}: give a probability from 0 to below 1")


def check_config(config: Any, *sizes: str) -> None:
    """Raises:
    ValueError: one of these fields is no whole number of at least 1, or heads do not divide hidden.
    """
    for name in sizes:
        size = getattr(config, name)
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name}={size!r}: give a whole number of at least 1")
    if config.hidden % config.heads:
        raise ValueError(
            f"heads={config.heads} does not divide hidden={config.hidden}: "
            f"take {math.gcd(config.heads, config.hidden)} heads, or another width"
        )


SIZES = {
    "tiny": Config(layers=2, hidden=32, heads=4, positions=64),
    "small": Config(layers=4, hidden=128, heads=4, positions=128),
    "25m": Config(layers=8, hidden=512, heads=8),
}


class MLP(nn.Module):
    """Four times as wide inside; GELU between."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, s, h) → (b, s, h)."""
        out: torch.Tensor = self.down(F.gelu(self.up(x)))
        return out


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)); dropout on both branches."""

    def __init__(
        self, attention_norm: nn.Module, attention: Attention, mlp_norm: nn.Module, mlp: nn.Module, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.attention_norm, self.attention = attention_norm, attention
        self.mlp_norm, self.mlp = mlp_norm, mlp
        self.dropout = nn.Dropout(dropout)

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
        h = config.hidden
        self.blocks = nn.ModuleList(
            Block(
                nn.LayerNorm(h),
                Attention(h, config.heads, dropout=config.dropout),
                nn.LayerNorm(h),
                MLP(h),
                config.dropout,
            )
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        initialise(self, config.layers)

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
        return logits[:, :length]  # ranks that share a sequence may have padded it


def initialise(model: nn.Module, layers: int) -> None:
    """GPT-2's: normal weights, biases 0; the two that add to x are smaller, as 2·layers of them add up."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif "norm" not in name:
            adds = name.endswith(("projection.weight", "down.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if adds else 0.02)


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the token losses and how many tokens count, so that whoever adds up can divide once.

    Args:
        logits: (…, v); targets: (…), int64; ``NO_TARGET`` counts for nothing.

    Returns:
        Two scalars: the sum in the dtype of the logits, the count in int64.
    """
    total = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=NO_TARGET, reduction="sum")
    return total, (targets != NO_TARGET).sum()
