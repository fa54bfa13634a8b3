"""What ``Pipeline`` accepts; everything else is refused before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from ..zero import Zero
from .post import Post
from .schedule import PipelineSchedule, check_sizes


def check_arguments(
    chunks: nn.ModuleList,
    schedule: PipelineSchedule,
    microbatches: int,
    recompute: Iterable[int],
    zero: Zero | None,
    bucket_mb: float,
) -> None:
    """Raises:
    ValueError: an argument of ``Pipeline`` that makes no sense.
    """
    if not isinstance(microbatches, int):
        raise ValueError(f"microbatches={microbatches!r}: give a whole number of at least 1")
    check_sizes(1, microbatches)
    if len(chunks) != schedule.chunks and not (schedule.flexible and len(chunks)):
        raise ValueError(
            f"chunks has {len(chunks)} modules, but a rank of {schedule} holds {schedule.chunks}: give that many, "
            "chunk 0 first (splitting.split makes them)"
        )
    for chunk in recompute:
        if not 0 <= chunk < len(chunks):
            raise ValueError(f"recompute names chunk {chunk}, but there are chunks 0 to {len(chunks) - 1}")
    if not isinstance(bucket_mb, (int, float)) or not 0 <= bucket_mb < math.inf:
        raise ValueError(f"bucket_mb={bucket_mb!r}: give MiB of at least 0")
    if zero is not None and zero.stage != 1:
        raise ValueError(
            f"zero is of stage {zero.stage}, which reduces gradients after every microbatch"
            f"{' and gathers parameters before it' if zero.stage == 3 else ''}: with m microbatches m times what a "
            "pipeline needs to send; use stage=1 beside a pipeline"
        )


def check_meeting(
    post: Post, schedule: PipelineSchedule, microbatches: int, chunks: int, tied: Mapping[str, nn.Parameter]
) -> dict[str, list[int]]:
    """All ranks build the same pipeline, or all raise.

    Returns:
        The ranks that hold each of this rank's tied parameters.

    Raises:
        ValueError: they differ, or a tied parameter has no second holder, or another one there.
    """
    settings = f"{schedule}, {microbatches} microbatches, {chunks} chunks a rank"
    shapes = {name: f"{tuple(p.shape)} {p.dtype}" for name, p in tied.items()}
    words: list[dict[str, Any]] = post.meet({"settings": settings, "tied": shapes})
    if any(word["settings"] != settings for word in words):
        each = "; ".join(f"rank {rank}: {word['settings']}" for rank, word in enumerate(words))
        raise ValueError(f"schedule, microbatches or chunks differ between ranks ({each}): give all the same")
    held: dict[str, dict[int, str]] = {}
    for rank, word in enumerate(words):
        for name, shape in word["tied"].items():
            held.setdefault(name, {})[rank] = shape
    for name, copies in held.items():
        if len(copies) < 2 or len(set(copies.values())) > 1:
            each = ", ".join(f"rank {rank} has {shape}" for rank, shape in copies.items())
            raise ValueError(
                f"tied {name!r}: {each}; name it, of one shape and dtype, on all ranks that hold it, two at least"
            )
    return {name: sorted(held[name]) for name in tied}
