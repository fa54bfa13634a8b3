"""A batch, cut into microbatches along its rows.

8 rows in 3 microbatches    0 1 2 │ 3 4 5 │ 6 7        the first ones are a row longer
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

Signature: TypeAlias = tuple[tuple[tuple[int, ...], str], ...]


def rows(batch: Any) -> int:
    """How many rows a batch has: the first dimension of its tensors.

    Raises:
        ValueError: no tensor, a scalar, or tensors with different numbers of rows.
    """
    leaves = [leaf for leaf in tree_flatten(batch)[0] if isinstance(leaf, Tensor)]
    if not leaves or any(leaf.dim() == 0 for leaf in leaves):
        raise ValueError(f"batch is {type(batch).__name__}: give a tensor with rows, or a tuple of such")
    counts = {len(leaf) for leaf in leaves}
    if len(counts) > 1:
        raise ValueError(f"batch has tensors with {' and '.join(map(str, sorted(counts)))} rows: give all the same")
    return counts.pop()


def cut(name: str, batch: Any, microbatches: int) -> list[Any]:
    """The batch in pieces of nearly equal length, each of the batch's form; tensors are views.

    Raises:
        ValueError: fewer rows than microbatches.
    """
    count = rows(batch)
    if count < microbatches:
        raise ValueError(
            f"{name} has {count} rows for {microbatches} microbatches: give each at least one, "
            f"or take at most {count} microbatches"
        )
    leaves, form = tree_flatten(batch)
    split = [leaf.tensor_split(microbatches) if isinstance(leaf, Tensor) else [leaf] * microbatches for leaf in leaves]
    return [tree_unflatten(list(pieces), form) for pieces in zip(*split, strict=True)]


def signature(batch: Any) -> Signature:
    """What the shapes of all activations follow from: shapes and dtypes of a batch."""
    leaves = [leaf for leaf in tree_flatten(batch)[0] if isinstance(leaf, torch.Tensor)]
    return tuple((tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves)
