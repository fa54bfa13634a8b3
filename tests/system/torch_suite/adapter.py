"""The class of PyTorch's distributed tests for one backend in one mode."""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
import unittest
from pathlib import Path

import torch
import torch.distributed as dist

from .modes import Mode

SECONDS = 120  # that one test may last


def suite_of(mode: Mode, backend: str, world: int) -> type[unittest.TestCase]:
    """The tests; once in a process, because the suite reads the environment when it is imported.

    Raises:
        ImportError, AttributeError: another torch, whose internals are elsewhere.
    """
    folder = Path(tempfile.mkdtemp(prefix="torch-suite-"))
    (folder / "barrier").mkdir()
    os.environ.update(
        BACKEND=mode.taken_for or backend,
        WORLD_SIZE=str(world),
        INIT_METHOD=f"file://{folder}/store",
        TEMP_DIR=str(folder),
        OMP_NUM_THREADS="1",
        GLOO_SOCKET_IFNAME="lo",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(SECONDS),
    )
    torch.set_num_threads(1)
    importlib.import_module("collectives.torch_backend")
    from torch.testing._internal import common_distributed

    for feature in common_distributed.DistTestCases.backend_feature.values():  # the hook for backends from elsewhere
        feature.add(backend)
    if mode.shim:
        from . import shim

        shim.open_gates(common_distributed)
    if mode.taken_for == "mpi":
        dist.is_mpi_available = lambda: True
    if mode.taken_for is not None:
        dist.init_process_group = _renaming(dist.init_process_group, mode.taken_for, backend)
    from torch.testing._internal.distributed import distributed_test

    class TestDistributed(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            # a spawned rank would import torch again, for seconds
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def _barrier(self, *args, timeout=SECONDS, **kwargs):
            super()._barrier(*args, timeout=timeout, **kwargs)  # the suite's own 10 s are too few on a busy machine

        @classmethod
        def _run(cls, *args, **kwargs):
            if mode.shim:
                shim.pose()
            super()._run(*args, **kwargs)

    return TestDistributed


def _renaming(function, name: str, backend: str):
    """``init_process_group`` that makes a group of ``backend`` when it is asked for ``name``."""

    @functools.wraps(function)
    def init(*args, **kwargs):
        if kwargs.get("backend") == name:
            kwargs["backend"] = backend
        return function(*args, **kwargs)

    return init
