"""Cross-entropy of logits that no rank has all of: three numbers a token cross the ranks, not a vocabulary.

    loss = log Σ exp(z − m) − (z_target − m)

    m         the largest logit        all-reduce, MAX
    Σ         of the exponentials      all-reduce, SUM, both in one
    z_target  who has it gives it, the others 0

The backward needs no exchange: softmax minus one at the target, each rank for its own columns. Columns that only pad
the vocabulary are −∞: in no sum, without gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

import collectives

from ..model import NO_TARGET
from .ranks import TensorParallel
from .split import Split


def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, vocabulary: int, tp: TensorParallel
) -> tuple[Tensor, Tensor]:
    """The twin of ``parallel.model.cross_entropy``: the sum of the token losses, and how many tokens count.

    Args:
        logits: (…, s, v/t), this rank's columns, varying; v rounded up to a multiple of the ranks. With sequence
            parallelism s may be, too: places beyond the targets' are left out.
        targets: (…, s), int64, of the whole vocabulary, the same on all ranks; ``NO_TARGET`` counts for nothing.
        vocabulary: v without padding.

    Returns:
        Two invariant scalars: the sum in the dtype of the logits, the count in int64. The gradient of the sum is
        invariant, that of the logits varying.

    Raises:
        ValueError: logits of another width, or targets of another shape, or outside the vocabulary (on a CPU).
    """
    width = -(-vocabulary // tp.size)
    if tp.sequence and logits.dim() > 1 and 0 < logits.shape[-2] - targets.shape[-1] < tp.size:
        logits = logits[..., : targets.shape[-1], :]
    if logits.shape[-1] != width or logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits has shape {tuple(logits.shape)} and targets {tuple(targets.shape)}: with a vocabulary of "
            f"{vocabulary} on {tp.size} ranks logits must be {(*targets.shape, width)}"
        )
    counts = targets != NO_TARGET
    if not targets.is_cuda and bool((counts & ((targets < 0) | (targets >= vocabulary))).any()):
        raise ValueError(f"targets has numbers outside 0 to {vocabulary - 1}; {NO_TARGET} means: does not count")
    losses: Tensor = _TokenLosses.apply(logits, targets, vocabulary, tp)  # type: ignore[no-untyped-call]
    return losses.masked_fill(~counts, 0).sum().to(logits.dtype), counts.sum()


class _TokenLosses(torch.autograd.Function):
    """The loss of each token, in fp32 or wider; of one that does not count, anything."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, vocabulary: int, tp: TensorParallel) -> Tensor:
        ((first, rows),) = Split(0, (vocabulary,), padded=True).ranges(tp.rank, tp.size)
        with torch.enable_grad():  # see column
            wide = logits.detach().to(torch.promote_types(logits.dtype, torch.float32), copy=True)
        wide[..., rows:] = float("-inf")
        largest = wide.amax(-1)
        collectives.all_reduce(largest, ReduceOp.MAX, tp.group, algorithm="ring")
        wide -= largest.unsqueeze(-1)
        local = targets - first
        foreign = (local < 0) | (local >= rows)
        local = local.masked_fill(foreign, 0).unsqueeze(-1)
        own = wide.gather(-1, local).squeeze(-1).masked_fill(foreign, 0)
        sums = torch.stack([wide.exp_().sum(-1), own])
        collectives.all_reduce(sums, group=tp.group, algorithm="ring")
        total, at_target = sums
        ctx.save_for_backward(wide.div_(total.unsqueeze(-1)), local, foreign)
        ctx.dtype = logits.dtype
        losses: Tensor = total.log() - at_target
        return losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        softmax, local, foreign = ctx.saved_tensors
        one = (~foreign).unsqueeze(-1).to(softmax.dtype)
        gradient = softmax.scatter_add(-1, local, -one) * gradients[0].unsqueeze(-1)
        return gradient.to(ctx.dtype), None, None, None
