"""What is trained: the shape of a transformer.

::

    tokens ─▶ embedding ─▶ │ norm ─ attention ─ + ─ norm ─ MLP or experts ─ + │ × layers ─▶ norm ─▶ output head
              V h + s h    │        4 h²                   8 h² (or 3 h f)    │                    V h, or tied
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..units import show_count

Output: TypeAlias = Literal["tied", "untied", "pooler", "masked"]
LAYERS, WIDTH = 10_000, 1 << 40  # no model is deeper or wider; what is larger is a slip
SMALLEST, LARGEST = 10**6, 10**18  # parameters from which a shape is guessed


@dataclass(frozen=True)
class Transformer:
    """A transformer, by numbers.

    layers, hidden, heads, ffn: depth, width h, attention heads a, width of the MLP f. vocab: V. sequence: tokens s of a
    sample. kv_heads: 0 means as many as heads. head: elements of a head (0: hidden / heads). gated: SwiGLU, three
    matrices in the MLP. bias: on linear layers and norms. positions: rows of a learned table (0: rotary, none).
    output: ``tied`` or ``untied`` language-model head; ``pooler``: BERT without a head; ``masked``: BERT's two heads
    for pretraining. dropout: masks are kept for the backward. qk_norm: queries and keys are normalised.

    experts: 0, or as many MLPs of which a router takes top_k for each token, each expert_ffn wide (0: ffn), beside
    shared_ffn of shared ones; the first dense_layers layers keep one MLP of width ffn.

    kv_rank, q_rank, rope: multi-head latent attention (DeepSeek): ranks of the compressed keys and values and of the
    queries (0: not compressed), and the elements of a head that carry the position.

    stated: the parameters that are to be counted in all, where only they are known (0: counted from the shape).
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    sequence: int
    kv_heads: int = 0
    head: int = 0
    gated: bool = False
    bias: bool = True
    positions: int = 0
    output: Output = "tied"
    dropout: bool = True
    qk_norm: bool = False
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    dense_layers: int = 0
    kv_rank: int = 0
    q_rank: int = 0
    rope: int = 0
    stated: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        """Fills in what 0 stands for.

        Raises:
            ValueError: numbers that no model has, with the nearest that would do.
        """
        for name in ("layers", "hidden", "heads", "ffn", "vocab", "sequence"):
            value, limit = getattr(self, name), LAYERS if name == "layers" else WIDTH
            if not 1 <= value <= limit:
                raise ValueError(f"{name}={value}: use 1 to {limit}")
        if not self.head and self.hidden % self.heads:
            raise ValueError(
                f"hidden={self.hidden} is not a multiple of heads={self.heads}: "
                f"use hidden={_multiple(self.hidden, self.heads)}, or give the size of a head"
            )
        object.__setattr__(self, "head", self.head or self.hidden // self.heads)
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        if not 1 <= self.kv_heads <= self.heads or self.heads % self.kv_heads:
            near = nearest(self.kv_heads, divisors(self.heads))
            raise ValueError(f"kv_heads={self.kv_heads} does not divide heads={self.heads}: use kv_heads={near}")
        if self.experts:
            object.__setattr__(self, "expert_ffn", self.expert_ffn or self.ffn)
            object.__setattr__(self, "top_k", self.top_k or min(2, self.experts))
        if not 0 <= self.experts <= WIDTH or not 0 <= self.top_k <= self.experts:
            raise ValueError(f"top_k={self.top_k}: use 1 to experts={self.experts}")
        if not 0 <= self.dense_layers <= self.layers:
            raise ValueError(f"dense_layers={self.dense_layers}: use 0 to layers={self.layers}")

    @property
    def encoder(self) -> bool:
        """BERT: every token sees every other one; token types, and a norm after the embedding."""
        return self.output in ("pooler", "masked")

    @property
    def queries(self) -> int:
        """Elements of a token's queries over all heads."""
        return self.heads * (self.head + self.rope)

    @property
    def keys(self) -> int:
        """Elements of a token's keys as attention reads them."""
        return self.queries if self.kv_rank else self.kv_heads * self.head

    @property
    def values(self) -> int:
        """Elements of a token's values as attention reads them."""
        return (self.heads if self.kv_rank else self.kv_heads) * self.head

    @property
    def context(self) -> int:
        """Elements of a token that attention hands to its projection."""
        return self.heads * self.head

    @property
    def cached(self) -> int:
        """Elements that a token leaves in one layer's KV cache."""
        return self.kv_rank + self.rope if self.kv_rank else self.keys + self.values


def of_parameters(parameters: int, sequence: int = 2048, vocab: int = 50257) -> Transformer:
    """A GPT of so many parameters: of the usual shapes (h about 128 · layers) the one that comes nearest.

    Raises:
        ValueError: fewer than a million, or more than 1e18.
    """
    if not SMALLEST <= parameters <= LARGEST:
        raise ValueError(f"parameters={parameters}: use 1M to 1e18, or describe the model by its shape")
    vocab = min(vocab, max(256, parameters // 2048))
    hidden = 64 * max(1, round((parameters * 128 / 12) ** (1 / 3) / 64))
    hidden = max(64, min(hidden, 64 * (parameters // (2 * vocab * 64))))
    layers = min(max(1, round((parameters - vocab * hidden) / (12 * hidden**2))), LAYERS)
    head = 128 if hidden % 128 == 0 else 64
    name, source = show_count(parameters).replace(" ", ""), "a GPT of the usual shape"
    heads, ffn = hidden // head, 4 * hidden
    return Transformer(name, layers, hidden, heads, ffn, vocab, sequence, stated=parameters, source=source)


def changed(model: Transformer, **numbers: int) -> Transformer:
    """The model with other numbers; what followed from the old ones follows from the new.

    >>> from sim.planner.models import MODELS
    >>> changed(MODELS["deepseek-v3"], layers=4).dense_layers  # 3 of 61
    1

    Raises:
        ValueError: see :class:`Transformer`.
    """
    if "heads" in numbers or "hidden" in numbers:
        numbers.setdefault("head", 0)
        if model.kv_heads == model.heads:
            numbers.setdefault("kv_heads", 0)
    if "hidden" in numbers and model.ffn == 4 * model.hidden:
        numbers.setdefault("ffn", 4 * numbers["hidden"])
    if "sequence" in numbers and model.positions:
        numbers.setdefault("positions", max(model.positions, numbers["sequence"]))
    if "layers" in numbers:  # as large a part of them stays dense, rounded up
        numbers.setdefault("dense_layers", -(-model.dense_layers * numbers["layers"] // model.layers))
    if "experts" in numbers and not model.experts:
        numbers.setdefault("expert_ffn", 0)
    return replace(model, stated=0, **numbers)  # type: ignore[arg-type]


def divisors(number: int) -> list[int]:
    """All of them, smallest first; of numbers so large that it would take long, the powers of two."""
    if number > 1 << 40:
        return [1 << power for power in range(number.bit_length()) if number % (1 << power) == 0]
    small = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return sorted({*small, *(number // i for i in small)})


def nearest(wanted: int, choices: list[int]) -> int:
    """The choice that is least away by ratio; the smaller one of two."""
    return min(choices, key=lambda choice: (max(choice, wanted, 1) / max(1, min(choice, wanted)), choice))


def _multiple(number: int, of: int) -> int:
    return max(of, round(number / of) * of)
