"""Tensor parallelism: the ranks of a group share every layer, and with sequence parallelism what is between layers.

    block     x ─▶ norm ─▶ f ─▶ [ W by rows │ heads or GELU │ W by columns ] ─▶ g ─▶ +      f: copy,  g: sum
              with sequence parallelism f is an all-gather of the places, g a reduce-scatter

``functional`` has the collectives that autograd goes through, ``split`` the rule of who holds which slice; every other
part is made of the plain part whose work it shares. ``parallelize_`` does that to a whole model.
"""

from __future__ import annotations

from .attention import ParallelAttention
from .embedding import VocabParallelEmbedding
from .linear import ColumnParallelLinear, RowParallelLinear
from .loss import vocab_parallel_cross_entropy
from .mlp import ParallelGatedMLP, ParallelMLP
from .model import load_whole_, parallelize_, whole, whole_state
from .ranks import TensorParallel
from .split import Split, split_of

__all__ = [
    "ColumnParallelLinear",
    "ParallelAttention",
    "ParallelGatedMLP",
    "ParallelMLP",
    "RowParallelLinear",
    "Split",
    "TensorParallel",
    "VocabParallelEmbedding",
    "load_whole_",
    "parallelize_",
    "split_of",
    "vocab_parallel_cross_entropy",
    "whole",
    "whole_state",
]
