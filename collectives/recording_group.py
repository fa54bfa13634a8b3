"""The process group that writes down every send and receive, and hands it on to gloo."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from .log import Journal, Operation
from .sentence import Sentence

if TYPE_CHECKING:
    from torch import Tensor
    from torch._C._distributed_c10d import Work, _DistributedBackendOptions
else:
    from torch.distributed import Work

BACKEND = "recording"
DIRECTORY = "COLLECTIVES_RECORD"  # of the environment
_POLLED = 2.0  # seconds: who asks is_completed() for so long asks for ever
_TORCH = os.path.dirname(os.path.dirname(dist.__file__)) + os.sep


class RecordingGroup(ProcessGroup):
    """A gloo group that logs every operation before it starts, when it is waited for, and when it is over.

    Unlike gloo it refuses, with a ValueError, ranks that do not exist (gloo would crash), and raises where a second
    wait(), or is_completed() in a loop, would hang: only wait() completes a message of gloo. It keeps tensors and works
    alive until they are waited for, so a dropped work is reported instead of losing its message.
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
        connect = functools.partial(dist.ProcessGroupGloo, options.store, rank, size, timeout=options.timeout)
        self._inner: Any = self._meet(connect) if known else connect()

    @classmethod
    def of(cls, options: _DistributedBackendOptions, _: object) -> RecordingGroup:
        """What the backend makes of its options; the record goes where the environment says."""
        return cls(options, Path(os.environ.get(DIRECTORY, ".")))

    def send(self, tensors: list[Tensor], dst: int, tag: int = 0) -> Work:
        return self._message("send", tensors, dst, tag, lambda: self._inner.send(tensors, dst, tag))

    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> Work:
        return self._message("recv", tensors, src, tag, lambda: self._inner.recv(tensors, src, tag))

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Work:
        return self._message("recv", tensors, None, tag, lambda: self._inner.recv_anysource(tensors, tag))

    @property
    def count(self) -> int:
        """How many operations this process has begun."""
        return self._journal.count

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
        entry = self._entry(op, peer=other, bytes=total, tag=tag, memory=_span(tensors))
        argument = "dst" if op == "send" else "src"
        wrong = None
        if not known:
            wrong = Sentence(
                "recorder.no_such_rank",
                "{argument}={peer}: ranks are 0 to {last}; take it modulo the number of ranks",
                argument=argument,
                peer=peer,
                last=len(self._ranks) - 1,
            )
        elif entry.peer == self._me:
            wrong = Sentence(
                "recorder.itself",
                "{argument}={peer} is this rank itself: copy the tensor instead",
                argument=argument,
                peer=peer,
            )
        elif tag < 0:
            wrong = Sentence("recorder.negative_tag", "tag={tag}: a tag is at least 0", tag=tag)
        if wrong:
            self._journal.write(entry, "refused", wrong)
            raise ValueError(
                Sentence(
                    "recorder.refused",
                    "dist.{call} at {where}: {reason}",
                    call=entry.call,
                    where=entry.where,
                    reason=wrong,
                    rank=self._me,
                )
            )
        return self._post(entry, post, tensors)

    def _meet(self, connect: Callable[[], Any]) -> Any:
        """The members of a subgroup come together: who is missing keeps the others waiting, as in a collective."""
        entry = self._entry("new_group", members=tuple(self._ranks))
        self._journal.write(entry, "posted")
        self._journal.write(entry, "waiting")
        try:
            inner = connect()
        except Exception as error:
            self._journal.write(entry, "failed", str(error))
            raise
        self._journal.write(entry, "done")
        return inner

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
            raise RuntimeError(
                Sentence(
                    "recorder.waited_twice",
                    "wait() was called a second time on {operation}: gloo would hang; call it once",
                    operation=entry.sentence,
                    rank=self._me,
                )
            )
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
        work.let_go()
        return done


class _RecordedWork(Work):
    def __init__(self, group: RecordingGroup, entry: Operation, inner: Work) -> None:
        super().__init__()
        self.entry = entry
        self._inner: Work | None = inner
        self._source = -1
        self._group = group
        self._completed = False  # is_completed() has said so: it then counts as waited for
        self._asked: float | None = None  # since when is_completed() has said no

    @property
    def inner(self) -> Work:
        assert self._inner is not None  # who waits a second time has been refused
        return self._inner

    def let_go(self) -> None:
        """It is over: the tensors need not live as long as whoever keeps the work."""
        if self.entry.op == "recv":
            self._source = self.inner._source_rank()
        self._inner = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return self._completed or self._group._wait(self, timeout)

    def is_completed(self) -> bool:
        if self._inner is None:
            return True
        if self._inner.is_completed():
            self._completed = self._group._wait(self, timedelta(0))
            return True
        now = time.monotonic()
        self._asked = self._asked or now
        if now - self._asked > _POLLED:
            raise RuntimeError(
                Sentence(
                    "recorder.polled",
                    "is_completed() is asked again and again of {operation}: with gloo it stays False until wait() has "
                    "been called; call wait()",
                    operation=self.entry.sentence,
                    rank=self._group._me,
                )
            )
        return False

    def _source_rank(self) -> int:
        return self._source if self._inner is None else self._inner._source_rank()

    source_rank = _source_rank


def _whole(arguments: object) -> int:
    """The bytes of a collective's whole buffer, which is the largest of its arguments: one tensor, or lists of them."""
    if isinstance(arguments, torch.Tensor):
        return arguments.numel() * arguments.element_size()
    if isinstance(arguments, tuple):
        return max(map(_whole, arguments), default=0)
    return sum(map(_whole, arguments)) if isinstance(arguments, list) else 0


def _span(tensors: list[Tensor]) -> tuple[int, int]:
    """From the address of the first byte of any of the tensors to behind the last; (0, 0) if they have none."""
    spans = []
    for tensor in tensors:
        if tensor.numel():
            reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
            spans.append((tensor.data_ptr(), tensor.data_ptr() + (reach + 1) * tensor.element_size()))
    return min((first for first, _ in spans), default=0), max((last for _, last in spans), default=0)


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
        entry = self._entry(name.removeprefix("_"), members=tuple(self._ranks), bytes=_whole(args))
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
