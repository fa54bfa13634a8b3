"""What commands that need ranks have in common: which backend fits, and how to launch them elsewhere."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from .launch_line import launch_line, note
from .launcher import Place

T = TypeVar("T")


def backend_for(wanted: str | None, local_ranks: int, place: Place | None) -> str:
    """The backend asked for, or the one that fits; CUDA is not initialised here.

    Args:
        local_ranks: on this host. place: where a launcher has put this process, if one has.

    Raises:
        ValueError: the backend needs what is not here.
    """
    if wanted == "gloo":
        return wanted
    import torch
    import torch.distributed as dist

    gpus = torch.cuda.device_count() if dist.is_nccl_available() else 0
    if place is not None and gpus and "SLURM_GPUS_PER_TASK" in os.environ:
        return "nccl"  # every rank sees its own only
    if gpus >= local_ranks:
        return "nccl"
    if wanted == "nccl":
        raise ValueError(
            f"--backend nccl: each rank needs a GPU; ranks on this host: {local_ranks}, GPUs that torch sees: {gpus}; "
            "use --backend gloo, or fewer ranks"
        )
    return "gloo"


def check_nccl(asked: str, needed: tuple[int, ...], instead: str) -> None:
    """Refuse what the NCCL that torch has brought is too old for.

    Raises:
        ValueError: ``asked`` needs NCCL from ``needed`` on; ``instead`` is what can be done without.
    """
    import torch

    found = torch.cuda.nccl.version()
    if tuple(found) < needed:
        said, wanted = (".".join(map(str, version)) for version in (found, needed))
        raise ValueError(f"{asked}: it needs NCCL {wanted}, torch has {said}; install a newer torch, or {instead}")


def usual_ranks() -> int:
    """How many ranks to start if nobody says: one a GPU where there are several, else 4."""
    import torch

    gpus = torch.cuda.device_count()
    return gpus if gpus > 1 else 4


class NotStarted(Exception):
    """The ranks have not done their work; the message says why. status: what the command should end with."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def on_ranks(
    function: Callable[..., T],
    *args: object,
    ranks: int,
    backend: str,
    place: Place | None,
    timeout: float,
    batch: bool = False,
) -> T:
    """What ``function(*args)`` returns on this rank of those that have been launched, else on rank 0 of new ones.

    Args:
        place: where a launcher has put this process, if one has. timeout, batch: as for ``launch.run``.

    Raises:
        NotStarted: a rank failed, time was up, or launched ranks cannot work together.
    """
    from . import launch

    if place is None:
        try:
            return launch.run(function, ranks, *args, backend=backend, timeout=timeout, batch=batch)[0]
        except (launch.RankFailed, launch.RankTimeout) as error:
            hint = "; raise --timeout if that is too short" if isinstance(error, launch.RankTimeout) else ""
            raise NotStarted(f"{error}{hint}", 1) from error
    if batch:
        with contextlib.suppress(OSError):  # before torch, whose threads inherit it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(launch.join(backend, timeout))
        except ValueError as error:
            raise NotStarted(str(error), 2) from error
        return function(*args)


def print_launch(launcher: str, module: Sequence[str], nodes: int, ranks: int | None) -> None:
    """Print the line that starts the command that is running, as it was given, on several nodes.

    Args:
        ranks: of all nodes together; None for a rank on each GPU that nodes like this one have.

    Raises:
        ValueError: the ranks cannot be shared equally by the nodes, or nobody says how many there are to be.
    """
    if ranks is None:
        import torch

        each = torch.cuda.device_count()
        if not each:
            raise ValueError(f"--print-launch {launcher}: there are no GPUs here to count; say --ranks N, of all nodes")
        ranks = nodes * each
    argv = sys.argv[sys.argv.index(module[-1]) + 1 :] if module[-1] in sys.argv else []
    print(launch_line(launcher, module, argv, nodes, ranks, socket.gethostname()))
    print(f"# {note(launcher, nodes)}", file=sys.stderr)
