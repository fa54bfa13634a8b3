"""One rank process, from the inside: it settles in, joins the group, works, and goes. ``launch.py`` starts it."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import io
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

Task = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Orders:
    """What every rank of one start is told. parent: the process not to outlive. once: leave after the first task."""

    ranks: int
    backend: str
    timeout: float
    grace: float
    batch: bool
    prepare: Callable[[], object] | None
    parent: int
    once: bool


@dataclass(frozen=True)
class Result:
    """What the function returned."""

    value: Any


@dataclass(frozen=True)
class Failure:
    """How a rank failed. ``when`` is on the monotonic clock, which all processes of a machine share."""

    reason: str
    traceback: str
    when: float

    @classmethod
    def of(cls, error: BaseException, when: float) -> Failure:
        frames = error.__traceback__
        while frames and frames.tb_next and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next  # the reader looks for their own lines, not for ours
        text = "".join(traceback.format_exception(type(error), error, frames))
        return cls("".join(traceback.format_exception_only(error)).strip(), text, when)


def live(
    rank: int,
    orders: Orders,
    line: Connection,
    stacks: Connection,
    task: Task | None,
    inherited: Sequence[Connection],
) -> None:
    """The whole life of a rank process.

    Args:
        line: the parent's other end gives the store's port, then tasks (empty bytes: leave), and takes the outcomes.
        stacks: where to write the stack in a crash, or when told to terminate.
        task: what to do at the first word; None where the word is the task, pickled.
        inherited: the parent's ends that a fork has copied, to close.
    """
    for end in inherited:
        end.close()
    _die_with(orders.parent)
    _settle(orders, stacks)
    port = _next(line)
    if not port:
        return  # the parent gave up before we began
    done = _report(line, _join, rank, orders, int(port))
    while done and (order := _next(line)):
        done = _report(line, _perform, task or order)
        if done and orders.once:
            # the others may still be busy with us: keep the connections to them until they are done as well
            line.poll(orders.grace)
            break
    if not done:
        _leave(1)  # at once, so that our sockets close and the others notice
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    _leave(0)


def _leave(code: int) -> None:
    """End; Python would wait for the threads that the function has left running, perhaps for ever."""
    if all(thread.daemon or thread is threading.current_thread() for thread in threading.enumerate()):
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def start_group(backend: str, rank: int, ranks: int, local: int, timeout: float, store: Store | None) -> None:
    """Make the default group; with NCCL, bind the process to the device of its ``local`` number first.

    Args:
        store: where the ranks meet; None for MASTER_ADDR and MASTER_PORT of the environment.

    Raises:
        RuntimeError: NCCL without a CUDA device.
    """
    import torch
    import torch.distributed as dist

    device = None
    if "nccl" in backend:
        if not torch.cuda.is_available():
            raise RuntimeError(f"backend={backend!r} needs a CUDA device, and this process sees none: use 'gloo'")
        device = torch.device("cuda", local % torch.cuda.device_count())
        torch.cuda.set_device(device)
    limit = timedelta(seconds=timeout)
    dist.init_process_group(backend, timeout=limit, rank=rank, world_size=ranks, store=store, device_id=device)


def _join(rank: int, orders: Orders, port: int) -> None:
    """Set the process up and make the group."""
    # the names that torchrun uses, so that code written for torchrun finds its place
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": orders.ranks, "LOCAL_WORLD_SIZE": orders.ranks}
    os.environ |= {name: str(value) for name, value in place.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)  # one core a rank; and OpenMP's threads do not survive a fork
    if orders.prepare is not None:
        orders.prepare()
    # what has been imported stays for good: a collection that walked over it would take 0.1 s, and copy, after a fork,
    # the memory that the ranks share
    gc.freeze()
    limit = timedelta(seconds=orders.timeout)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=limit)  # type: ignore[attr-defined]
    start_group(orders.backend, rank, orders.ranks, rank, orders.timeout, store)


def _perform(task: Task | bytes) -> Any:
    function, args, kwargs = pickle.loads(task) if isinstance(task, bytes) else task
    try:
        return function(*args, **kwargs)
    except SystemExit as exit:
        if exit.code not in (None, 0):
            raise
        return None


def _report(line: Connection, action: Callable[..., Any], *args: Any) -> bool:
    """Do it, and tell the parent what came of it. Whether it went well."""
    try:
        line.send_bytes(dumps(Result(action(*args))))
    except BaseException as error:
        failure = Failure.of(error, time.monotonic())
        sys.last_value = error  # as the interpreter would, for whoever asks at exit why it ends
        with contextlib.suppress(OSError):  # a parent that has gone needs no report
            line.send_bytes(dumps(failure))
        return False
    return True


def _next(line: Connection) -> bytes:
    """The parent's next word; empty when there will be none."""
    try:
        return line.recv_bytes()
    except (EOFError, OSError):
        return b""


def _settle(orders: Orders, stacks: Connection) -> None:
    """Nothing of the parent's may act in the rank: no signal handler, no thread pool, no scheduling class."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # a rank that crashes, or is told to terminate while it hangs, says where it stood, even from inside a C++ wait
    if hasattr(faulthandler, "register"):  # not on Windows
        faulthandler.enable(stacks.fileno())
        faulthandler.register(signal.SIGTERM, file=stacks.fileno(), all_threads=False, chain=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    # gloo looks for its address by the host's name, which may not resolve, or slowly; all ranks are on this host
    if loopback := {"linux": "lo", "darwin": "lo0"}.get(sys.platform):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    if orders.batch and hasattr(os, "sched_setscheduler"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _die_with(parent: int) -> None:
    """End this process when its parent ends, however that happens."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we had asked
            os._exit(1)
        return
    process = parent_process()
    if process is not None:
        sentinel = process.sentinel

        def watch() -> None:
            wait([sentinel])
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


class _Pickler(pickle.Pickler):
    """Tensors on a device leave as CPU tensors: the parent never touches CUDA."""

    def reducer_override(self, value: object) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta"):
            return value.cpu().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def dumps(value: object) -> bytes:
    """Plain pickle. Not ``Connection.send``, whose tensors would lie in memory that ends with their rank."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()
