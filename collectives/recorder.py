"""Run bare ``dist.send`` and ``dist.recv`` code on real ranks, and write down what it does: a hang explains itself.

``record`` starts the ranks, ``explain`` says what went wrong in one sentence::

    recording = record(main, 2, "logs", timeout=10)
    print(explain(recording.log) or recording.results)

Under torchrun: call ``register()``, set COLLECTIVES_RECORD to a directory, and use the backend ``recording``.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed import ProcessGroup

from .explanation import explain
from .launch import RankFailed, RankTimeout, run
from .log import Journal, Log, Operation, as_line, read_log

if TYPE_CHECKING:
    from torch import Tensor
    from torch._C._distributed_c10d import Work, _DistributedBackendOptions
else:
    from torch.distributed import Work

__all__ = ["Log", "Operation", "Recording", "RecordingGroup", "explain", "read_log", "record", "register"]

BACKEND = "recording"
DIRECTORY = "COLLECTIVES_RECORD"  # of the environment
_TORCH = os.path.dirname(os.path.dirname(dist.__file__)) + os.sep


@dataclass(frozen=True)
class Recording:
    """What ``record`` brings back: ``results`` in rank order, or the ``failure``; and the ``log`` in either case."""

    results: list[Any] | None
    failure: RankFailed | RankTimeout | None
    log: Log


def record(
    function: Callable[..., Any],
    ranks: int,
    directory: str | Path,
    *args: Any,
    timeout: float = 10.0,
    grace: float = 1.0,
    **kwargs: Any,
) -> Recording:
    """Run ``function(*args, **kwargs)`` on ``ranks`` processes whose every send and receive is logged in ``directory``.

    A rank that fails, hangs or dies is no error here: it is what the recording is for.

    Args:
        directory: made if need be; an older record in it is deleted.
        timeout, grace: as for :func:`launch.run`. Once a rank has returned, the ranks that still wait for it fail after
            ``grace`` seconds.

    Raises:
        ValueError: a number of ranks that makes no sense.
    """
    directory = Path(directory).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("rank*.jsonl"):
        old.unlink()
    prepare = functools.partial(_prepare, str(directory))
    results, failure = None, None
    try:
        results = run(
            _play, ranks, function, args, kwargs, backend=BACKEND, timeout=timeout, grace=grace, prepare=prepare
        )
    except (RankFailed, RankTimeout) as error:
        failure = error
        _note_ends(directory, ranks, error)
    return Recording(results, failure, read_log(directory))


def register() -> None:
    """Make the backend ``recording`` known to torch.distributed in this process; more than once is fine."""
    if BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])


class RecordingGroup(ProcessGroup):
    """A gloo group that logs every operation before it starts, when it is waited for, and when it is over.

    Unlike gloo it refuses, with a ValueError, ranks that do not exist (gloo would crash), and raises where a second
    wait() would hang. It keeps tensors and works alive until they are waited for, so a dropped work is reported instead
    of losing its message.
    """

    def __init__(self, options: _DistributedBackendOptions, path: Path) -> None:
        # the form without a store is the one that torch 2.13 can make from a subclass, whatever its types say
        super().__init__(options.group_rank, options.group_size)  # type: ignore[call-arg]
        rank, size = options.group_rank, options.group_size
        self._ranks: list[int] = list(options.global_ranks_in_group) or list(range(size))
        self._me = self._ranks[rank]
        self._id = str(options.group_id)
        self._names = {"name": self._id, "desc": ""}
        default = dist.group.WORLD
        # one journal a process: a subgroup writes into that of the default group
        known = default._journal if isinstance(default, RecordingGroup) else None
        self._journal: Journal = known or Journal(path, self._me)
        self._inner: Any = dist.ProcessGroupGloo(options.store, rank, size, timeout=options.timeout)

    def send(self, tensors: list[Tensor], dst: int, tag: int = 0) -> Work:
        return self._message("send", tensors, dst, tag, lambda: self._inner.send(tensors, dst, tag))

    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> Work:
        return self._message("recv", tensors, src, tag, lambda: self._inner.recv(tensors, src, tag))

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Work:
        return self._message("recv", tensors, None, tag, lambda: self._inner.recv_anysource(tensors, tag))

    def finish(self, state: str = "returned", error: str = "") -> None:
        """Log that the rank has come to its end, and what it has never waited for."""
        self._journal.finish(state, error)

    def shutdown(self) -> None:
        self.finish()
        self._journal.works.clear()
        self._inner.shutdown()

    def abort(self) -> None:
        self._inner.abort()

    def getBackendName(self) -> str:
        return BACKEND

    def setGroupName(self, name: str) -> None:
        self._names["name"] = name

    def getGroupName(self) -> str:
        return self._names["name"]

    def setGroupDesc(self, text: str) -> None:
        self._names["desc"] = text

    def getGroupDesc(self) -> str:
        return self._names["desc"]

    def _message(self, op: str, tensors: list[Tensor], peer: int | None, tag: int, post: Callable[[], Work]) -> Work:
        known = peer is None or 0 <= peer < len(self._ranks)
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        other = self._ranks[peer] if peer is not None and known else peer
        entry = self._entry(op, peer=other, bytes=total, tag=tag)
        argument = "dst" if op == "send" else "src"
        wrong = None
        if not known:
            wrong = f"{argument}={peer}: ranks are 0 to {len(self._ranks) - 1}; take it modulo the number of ranks"
        elif entry.peer == self._me:
            wrong = f"{argument}={peer} is this rank itself: copy the tensor instead"
        elif tag < 0:
            wrong = f"tag={tag}: a tag is at least 0"
        if wrong:
            self._journal.write(entry, "refused", wrong)
            raise ValueError(f"dist.{entry.call} at {entry.where}: {wrong}")
        return self._post(entry, post, tensors)

    def _entry(self, op: str, **fields: Any) -> Operation:
        call, where = _caller()
        blocking = call in ("send", "recv")
        return self._journal.entry(op, group=self._id, call=call, where=where, blocking=blocking, **fields)

    def _post(self, entry: Operation, post: Callable[[], Work], tensors: object) -> Work:
        self._journal.write(entry, "posted")  # first: gloo may take the process down
        try:
            inner = post()
        except Exception as error:
            self._journal.write(entry, "refused", str(error))
            raise
        work = _RecordedWork(self, entry, inner)
        self._journal.works[entry.seq] = entry, (work, tensors)
        return work

    def _wait(self, work: _RecordedWork, timeout: timedelta) -> bool:
        entry = work.entry
        if entry.state != "posted":
            raise RuntimeError(f"wait() was called a second time on {entry}: gloo would hang; call it once")
        self._journal.write(entry, "waiting")
        try:
            done = work.inner.wait(timeout) if timeout else work.inner.wait()
        except Exception as error:
            self._journal.write(entry, "failed", str(error))
            raise
        if entry.op == "recv" and entry.peer is None:
            entry.peer = self._ranks[work.inner._source_rank()]
        self._journal.write(entry, "done")
        self._journal.works.pop(entry.seq, None)
        return done


class _RecordedWork(Work):
    def __init__(self, group: RecordingGroup, entry: Operation, inner: Work) -> None:
        super().__init__()
        self.entry, self.inner = entry, inner
        self._group = group

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return self._group._wait(self, timeout)

    def is_completed(self) -> bool:
        return self.inner.is_completed()

    def _source_rank(self) -> int:
        return self.inner._source_rank()

    source_rank = _source_rank


def _caller() -> tuple[str, str]:
    """The function of torch.distributed that was called, and the line that called it."""
    frame, call = sys._getframe(1), ""
    while frame.f_back is not None:
        path = frame.f_code.co_filename
        if path.startswith(_TORCH):
            if os.path.basename(path) == "distributed_c10d.py":
                call = frame.f_code.co_name
        elif path != __file__:
            break
        frame = frame.f_back
    return call, f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _delegate(name: str) -> Callable[..., Work]:
    """A collective, run by gloo: logged as one operation without a peer."""

    def call(self: RecordingGroup, *args: Any, **kwargs: Any) -> Work:
        entry = self._entry(name.removeprefix("_"))
        return self._post(entry, lambda: getattr(self._inner, name)(*args, **kwargs), args)

    return call


# what torch calls on a group → what gloo calls it
_NAMES = {
    name: name for name in ("allgather", "allreduce", "allreduce_coalesced", "alltoall", "alltoall_base", "barrier")
}
_NAMES |= {name: name for name in ("broadcast", "gather", "reduce", "reduce_scatter", "scatter", "_allgather_base")}
_NAMES |= {"_reduce_scatter_base": "_reduce_scatter_base", "reduce_scatter_single": "_reduce_scatter_base"}  # from 2.13
_NAMES |= {"all_gather_single": "_allgather_base", "all_to_all_single": "alltoall_base"}
for _ours, _gloo in _NAMES.items():
    setattr(RecordingGroup, _ours, _delegate(_gloo))


def _create(options: _DistributedBackendOptions, _: object) -> RecordingGroup:
    return RecordingGroup(options, Path(os.environ.get(DIRECTORY, ".")))


def _prepare(directory: str) -> None:
    os.environ[DIRECTORY] = directory
    register()


def _play(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In a rank: the function, and a note of how it ended."""
    group = dist.group.WORLD
    state, error = "returned", ""
    try:
        return function(*args, **kwargs)
    except BaseException as caught:
        state, error = "raised", f"{type(caught).__name__}: {caught}"
        raise
    finally:
        if isinstance(group, RecordingGroup):
            group.finish(state, error)


def _note_ends(directory: Path, ranks: int, failure: RankFailed | RankTimeout) -> None:
    """In the parent: how the ranks ended that could not say so themselves."""
    for rank in range(ranks):
        path = directory / f"rank{rank}.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if '"op": "end"' in text:
            continue
        died = isinstance(failure, RankFailed) and failure.rank == rank
        reason = failure.reason if isinstance(failure, RankFailed) and died else "it was still running at the end"
        entry = Operation(rank, 1 << 30, "end", "died" if died else "stopped", time=time.time(), error=reason)
        with path.open("a", encoding="utf-8") as file:  # a line that was cut short stays alone
            file.write(("\n" if text and not text.endswith("\n") else "") + as_line(entry))
