"""Ranks tell each other how far they are, by the store where they met: apart from what is tested, and at once."""

from __future__ import annotations

import time

import torch.distributed as dist


def tell() -> None:
    """This rank has seen what the others wait for."""
    dist.distributed_c10d._get_default_store().add("told", 1)


def wait_until_told(by: int, seconds: float) -> None:
    """Until that many ranks have told it, and no longer than ``seconds``: what goes wrong must not become a hang."""
    store, limit = dist.distributed_c10d._get_default_store(), time.monotonic() + seconds
    while store.add("told", 0) < by and time.monotonic() < limit:
        time.sleep(0.02)
