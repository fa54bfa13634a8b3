"""Warm ranks for a file of tests: one pool of forked processes a world size, made again when a test broke it.

They end with the file: ranks that are kept hold memory, and each has threads of gloo that wake up all the time.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch.distributed as dist

from collectives.launch import Pool

# what several files of tests share says as much when it fails as they do
pytest.register_assert_rewrite("tests.parallel.sharded", "tests.parallel.averaged", "tests.collectives.computed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole programs first: they take minutes, and none should be left alone at the end of a run in two processes."""
    items.sort(key=lambda item: "system" not in item.path.parts)


class Ranks:
    """``ranks(size, function, *args)`` runs the function on ``size`` real ranks and returns their results in order."""

    def __init__(self, backend: str = "gloo", prepare: Callable[[], object] | None = None) -> None:
        self._backend, self._prepare = backend, prepare
        self._pools: dict[int, Pool] = {}

    def __call__(self, size: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        pool = self._pools.get(size)
        if pool is None or pool.broken:
            prepare = partial(_prepared, self._prepare)
            pool = self._pools[size] = Pool(size, self._backend, timeout=100, batch=True, prepare=prepare)
        return pool.run(_tidy, function, *args, **kwargs)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


def _prepared(prepare: Callable[[], object] | None) -> None:
    """In a rank: a group is whole on all ranks before one goes on, which may be done with it, and close it, at once."""
    os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
    if prepare is not None:
        prepare()


def _tidy(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Leave no group behind: each has threads of gloo, which wake a hundred times a second as long as it lives."""
    try:
        return function(*args, **kwargs)
    finally:
        for group in [*dist.distributed_c10d._world.pg_map]:
            if group is not dist.group.WORLD:
                dist.destroy_process_group(group)
        gc.collect()


@pytest.fixture(scope="session")
def dynamo() -> None:
    """What DDP, FSDP and optimizers load when they are first used: once, here, for all ranks (a second each)."""
    importlib.import_module("torch._dynamo")


@pytest.fixture(scope="module")
def ring_ranks() -> Iterator[Ranks]:
    """Warm ranks of backend ``ring``; see ``Ranks``."""
    held = Ranks("ring", partial(importlib.import_module, "collectives.torch_backend"))
    yield held
    held.close()


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """Warm gloo ranks; see ``Ranks``."""
    held = Ranks()
    yield held
    held.close()
