"""Linear layers whose weight is shared: by its output rows (column parallel), or by its input columns (row parallel).

    Y = X Wᵀ, W (out, in); Megatron's names are those of Wᵀ

    column parallel    X ─▶ copy ─▶ X W₀ᵀ │ X W₁ᵀ          each rank has some of the outputs
    row parallel       X₀ │ X₁ ─▶ X₀ W₀ᵀ + X₁ W₁ᵀ ─▶ + b    each rank has a summand; the bias comes once, behind the sum

A nonlinearity between the two needs nothing from other ranks: f(X W₀ᵀ) is a part of f(X Wᵀ). The other way round it
would need the whole sum first. With sequence parallelism the copy is an all-gather, the sum a reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from .. import deferred
from ..deferred import Owed, add_gradient
from . import exchange, functional
from .column import PLACES, column_product, weight_product
from .overlap import gather_product, product_scatter
from .ranks import TensorParallel
from .split import Split, shared


class ColumnParallelLinear(nn.Module):
    """This rank's outputs of a linear layer.

    Args:
        linear: the whole layer, the same on all ranks; its slice is copied.
        tp: who shares it.
        parts: lengths of what is fused in its outputs, each shared by itself: (queries, keys, values).
        gather_output: give all ranks all outputs. padded: outputs that the ranks do not divide are continued with
            zeros, as a vocabulary is.

    Raises:
        ValueError: outputs or parts that the ranks do not divide, parts that do not add up, gathered parts.
    """

    owed: Owed | None = None

    def __init__(
        self,
        linear: nn.Linear,
        tp: TensorParallel,
        parts: Sequence[int] = (),
        *,
        gather_output: bool = False,
        padded: bool = False,
    ) -> None:
        super().__init__()
        parts = tuple(parts) or (linear.out_features,)
        if sum(parts) != linear.out_features:
            raise ValueError(f"parts={parts} add up to {sum(parts)}, but linear has {linear.out_features} outputs")
        if gather_output and len(parts) > 1:
            raise ValueError(f"gather_output=True with parts={parts}: gathered, they would be mixed; give one part")
        self.tp, self.outputs, self.gather_output = tp, linear.out_features, gather_output
        split = Split(0, parts, padded)
        self.weight = shared(linear.weight, split, tp.rank, tp.size, "linear.weight (its outputs)")
        self.bias = None if linear.bias is None else shared(linear.bias, split, tp.rank, tp.size, "linear.bias")

    def forward(self, x: Tensor) -> Tensor:
        """(…, s, in), with sequence parallelism (…, s/t, in) → (…, s, out/t), or (…, s, out) gathered."""
        product = gather_product if self.tp.ring else column_product
        out = product(x, self.weight, self.bias, self.tp, self)
        return functional.gather(out, -1, self.tp.group)[..., : self.outputs] if self.gather_output else out

    def add_weight_gradients(self, x: Tensor, gradient: Tensor) -> None:
        """See ``deferred``; ``x`` is what the forward has kept: all ranks of the group call it."""
        if self.weight.requires_grad:
            again = self.tp.sequence and self.tp.regather
            whole = exchange.all_gather(x, PLACES, self.tp.group)() if again else x
            add_gradient(self.weight, weight_product(gradient, whole))
        if self.bias is not None and self.bias.requires_grad:
            add_gradient(self.bias, gradient.flatten(0, -2).sum(0))


class RowParallelLinear(nn.Module):
    """The sum of what the ranks make of their inputs.

    Args:
        linear: the whole layer, the same on all ranks; its slice is copied.
        tp: who shares it.
        scatter_input: the input is whole on all ranks, and each takes its slice.

    Raises:
        ValueError: inputs that the ranks do not divide.
    """

    owed: Owed | None = None

    def __init__(self, linear: nn.Linear, tp: TensorParallel, *, scatter_input: bool = False) -> None:
        super().__init__()
        self.tp, self.scatter_input = tp, scatter_input
        split = Split(1, (linear.in_features,))
        self.weight = shared(linear.weight, split, tp.rank, tp.size, "linear.weight (its inputs)")
        self.bias: nn.Parameter | None = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """(…, s, in/t), or (…, s, in) scattered → (…, s, out), with sequence parallelism (…, s/t, out)."""
        group = self.tp.group
        if self.scatter_input:
            x = functional.scatter(x, -1, group)
        if not self.tp.sequence:
            out = functional.reduce(deferred.linear(x, self.weight, None, self), group)
            return out if self.bias is None else out + self.bias
        if self.tp.ring:
            out = product_scatter(x, self.weight, self.tp, self)
        else:
            out = functional.reduce_scatter(deferred.linear(x, self.weight, None, self), PLACES, group)
        return out if self.bias is None else out + functional.copy(self.bias, group)

    def add_weight_gradients(self, x: Tensor, gradient: Tensor) -> None:
        """See ``deferred``; the bias, which is added behind the sum, has had its gradient already."""
        if self.weight.requires_grad:
            add_gradient(self.weight, weight_product(gradient, x))
