"""How tensors get from rank to rank of a pipeline: single messages on gloo, one batch an exchange on NCCL.

Every wait ends by a deadline. If one fails, this rank tells the others at once, as a failed collective does, and the
error says who waited for whom, for what, and who began it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from zlib import crc32

import torch.distributed as dist
from torch import Tensor

from collectives import failure
from collectives.communicator import INLINE_BYTES, Communicator, communicator
from collectives.errors import CollectiveError
from collectives.executor import OURS, SPREAD, Progress, StepFailure
from collectives.supervision import TICK
from collectives.work import Worker

Handles = list[Any]  # works of torch.distributed


class Post:
    """One rank's way to the other ranks of its pipeline.

    Args:
        group: the ranks of the pipeline, in the order of its stages; None is the default group.
        timeout: seconds that a wait may last; None is the group's own.

    Attributes:
        rank, size: within the group; everywhere: the group's ranks among all.
        streaming: messages may be posted one by one, whenever it is (gloo).
        sent: bytes so far.
        label: says in words what all ranks run, the same on all; schedule: its name; step: where this rank is in it.
    """

    def __init__(self, group: dist.ProcessGroup | None, timeout: float | None) -> None:
        self._ours: Communicator = communicator(group)
        self.group, self._link = self._ours.group, self._ours.link
        self.rank, self.size, self.streaming = self._ours.rank, self._ours.size, self._ours.streaming
        self._worker = Worker(f"pipeline-{self.rank}")
        self.timeout = self._ours.timeout if timeout is None else timeout
        self.label, self.schedule, self.step = "pipeline", "", 0
        self.sent = 0
        self.everywhere = dist.get_process_group_ranks(self.group)
        # all ranks make their pipelines in the same order, so this is the same number on all
        self.number = self._link.store.add(f"pipeline/made/{self.rank}", 1)

    # Tensors.

    def receive(self, tensors: Sequence[Tensor], source: int, name: str) -> Handles:
        """Begin to receive, into these; gloo only."""
        return self._posted(self._link.wire.recv, tensors, source, name, "receive")

    def send(self, tensors: Sequence[Tensor], to: int, name: str) -> Handles:
        """Begin to send; the tensors must live, and stay as they are, until it is waited for. gloo only."""
        self.sent += sum(tensor.nbytes for tensor in tensors)
        return self._posted(self._link.wire.send, tensors, to, name, "send")

    def _posted(self, verb: Callable[..., Any], tensors: Sequence[Tensor], peer: int, name: str, word: str) -> Handles:
        """Messages have a tag by name and length: one of another length never matches (gloo would end the process)."""
        works = []
        for place, tensor in enumerate(tensors):
            seed = crc32(f"pipeline {self.number} {name} {place}".encode())
            try:
                works.append(verb([tensor], peer, OURS | (seed + tensor.numel()) * SPREAD % OURS))
            except RuntimeError as error:
                raise self._failed(word, name, peer, time.monotonic(), error) from error
        return works

    def batch(self, sends: Sequence[tuple[Tensor, int]], receives: Sequence[tuple[Tensor, int]]) -> Handles:
        """Begin to send and to receive, all at once: ``(tensor, peer)`` each. NCCL's way."""
        self.sent += sum(tensor.nbytes for tensor, _ in sends)
        operations = [dist.P2POp(dist.irecv, tensor, group=self.group, group_peer=peer) for tensor, peer in receives]
        operations += [dist.P2POp(dist.isend, tensor, group=self.group, group_peer=peer) for tensor, peer in sends]
        return dist.batch_isend_irecv(operations) if operations else []

    def wait(self, works: Handles, nbytes: int, verb: str, name: str, peer: int) -> None:
        """Until they are done (NCCL: let the stream wait).

        Raises:
            CollectiveError: the peer is gone, or has not come by the deadline.
        """
        began = time.monotonic()
        try:
            for work in works:
                if not self.streaming:
                    work.wait()
                elif nbytes <= INLINE_BYTES:
                    work.wait(self._rest(began))
                else:
                    self._watch(work, began, peer)
        except RuntimeError as error:
            raise self._failed(verb, name, peer, began, error) from error

    def _rest(self, began: float) -> timedelta:
        return timedelta(seconds=max(0.001, began + self.timeout - time.monotonic()))

    def _watch(self, work: Any, began: float, peer: int) -> None:
        """gloo's wait for a message that was half on its way when the peer died ends at the deadline: look oneself."""
        outcome = self._worker.submit(lambda: work.wait(self._rest(began)))
        gone = False
        while not outcome.wait(TICK):
            before, gone = gone, peer in failure.closed_peers(self._ours)
            if before and gone:  # twice: the last words of one that has left in good order may take a moment
                raise RuntimeError("connection closed by peer")

    def trade(self, mine: Tensor, rooms: Mapping[int, Tensor], name: str) -> None:
        """Give a tensor to some ranks and get theirs; all of them call it."""
        if self.streaming:
            receives = {peer: self.receive([room], peer, name) for peer, room in rooms.items()}
            sends = {peer: self.send([mine], peer, name) for peer in rooms}
        else:
            receives = {peer: self.batch([(mine, peer)], [(room, peer)]) for peer, room in rooms.items()}
            sends = {}
        for verb, works in (("receive", receives), ("send", sends)):
            for peer, handles in works.items():
                self.wait(handles, mine.nbytes, verb, name, peer)

    # Words, by the group's store: nobody waits until they are read.

    def say(self, key: str, word: Any) -> None:
        """Leave a word for whoever asks for ``key``."""
        self._link.store.set(self._key(key), json.dumps(word))

    def hear(self, key: str, peer: int, name: str, keep: bool = False) -> Any:
        """The word that ``peer`` has left, or leaves soon; it is gone then, unless it is to be kept for others.

        Raises:
            CollectiveError: it is not there by the deadline, or the peer is gone.
        """
        began, store, key = time.monotonic(), self._link.store, self._key(key)
        look = began + TICK
        while not store.check([key]):
            now = time.monotonic()
            if now >= look:
                look = now + TICK
                if peer in failure.closed_peers(self._ours):
                    raise self._failed("hear", name, peer, began, RuntimeError("connection closed by peer"))
            if now >= began + self.timeout:
                raise self._failed("hear", name, peer, began, RuntimeError("timed out"))
            time.sleep(0.001)
        word = json.loads(store.get(key))
        if not keep:
            store.delete_key(key)
        return word

    def meet(self, word: Any) -> list[Any]:
        """What each rank says, in order; all ranks call it."""
        self.say(f"hello/{self.rank}", word)
        return [self.hear(f"hello/{peer}", peer, "what it runs", keep=True) for peer in range(self.size)]

    def _key(self, key: str) -> str:
        return f"pipeline/{self.number}/{key}"

    # Failure.

    def check(self) -> None:
        """
        Raises:
            CollectiveError: an earlier step has failed; the group is broken.
        """
        self._ours.raise_if_broken(lambda: self.label)

    def give_up(self, error: BaseException) -> None:
        """This rank cannot go on: the others shall not wait for it."""
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        self._ours.break_off(CollectiveError(f"{self.label} failed on rank {self.rank}: {said}", cause="error"))

    def _failed(self, verb: str, name: str, peer: int, began: float, error: Exception) -> CollectiveError:
        progress = Progress(began, self.step, f"{verb} {name} {'to' if verb == 'send' else 'from'}", peer)
        return self._ours.fail(lambda: self.label, self.schedule, StepFailure(progress, error))
