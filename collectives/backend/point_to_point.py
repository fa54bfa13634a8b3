"""Send and receive of the backend: what the transport does, with errors that name the rank, and no message lost."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import failure, flight
from ..arguments import check_tensor, describe
from ..call import Description
from ..communicator import INLINE_BYTES, Communicator
from ..errors import CollectiveError
from ..executor import OURS, SPREAD, Progress, StepFailure
from ..flight.entry import Entry
from ..supervision import TICK
from ..work import Outcome, perform
from .eager import eager
from .works import Kept

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work
else:
    from torch.distributed import Work


class PointToPoint:
    """Messages between two ranks of the group, with tags below 2³⁰.

    Raises:
        ValueError: a rank that does not exist or is this one, or another tag; nothing has been sent.
        CollectiveError: the group is broken.
    """

    _kept: Kept

    def _communicator(self, device: torch.device) -> Communicator:
        raise NotImplementedError

    def _wire(self, communicator: Communicator, up: bool) -> Any:
        """What moves messages to higher (``up``) or to lower ranks."""
        raise NotImplementedError

    @eager
    def send(self, tensors: list[Tensor], dst: int, tag: int = 0) -> Work:
        message = self._message("send to", tensors, dst, tag)
        wire = self._wire(message.communicator, message.communicator.rank < dst)
        return message.start(wire.send([message.moved], dst, message.tag), self._kept)

    @eager
    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> Work:
        message = self._message("receive from", tensors, src, tag)
        wire = self._wire(message.communicator, src < message.communicator.rank)
        return message.start(wire.recv([message.moved], src, message.tag), self._kept)

    @eager
    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Work:
        message = self._message("receive from", tensors, None, tag)
        wire = self._wire(message.communicator, True)
        return message.start(wire.recv_anysource([message.moved], message.tag), self._kept)

    def _message(self, verb: str, tensors: list[Tensor], peer: int | None, tag: int) -> MessageWork:
        (tensor,) = tensors
        communicator = self._communicator(tensor.device)
        check_tensor("tensor", tensor, communicator)
        if peer == communicator.rank:
            raise ValueError(f"{verb} rank {peer}: it is this rank itself; copy the tensor instead")
        if peer is not None and not 0 <= peer < communicator.size:
            raise ValueError(f"{verb} rank {peer}: the group's ranks are 0 to {communicator.size - 1}")
        if not 0 <= tag < OURS:
            raise ValueError(f"tag={tag}: give one from 0 to {OURS - 1}")
        message = MessageWork(communicator, verb, tensor.detach(), peer, tag)
        communicator.raise_if_broken(message.describe)
        record = flight.current()
        if record is not None and peer is not None:
            op = "send" if verb == "send to" else "recv"
            message.entry = record.enter(communicator, Description.of(op, tensor), tensor.nbytes, peer)
        return message


class MessageWork(Work):
    """One message under way.

    Args:
        peer: the other rank; None for a message from any.

    entry: of the flight record, if one is kept.
    The length is part of the ``tag`` that the transport gets: messages of different lengths never meet, so they time
    out. gloo would end the process.
    """

    def __init__(self, communicator: Communicator, verb: str, tensor: Tensor, peer: int | None, tag: int) -> None:
        super().__init__()
        self.tag = (tag * SPREAD + tensor.nbytes) % OURS
        self.communicator, self.moved = communicator, tensor.contiguous()  # memory is moved as it lies
        self._verb, self._tensor, self._peer = verb, tensor, peer
        self._inner: Any = None
        self._over = False
        self._error: CollectiveError | None = None
        self.entry: Entry | None = None

    def describe(self) -> str:
        return describe("message", self._tensor, f"{self._verb} rank {'any' if self._peer is None else self._peer}")

    def start(self, inner: Any, kept: Kept) -> MessageWork:
        """It is under way, as the transport's ``inner``; the transport would lose it if nobody held that."""
        self._inner, self._kept = inner, kept
        kept.add(self)
        return self

    @eager
    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until the tensor has been received, or may be changed again.

        Args:
            timeout: how long; 0 for the group's own. The group is broken afterwards, as its connections are.

        Raises:
            CollectiveError: the peer is gone or stalled.
        """
        if self._error is not None:
            raise self._error
        if self._over:  # the transport would wait for ever
            return True
        began = time.monotonic()
        try:
            self._watch(timeout or timedelta(seconds=self.communicator.timeout))
        except RuntimeError as error:
            self._error = self._failed(error, began)
            raise self._error from error
        finally:
            self._kept.drop(self)
        if self.moved is not self._tensor and self._verb == "receive from":
            self._tensor.copy_(self.moved)
        self._over = True
        if self.entry is not None:
            self.entry.finish()
        return True

    def _watch(self, limit: timedelta) -> None:
        """Wait. The transport never ends the wait for a long message that was half on its way when its peer died."""
        if self.moved.nbytes <= INLINE_BYTES or not self.communicator.streaming:
            self._inner.wait(limit)
            return
        outcome = Outcome()
        threading.Thread(target=perform, args=(partial(self._inner.wait, limit), outcome), daemon=True).start()
        until = time.monotonic() + limit.total_seconds() - TICK / 2  # a timeout closes this rank's own connections
        while not outcome.wait(TICK):
            if time.monotonic() < until and self._peer in failure.closed_peers(self.communicator):
                if not outcome.wait(0.02):
                    raise RuntimeError("connection closed by peer")
                return

    def _failed(self, error: RuntimeError, began: float) -> CollectiveError:
        if self._peer is None:
            said = str(error).splitlines()[0]
            broken = self.communicator.break_off(CollectiveError(f"{self.describe()} failed: {said}"))
            if (record := flight.current()) is not None:
                record.fail(self.communicator.label, broken)
            return broken
        progress = Progress(began, 0, self._verb, self._peer)
        return self.communicator.fail(self.describe, "", StepFailure(progress, error, self._inner))

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._over or self._error is not None or bool(self._inner.is_completed())

    def is_success(self) -> bool:
        return self._error is None and self.is_completed()

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[Tensor]:
        return [self._tensor]

    def _source_rank(self) -> int:
        return self._inner._source_rank() if self._peer is None else self._peer

    source_rank = _source_rank
