"""``algorithm="auto"``: walk the candidates with the cost model, take the cheapest.

The pick is a pure function of operation, bytes, world and machine. The machine is rank 0's, agreed once per group, so
that ranks never differ.

    on NCCL     small         direct: one group to launch, every peer at once
                large         a ring in two channels: one is reduced while the other travels
    over nodes  large         hierarchical: each rank's share crosses by the rank's own NIC, once. One flat ring never:
                              all of it would cross by a single NIC
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import groupby
from math import gcd
from typing import TYPE_CHECKING

from . import failure
from .bench.machine_text import nics
from .contract import contract_of
from .cost import LOOPBACK, Machine, is_alike, predict
from .executor import Progress, StepFailure
from .registry import find

if TYPE_CHECKING:
    import torch.distributed as dist

    from .communicator import Communicator
    from .schedule import Schedule

# What is worth comparing; of those that cost the same the first wins. The rest can be asked for by name.
CANDIDATES: dict[str, tuple[str, ...]] = {
    "all_reduce": ("ring", "recursive_doubling", "halving_doubling", "direct"),
    "reduce": ("binomial", "chain:chunks=4", "chain:chunks=16"),
    "broadcast": ("binomial", "chain:chunks=4", "chain:chunks=16"),
    "all_gather": ("ring", "direct", "bruck"),
    "reduce_scatter": ("ring", "halving_doubling", "direct"),
    "gather": ("direct", "binomial"),
    "scatter": ("direct", "binomial"),
    "all_to_all": ("direct",),  # only the two ends of a message know whether blocks are uneven
    "barrier": ("dissemination",),
}
# The same where the host launches groups, and where there are nodes.
ON_GPUS: dict[str, tuple[str, ...]] = {
    "all_reduce": ("ring:channels=2", "ring", "direct"),
    "all_gather": ("ring", "direct"),
    "reduce_scatter": ("ring:channels=2", "ring", "direct"),
}
OVER_NODES = ("hierarchical:local={local},channels=2", "hierarchical:local={local}", "direct")
LARGEST_WALK = 1 << 16  # messages; a candidate with more is not walked but left out
_TICK = 0.25  # seconds between two looks whether rank 0 is still there
TIE = 0.05  # the model is no better than this
# A ring on CPUs takes its large chunks in segments, so that what has arrived is still in the cache when it is added.
# The model knows nothing of caches; measured, this is worth up to a fifth.
SEGMENT = 1 << 20
MOST_CHANNELS = 16

# Orders of magnitude of NVLink and NCCL, good to tell small from large; a step from Python takes tens of microseconds.
GPU = Machine(alpha=8e-6, beta=1 / 200e9, gamma=1 / 1.2e12, base=10e-6, overhead=6e-6, launch=60e-6)
FAR_ALPHA, FAR_BETA = 15e-6, 1 / 25e9  # of a NIC with 200 Gbit/s
REPLAYED = 2e-6  # from one group to the next in a CUDA graph


def machine_here(backend: str, local_ranks: int, size: int) -> Machine:
    """What this rank believes of the machine: constants of the transport, and the cores or NICs that its ranks share.

    Args:
        local_ranks: of the group, on one host, one host after the other.
    """
    if backend == "nccl":
        if size == local_ranks or size % local_ranks:
            return GPU
        shared = min(local_ranks, len(nics()) or 1)
        return replace(GPU, local=local_ranks, nics=shared, far_alpha=FAR_ALPHA, far_beta=FAR_BETA)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    hosts = max(1, size // max(1, local_ranks))
    return replace(LOOPBACK, cores=cores * hosts)


def candidates(collective: str, size: int, machine: Machine) -> tuple[str, ...]:
    """What is worth comparing on that machine; of those that cost the same the first wins."""
    if not machine.launch or collective not in ON_GPUS:
        return CANDIDATES[collective]
    if machine.nodes(size) == 1:
        return ON_GPUS[collective]
    return tuple(name.format(local=machine.local) for name in OVER_NODES)


@lru_cache(maxsize=4096)
def _cheapest(collective: str, magnitude: int, size: int, machine: Machine) -> str:
    """The cheapest candidate for 2**(magnitude - 1/2) bytes (the middle of a doubling)."""
    nbytes = 2 ** (magnitude - 0.5) if magnitude else 0.0
    compared = candidates(collective, size, machine)
    compared = tuple(name for name in compared if _is_walkable(find(collective, name), size, machine)) or compared[:1]
    seconds = {name: predict(find(collective, name), size, nbytes, machine) for name in compared}
    best = next(name for name in compared if seconds[name] <= (1 + TIE) * min(seconds.values()))
    if best == "ring" and machine.cores and contract_of(collective).reduces:
        channels = 1 << max(0, int(nbytes / size / SEGMENT).bit_length() - 1)
        return best if channels == 1 else f"ring:channels={min(channels, MOST_CHANNELS)}"
    return best


def _is_walkable(schedule: Schedule, size: int, machine: Machine) -> bool:
    return is_alike(schedule, size, machine) or size * size * schedule.channels <= LARGEST_WALK


def pick(collective: str, nbytes: int, size: int, machine: Machine) -> str:
    """The algorithm for ``nbytes`` (the whole buffer) on ``size`` ranks of ``machine``; the same for all ranks."""
    return _cheapest(collective, int(nbytes).bit_length(), size, machine)


class Picker:
    """One group's picks, on the machine of its rank 0.

    Rank 0 leaves word of it in the group's store when it begins to use the group, and the others read it when they
    first need it; nobody waits for all.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._key = f"collectives/machine/{communicator.number}"
        self._machine: Machine | None = None
        if communicator.rank == 0:
            self._machine = machine_here(communicator.backend, _local_ranks(communicator), communicator.size)
            if communicator.size > 1:
                communicator.link.store.set(self._key, json.dumps(asdict(self._machine)))

    def machine(self, communicator: Communicator, timeout: float) -> Machine:
        """Rank 0's machine.

        Raises:
            StepFailure: rank 0 has not used the group within ``timeout`` seconds, or is gone.
        """
        if self._machine is None:
            store, progress = communicator.link.store, Progress(time.monotonic(), 0, "hear from", 0)
            until, look = progress.began + timeout, progress.began + _TICK
            while not store.check([self._key]):
                now = time.monotonic()
                gone = now > look and 0 in failure.closed_peers(communicator)
                if gone or now > until:
                    raise StepFailure(progress, RuntimeError("connection closed by peer" if gone else "timed out"))
                look = look if now < look else now + _TICK
                time.sleep(0.002)
            self._machine = Machine(**json.loads(store.get(self._key)))
        return self._machine

    def pick(self, communicator: Communicator, collective: str, nbytes: int, timeout: float) -> str:
        machine = self.machine(communicator, timeout)
        if machine.launch and communicator.graphs.wanted:
            machine = replace(machine, launch=REPLAYED)
        return pick(collective, nbytes, communicator.size, machine)


def _local_ranks(communicator: Communicator) -> int:
    """How many ranks of a group stand on one host, one host after the other; 1 where their numbers are mixed."""
    import torch.distributed as dist

    each = int(os.environ.get("LOCAL_WORLD_SIZE", communicator.size))
    try:
        ranks = dist.get_process_group_ranks(communicator.group)
    except (ValueError, KeyError, RuntimeError):  # it is being made
        ranks = list(range(communicator.size))
    return gcd(*(len(list(run)) for _, run in groupby(rank // each for rank in ranks)))


def choose(collective: str, nbytes: int, group: dist.ProcessGroup | None = None) -> str:
    """What ``algorithm="auto"`` picks for a buffer of ``nbytes`` on ``group``.

    The answer is the same on all members, as it depends on the machine of the group's rank 0 alone; a rank that asks
    first waits until rank 0 uses the group.

    Raises:
        ValueError: an unknown collective, or a negative size.
    """
    from .communicator import communicator

    contract_of(collective)
    if nbytes < 0:
        raise ValueError(f"nbytes={nbytes}: a buffer has at least 0 bytes")
    c = communicator(group)
    return c.pick(collective, nbytes, c.timeout, lambda: f"choose for {collective}")
