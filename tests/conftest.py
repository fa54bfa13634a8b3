"""Warm ranks for the whole session: one pool of forked processes a world size, made again when a test broke it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from collectives.launch import Pool


class Ranks:
    """``ranks(size, function, *args)`` runs the function on ``size`` real ranks and returns their results in order."""

    def __init__(self) -> None:
        self._pools: dict[int, Pool] = {}

    def __call__(self, size: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        pool = self._pools.get(size)
        if pool is None or pool.broken:
            pool = self._pools[size] = Pool(size, timeout=100, batch=True)
        return pool.run(function, *args, **kwargs)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    """Warm gloo ranks; see ``Ranks``."""
    held = Ranks()
    yield held
    held.close()
