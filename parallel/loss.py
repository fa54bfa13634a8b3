"""The mean loss per valid token, whichever ranks and microbatches the tokens are on.

Averaging gradients over ranks averages the ranks' losses. That is the mean per token only if all have as many tokens:

    rank 0: 3 tokens, losses add up to 6     mean of means  (6/3 + 10/1) / 2 = 6     the token of rank 1 counts thrice
    rank 1: 1 token,  loss 10                per token      (6 + 10) / (3 + 1) = 4   what one process would have

So a rank does not divide its sum by its own count, but by the mean count of a rank: sum · ranks / (tokens of all). The
average over ranks of that is the mean per token, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

import collectives


def token_weight(
    counts: torch.Tensor | int | Sequence[torch.Tensor | int], group: dist.ProcessGroup | None = None
) -> float:
    """What a rank multiplies its sum of token losses with, so that the average over ranks is the mean per token.

    Args:
        counts: valid tokens of this rank: of the step, or of each of its microbatches (then each microbatch's sum is
            multiplied with the one result, and the gradients add up).
        group: the data-parallel ranks; None is the default group.

    Raises:
        ValueError: no rank has a valid token. All ranks raise it.
    """
    each = counts if isinstance(counts, Sequence) else [counts]
    total = torch.tensor([sum(int(count) for count in each)], dtype=torch.int64)
    collectives.all_reduce(total, group=group)
    if total.item() == 0:
        raise ValueError("counts: no rank has a valid token in this step, so there is no mean; leave such a batch out")
    return dist.get_world_size(group) / int(total.item())
