"""Sparse all-reduce: every rank hears all entries and adds up those that meet.

=======================  ======================  =====================================
rank 0: {3: a}           1. how many?  1, 2      3. {3: a}, {3: b, 7: c} on all ranks:
rank 1: {3: b, 7: c}     2. (3, a), (3, b) (7, c)   {3: a + b, 7: c}
=======================  ======================  =====================================
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from ..buffers import Handle
from ..communicator import Communicator
from ..moving import all_gather_into_tensor


def all_reduce(
    tensor: Tensor,
    op: ReduceOp.RedOpType,
    group: Communicator,
    algorithm: str,
    async_op: bool,
    timeout: float | None,
) -> Handle:
    """Sum a sparse tensor over all ranks, in place; the same bits on every rank.

    Args:
        tensor: of COO layout, with the same shape, sparse dimensions and dtype on all ranks; entries may be repeated.
        algorithm: of the all-gathers that it is made of.

    Raises:
        ValueError: another ``op`` than SUM; nothing has been sent.
    """
    if op != ReduceOp.SUM:
        raise ValueError(f"op={op}: sparse tensors can only be summed; use to_dense() first")
    job = partial(_sum, tensor, group, algorithm, timeout)
    group.raise_if_broken(lambda: "sparse all_reduce")
    work = group.in_turn(job)
    if async_op:
        return work
    work.wait()
    return None


@torch.no_grad()
def _sum(tensor: Tensor, group: Communicator, algorithm: str, timeout: float | None) -> None:
    mine = tensor.detach().coalesce()
    gather = partial(_gather, group=group, algorithm=algorithm, timeout=timeout)
    counts = gather(torch.tensor([mine._nnz()], device=tensor.device)).flatten().tolist()
    indices = gather(_padded(mine.indices().t(), max(counts)))
    values = gather(_padded(mine.values(), max(counts)))
    entries = [(indices[rank, :count], values[rank, :count]) for rank, count in enumerate(counts)]
    where, what = (torch.cat(part) for part in zip(*entries, strict=True))
    tensor.copy_(torch.sparse_coo_tensor(where.t(), what, tensor.shape).coalesce())


def _padded(rows: Tensor, count: int) -> Tensor:
    """``count`` rows, those that are missing of zeros: (n, …) becomes (count, …)."""
    padded = rows.new_zeros(count, *rows.shape[1:])
    padded[: len(rows)] = rows
    return padded


def _gather(tensor: Tensor, group: Communicator, algorithm: str, timeout: float | None) -> Tensor:
    """(…) on every rank becomes (ranks, …)."""
    gathered = tensor.new_empty(group.size, *tensor.shape)
    all_gather_into_tensor(gathered, tensor, group, algorithm=algorithm, timeout=timeout)
    return gathered
