"""The class of PyTorch's distributed tests for one backend in one mode."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import tempfile
import unittest
from multiprocessing.connection import wait
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
    elif not torch.cuda.device_count():
        _tell_beforehand(common_distributed, small=world < 8 and mode.taken_for != "mpi")
    if mode.taken_for == "mpi":
        dist.is_mpi_available = lambda: True
    if mode.taken_for is not None:
        dist.init_process_group = _renaming(dist.init_process_group, mode.taken_for, backend)
    from torch.testing._internal.distributed import distributed_test

    class TestDistributed(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            if reason := getattr(getattr(self, self._testMethodName), "skipped", ""):
                self.skipTest(reason)
            # a spawned rank would import torch again, for seconds
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def _join_processes(self, fn) -> None:
            # as soon as they have ended: the suite itself looks ten times a second
            busy = {process.sentinel: process for process in self.processes}
            while busy and (ended := wait(busy, timeout=SECONDS)):
                if any(busy.pop(sentinel).exitcode for sentinel in ended):
                    break
            super()._join_processes(fn)

        def _barrier(self, *args, timeout=SECONDS, **kwargs):
            super()._barrier(*args, timeout=timeout, **kwargs)  # the suite's own 10 s are too few on a busy machine

        @classmethod
        def _run(cls, *args, **kwargs):
            if mode.shim:
                shim.pose()
            super()._run(*args, **kwargs)

    gc.freeze()  # else every rank would walk over all this
    return TestDistributed


def _tell_beforehand(common_distributed, small: bool) -> None:
    """Before the suite is imported: its decorators leave word (``skipped``) of what the ranks would start to find out.

    small: the world is; there are no GPUs.
    """
    skips = common_distributed.TEST_SKIPS

    def leave_word(skip: str):
        def mark(test):
            test.skipped = skips[skip].message  # of several decorators the outermost has the last word, as in a rank
            return test

        return mark

    common_distributed.skip_if_no_gpu = leave_word("no_cuda")
    common_distributed.skip_if_lt_x_gpu = lambda count, *, allow_cpu=False: (
        (lambda test: test) if allow_cpu else leave_word(f"multi-gpu-{count}")
    )
    if small:
        common_distributed.skip_if_small_worldsize = leave_word("small_worldsize")


def _renaming(function, name: str, backend: str):
    """``init_process_group`` that makes a group of ``backend`` when it is asked for ``name``."""

    @functools.wraps(function)
    def init(*args, **kwargs):
        if kwargs.get("backend") == name:
            kwargs["backend"] = backend
        return function(*args, **kwargs)

    return init
