"""A Llama-like model, as one process runs it: RMSNorm, SwiGLU, rotary positions, grouped-query attention, no biases.

    tokens (b, s) ─▶ embedding ─▶ block × l ─▶ norm ─▶ head ─▶ logits (b, s, v)       the head is a matrix of its own

A block has h² + h·d·2k + h² weights in attention (k key and value heads of d elements), 3·h·f in the MLP and 2h in its
norms: l·(2h² + 2·h·k·d + 3·h·f + 2h) + 2·v·h + h parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from .attention import Attention
from .model import Block, check_config, initialise


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The shape of a Llama.

    layers: blocks; hidden: width h, a multiple of heads; kv_heads: key and value heads, a divisor of heads; ffn: width
    f of the MLP; vocabulary: tokens; positions: longest sequence; theta: base of the rotary positions.

    Raises:
        ValueError: a size below 1, heads that do not divide hidden, kv_heads that do not divide heads, odd heads.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int = 256
    positions: int = 256
    theta: float = 10_000.0

    def __post_init__(self) -> None:
        check_config(self, "layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary", "positions")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"kv_heads={self.kv_heads} does not divide heads={self.heads}: "
                f"take {math.gcd(self.kv_heads, self.heads)}, so that as many queries share each"
            )
        if self.hidden // self.heads % 2:
            raise ValueError(
                f"heads={self.heads} of hidden={self.hidden} have {self.hidden // self.heads} elements each, but "
                "rotary positions turn pairs: take an even number"
            )


LLAMAS = {
    "llama-tiny": LlamaConfig(layers=2, hidden=32, heads=4, kv_heads=2, ffn=88, positions=64),
    "llama-small": LlamaConfig(layers=4, hidden=128, heads=4, kv_heads=2, ffn=344, positions=128),
}


class GatedMLP(nn.Module):
    """SwiGLU: down(silu(gate) · up). gate_up is one matrix: all rows of gate, then all of up."""

    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(b, s, h) → (b, s, h)."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(F.silu(gate) * up)
        return out


class Llama(nn.Module):
    """The whole model.

    Args:
        config: its shape, for instance ``LLAMAS["llama-tiny"]``.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.blocks = nn.ModuleList(
            Block(
                nn.RMSNorm(config.hidden, eps=1e-5),
                Attention(config.hidden, config.heads, config.kv_heads, bias=False, theta=config.theta),
                nn.RMSNorm(config.hidden, eps=1e-5),
                GatedMLP(config.hidden, config.ffn),
            )
            for _ in range(config.layers)
        )
        self.norm = nn.RMSNorm(config.hidden, eps=1e-5)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        initialise(self, config.layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token numbers (b, s), int64 → logits (b, s, v).

        Raises:
            ValueError: a sequence longer than the model's.
        """
        length = tokens.shape[-1]
        if length > self.config.positions:
            raise ValueError(f"tokens has {length} places, but the model {self.config.positions}: cut the sequence")
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits[:, :length]  # ranks that share a sequence may have padded it
