"""What a rank sends, counted where it leaves: at the wire of the executor, below every algorithm."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from collectives.communicator import communicator
from collectives.executor import PointToPoint
from collectives.reduction import Combine


class Traffic:
    """Counts the messages of one rank; stands between the executor and its wires (see ``executor.Tracer``).

    elements: by dtype, what was sent; messages: how many sends.
    """

    def __init__(self) -> None:
        self.elements: Counter[torch.dtype] = Counter()
        self.messages = 0
        self._lock = threading.Lock()  # channels may have threads of their own

    @property
    def bytes(self) -> int:
        return sum(count * dtype.itemsize for dtype, count in self.elements.items())

    def wire(self, wire: PointToPoint, channel: int) -> PointToPoint:
        return _CountingWire(wire, self)

    def combine(self, combine: Combine, channel: int) -> Combine:
        return combine

    def add(self, tensors: list[torch.Tensor]) -> None:
        with self._lock:
            self.messages += 1
            for tensor in tensors:
                self.elements[tensor.dtype] += tensor.numel()


class _CountingWire:
    def __init__(self, wire: PointToPoint, traffic: Traffic) -> None:
        self._wire, self._traffic = wire, traffic

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Any:
        self._traffic.add(tensors)
        return self._wire.send(tensors, peer, tag)

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Any:
        return self._wire.recv(tensors, peer, tag)


@contextlib.contextmanager
def counted(group: dist.ProcessGroup | None = None) -> Iterator[Traffic]:
    """Count what this rank sends on a group meanwhile, by the collectives of this project, also in the background.

    Raises:
        ValueError: the group's transport is not gloo (NCCL's batches pass no wire of ours), or is counted already.
    """
    ours = communicator(group)
    if not ours.streaming:
        raise ValueError(f"group: its backend {ours.backend} is not counted; use a gloo group")
    if ours.tracer is not None:
        raise ValueError("group: it is watched already; end that first")
    traffic = Traffic()
    ours.tracer = traffic
    try:
        yield traffic
    finally:
        ours.tracer = None
