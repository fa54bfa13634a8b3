"""The MLP of a block, shared: the first matrix by its outputs, the second by its inputs, one sum at the end.

    GPT      x ─▶ copy ─▶ up (4h/t)                 ─▶ GELU     ─▶ down ─▶ sum ─▶ + bias
    Llama    x ─▶ copy ─▶ gate (f/t) │ up (f/t)     ─▶ SwiGLU   ─▶ down ─▶ sum

What happens between the matrices is the plain one's own: it needs nothing from other ranks.
"""

from __future__ import annotations

from torch import nn

from ..llama import GatedMLP
from ..model import MLP
from .linear import ColumnParallelLinear, RowParallelLinear
from .ranks import TensorParallel


class ParallelMLP(MLP):
    """This rank's part of an MLP: (b, s, h) → the same; with sequence parallelism (b, s/t, h).

    Args:
        mlp: the whole MLP, the same on all ranks; slices are copied.
        tp: who shares it.

    Raises:
        ValueError: a width that the ranks do not divide.
    """

    def __init__(self, mlp: MLP, tp: TensorParallel) -> None:
        nn.Module.__init__(self)
        self.up = ColumnParallelLinear(mlp.up, tp)  # type: ignore[assignment]
        self.down = RowParallelLinear(mlp.down, tp)  # type: ignore[assignment]


class ParallelGatedMLP(GatedMLP):
    """The same of a gated one, whose gate and up are each cut by themselves."""

    def __init__(self, mlp: GatedMLP, tp: TensorParallel) -> None:
        nn.Module.__init__(self)
        width = mlp.down.in_features
        self.gate_up = ColumnParallelLinear(mlp.gate_up, tp, (width, width))  # type: ignore[assignment]
        self.down = RowParallelLinear(mlp.down, tp)  # type: ignore[assignment]
