"""Start rank processes: once (``run``), kept warm (``Pool``), or join those that a launcher has started (``join``).

A command that needs ranks works in every place with::

    if launch.launched():
        with launch.join() as (rank, size):
            main()
    else:
        launch.run(main, 4)

What happens in the parent is in ``crew.py``, what happens in a rank in ``worker.py``.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

from .crew import Crew, RankFailed, RankTimeout, Start
from .launcher import place_of
from .roll_call import Facts, call_roll, check_roll
from .worker import Orders, dumps, start_group

__all__ = ["Pool", "RankFailed", "RankTimeout", "join", "launched", "run"]

T = TypeVar("T")


def run(
    function: Callable[..., T],
    ranks: int,
    *args: Any,
    start: Start | None = None,
    backend: str = "gloo",
    timeout: float = 300.0,
    grace: float = 2.0,
    batch: bool = False,
    prepare: Callable[[], object] | None = None,
    hopeless: Callable[[], bool] | None = None,
    **kwargs: Any,
) -> list[T]:
    """Run ``function(*args, **kwargs)`` on ``ranks`` processes that form a group; the results in rank order.

    Inside, the default process group is ready (``dist.get_rank()`` tells who one is), the environment is that of
    torchrun, and torch has one thread. Tensors come back on the CPU. Fork from one thread of yours at a time.

    Args:
        start: ``fork`` (0.1 s; anything can be run) is the default on Linux unless CUDA or a process group is in use
            here; ``spawn`` (seconds) elsewhere, for a function that can be imported by name.
        timeout: seconds for everything, the start included.
        grace: seconds that the others have to end by themselves after the first failure.
        batch: ask for SCHED_BATCH, where there is such a thing: steadier times on an idle machine with few cores.
        prepare: called in each rank before the group is made, for instance to register a backend.
        hopeless: asked here four times a second; once it says so, the ranks' time is up.

    Raises:
        RankFailed: a rank failed; the others have been ended.
        RankTimeout: a TimeoutError that names the ranks that had not ended.
        ValueError: a number of ranks or a way to start that makes no sense.
    """
    orders = Orders(ranks, backend, timeout, grace, batch, prepare, os.getpid(), once=True)
    crew = Crew(orders, start, (function, args, kwargs), hopeless)
    try:
        return cast("list[T]", crew.finish())
    finally:
        crew.end(0)


class Pool:
    """Ranks that stay: one process group, alive between calls; a call takes milliseconds.

    Ranks keep whatever a function leaves behind (seeds, default types). Make the pool in a thread that outlives it: on
    Linux the ranks die with that thread.

    Args and errors: as for :func:`run`; ``timeout`` is for each call.

    Attributes:
        pids: the process of each rank, ``pids[rank]``.
        broken: a call has failed; the ranks have been ended.
    """

    def __init__(
        self,
        ranks: int,
        backend: str = "gloo",
        start: Start | None = None,
        timeout: float = 300.0,
        grace: float = 2.0,
        batch: bool = False,
        prepare: Callable[[], object] | None = None,
    ) -> None:
        self.broken = self._closed = False
        self._grace = grace
        orders = Orders(ranks, backend, timeout, grace, batch, prepare, os.getpid(), once=False)
        self._crew = Crew(orders, start, None)
        self.pids: list[int] = self.run(os.getpid)

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> list[T]:
        """``function(*args, **kwargs)`` on every rank, results in rank order. One call at a time.

        The function travels by name, also to forked ranks: its module must have been imported when the pool was made,
        or be importable there.

        Raises:
            RankFailed, RankTimeout: as for :func:`launch.run`. The pool is then ``broken`` and closed.
            RuntimeError: the pool is closed.
        """
        if self._closed:
            raise RuntimeError(f"the pool is {'broken by a failure' if self.broken else 'closed'}: make a new one")
        task = dumps((function, args, kwargs))
        try:
            return cast("list[T]", self._crew.work(task))
        except BaseException:
            self.broken = True
            self._close(0)
            raise

    def close(self) -> None:
        """End the ranks; more than once is fine."""
        self._close(self._grace)

    def _close(self, patience: float) -> None:
        if not self._closed:
            self._closed = True
            self._crew.end(patience)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._close(self._grace if kind is None else 0)


def launched() -> bool:
    """Whether this process already is a rank: of torchrun, srun, mpirun, or of ``run``.

    Raises:
        ValueError: a launcher's variables that cannot be read.
    """
    return place_of(os.environ) is not None


@contextlib.contextmanager
def join(backend: str = "gloo", timeout: float = 300.0) -> Iterator[tuple[int, int]]:
    """Make the default group of a process that is ``launched``, yield (rank, size), and destroy it.

    The environment becomes that of torchrun, whoever has launched. With NCCL the process is bound to the device of its
    local rank. A default group that exists already is used, and stays.

    Raises:
        RuntimeError: this process is no rank.
        ValueError: the ranks do not meet, or cannot work together (``roll_call.check_roll``). No group has been made.
    """
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    if dist.is_initialized():
        yield dist.get_rank(), dist.get_world_size()
        return
    place = place_of(os.environ)
    if place is None:
        raise RuntimeError("this process is no rank (no RANK, WORLD_SIZE and MASTER_ADDR): use torchrun, or launch.run")
    os.environ |= place.variables()
    limit = timedelta(seconds=timeout)
    try:
        store, _, _ = next(iter(rendezvous("env://", timeout=limit)))
    except dist.DistError as error:
        said = str(error).splitlines()[0]
        raise ValueError(
            f"rank {place.rank} of {place.size} did not meet the others at {place.address}, port {place.port}, within "
            f"{timeout:g} s ({said}): have all ranks started, and does every host reach that one? MASTER_ADDR and "
            "MASTER_PORT say otherwise, --timeout gives them longer"
        ) from error
    facts = _facts(place.local, "nccl" in backend)
    check_roll(call_roll(store, place.rank, place.size, facts, timeout))
    start_group(backend, place.rank, place.size, place.local, timeout, store)
    try:
        yield place.rank, place.size
    finally:
        dist.destroy_process_group()


def _facts(local: int, on_gpus: bool) -> Facts:
    """Of this rank, which is number ``local`` on its host."""
    import torch

    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    gpus = torch.cuda.device_count() if on_gpus else 0
    if not gpus:
        return Facts(socket.gethostname(), boot, str(torch.__version__))
    uuid = str(torch.cuda.get_device_properties(local % gpus).uuid)
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return Facts(socket.gethostname(), boot, str(torch.__version__), uuid, gpus, nccl)
