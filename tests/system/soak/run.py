"""Thousands of mixed operations on every rank, each checked, and what the ranks hold meanwhile."""

from __future__ import annotations

import ctypes
import gc
import importlib
import itertools
import os
import random
import threading
import time
import zlib
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist

from collectives import launch

from .operations import DTYPES, LARGEST, Draw, Group, Issued

RENEWED = 250  # operations between two renewals of a group
SAMPLES = 10
SLACK = 64  # MiB: scratch of renewed groups that grows again, and what torch keeps of a group that is gone
BACKENDS = ["ring", "ring:ring", "ring:double_tree", "ring:direct", "ring:recursive_doubling"]


@dataclass(frozen=True)
class Sample:
    """What a rank holds after so many operations: resident memory in MiB, threads, open files."""

    operations: int
    memory: float
    threads: int
    files: int

    @classmethod
    def take(cls, operations: int) -> Sample:
        until = time.monotonic() + 5
        while any("guard" in thread.name for thread in threading.enumerate()) and time.monotonic() < until:
            time.sleep(0.01)  # a guard lives a moment longer than what it guards
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free but not given back is not held
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        return cls(operations, memory, threading.active_count(), len(os.listdir("/proc/self/fd")))


@dataclass
class Account:
    """One rank's: checksums of what was written and of what should have been."""

    wrote: int = 0
    want: int = 0

    def add(self, draw: Draw, issued: Issued) -> None:
        """
        Raises:
            AssertionError: the operation wrote something else; it says which.
        """
        for wrote, want in zip(issued.wrote, issued.want, strict=True):
            assert torch.equal(wrote, want), f"{draw} wrote {wrote} instead of {want}"
            self.wrote = _checksum(wrote, self.wrote)
            self.want = _checksum(want, self.want)


def _checksum(tensor: torch.Tensor, start: int) -> int:
    return zlib.crc32(memoryview(tensor.contiguous().view(torch.uint8).numpy()), start)


def soak(operations: int, seed: int) -> tuple[Account, list[Sample]]:
    """On every rank: run so many operations, and take a sample now and then.

    Raises:
        AssertionError: an operation wrote something else.
    """
    ranks = range(dist.get_world_size())
    groups = [Group.make([*ranks], backend) for backend in BACKENDS]
    groups += [Group.make([*some], "ring") for n in range(2, len(ranks)) for some in itertools.combinations(ranks, n)]
    pending: list[tuple[Draw, Issued]] = []
    account, samples = Account(), []
    _warm(groups)
    for number in range(operations):
        if number % RENEWED == RENEWED - 1:
            _finish(pending, 0, account)
            place = random.Random(f"{seed} renews {number}").randrange(len(groups))
            groups[place] = groups[place].renewed()
        if number % max(1, operations // SAMPLES) == 0:
            _finish(pending, 0, account)
            samples.append(Sample.take(number))
        draw = Draw(seed, number, groups)
        if draw.rank in draw.members:
            pending.append((draw, draw.kind(draw, draw.group.handle)))
        _finish(pending, draw.left, account)
    _finish(pending, 0, account)
    return account, [*samples, Sample.take(operations)]


def _warm(groups: list[Group]) -> None:
    """Threads are made at their first use, and scratch memory grows to the largest."""
    for group in groups:
        if dist.get_rank() in group.members:
            for dtype in DTYPES:
                largest = torch.zeros(LARGEST * len(group.members), dtype=dtype)
                dist.all_reduce(largest, group=group.handle, async_op=True).wait()
                dist.reduce_scatter_tensor(largest[:LARGEST], largest.clone(), group=group.handle)


def _finish(pending: list[tuple[Draw, Issued]], left: int, account: Account) -> None:
    """Wait, for the newest first where its number is odd, until no more than ``left`` are pending."""
    while len(pending) > left:
        draw, issued = pending.pop(-1 if pending[-1][0].number % 2 else 0)
        if issued.work is not None:
            if draw.as_future:
                issued.work.get_future().wait()
            issued.work.wait()
        account.add(draw, issued)


def growth(samples: list[Sample]) -> list[str]:
    """What has grown since the first third, when caches were full, in words."""
    third = len(samples) // 3 + 1
    early = {"memory": samples[1:third], "threads": samples[:third], "files": samples[:third]}  # a warm-up is generous
    grown = []
    for what, allowed in (("memory", SLACK), ("threads", 0), ("files", 0)):
        before, after = (max(getattr(sample, what) for sample in some) for some in (early[what], samples[third:]))
        if after > before + allowed:
            grown.append(f"{what} grew from {before:.0f} to {after:.0f}")
    return grown


def run(operations: int, seed: int, ranks: int) -> list[tuple[Account, list[Sample]]]:
    prepare = partial(importlib.import_module, "collectives.torch_backend")
    return launch.run(soak, ranks, operations, seed, backend="ring", prepare=prepare, timeout=60 + operations / 5)
