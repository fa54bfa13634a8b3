"""What a communicator needs of a process group: who is in it, how to reach them, and how long to wait for them."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_process_group_store


@dataclass(frozen=True, slots=True)
class Link:
    """One rank's way to the other ranks of a group.

    rank, size: within the group. backend: what moves the messages, ``gloo`` or ``nccl`` (or of another make).
    wire: sends and receives (see ``executor.PointToPoint``). store: where ranks leave words for each other. Both are
    None once the link is cut. timeout: seconds that an operation may last.
    """

    rank: int
    size: int
    backend: str
    wire: Any
    store: Any
    timeout: float


def link_of(group: dist.ProcessGroup) -> Link:
    """The link of a group that ``torch.distributed`` knows."""
    backend = dist.get_backend(group)
    return Link(
        dist.get_rank(group),
        dist.get_world_size(group),
        backend,
        _wire_of(group, backend) or weakref.proxy(group),
        _get_process_group_store(group),
        _timeout_of(group, backend),
    )


def keeper_of(group: dist.ProcessGroup) -> int | None:
    """The rank of the group whose process keeps the store: global rank 0's, unless torchrun's agent does."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    ranks = dist.get_process_group_ranks(group)
    return ranks.index(0) if 0 in ranks else None


def _wire_of(group: dist.ProcessGroup, backend: str) -> Any:
    """gloo's own object behind a group (a send through the group costs several microseconds more); else None."""
    if backend != "gloo":
        return None
    try:
        return group._get_backend(torch.device("cpu"))
    except (AttributeError, RuntimeError):  # a torch that hides it, or a group of another make
        return None


def _timeout_of(group: dist.ProcessGroup, backend: str) -> float:
    try:
        device = torch.device("cuda" if backend == "nccl" else "cpu")
        timeout = group._get_backend(device).options._timeout
    except (AttributeError, RuntimeError):  # a backend of another make: torch's default
        timeout = dist.default_pg_timeout
    assert isinstance(timeout, timedelta)
    return timeout.total_seconds()
