"""``--split``: the ranks in several groups that all do the same at once, as nccl-tests' ``NCCL_TESTS_SPLIT``. No torch.

8 ranks     MOD:4   0 4 │ 1 5 │ 2 6 │ 3 7      with 4 GPUs a node: one group a rail, all rails at once
            DIV:4   0 1 2 3 │ 4 5 6 7          with 4 GPUs a node: one group a node
"""

from __future__ import annotations

import re


def groups_of(text: str, ranks: int) -> tuple[tuple[int, ...], ...]:
    """The groups, each in ascending order; O(ranks).

    Args:
        text: ``MOD:N`` (group rank mod N) or ``DIV:N`` (group rank div N).

    Raises:
        ValueError: it is neither, or the groups are of one rank or of unequal sizes.
    """
    match = re.fullmatch(r"(MOD|DIV)[: ](\d{1,9})", text.strip().upper())
    if match is None or int(match[2]) < 1:
        raise ValueError(f"--split {text}: write MOD:N (a group has the ranks of equal rank mod N) or DIV:N, N from 1")
    number = int(match[2])
    size = ranks // number if match[1] == "MOD" else number
    if size < 2 or ranks % number:
        shape = f"groups of {size}" if ranks % number == 0 else "unequal groups"
        fits = [n for n in range(1, ranks) if ranks % n == 0 and (ranks // n if match[1] == "MOD" else n) > 1]
        hint = f"N of {', '.join(map(str, fits))}" if fits else "more ranks"
        raise ValueError(f"--split {text}: {ranks} ranks make {shape}, which measure nothing; use {hint}")
    if match[1] == "MOD":
        return tuple(tuple(range(color, ranks, number)) for color in range(number))
    return tuple(tuple(range(first, first + number)) for first in range(0, ranks, number))
