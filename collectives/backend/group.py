"""The process group of backend ``ring``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import ProcessGroup

from ..buffers import Handle
from ..communicator import PATIENCE, Communicator, adopt
from ..errors import CollectiveError
from ..schedule import Schedule
from .methods import Methods
from .point_to_point import PointToPoint
from .profiling import profiled
from .transport import Transport
from .works import CollectiveWork, Kept

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work, _DistributedBackendOptions


class RingGroup(Methods, PointToPoint, ProcessGroup):  # type: ignore[misc]  # methods of one form, not torch's four
    """Collectives run by our schedules on messages that gloo (CPU) or NCCL (CUDA) moves; no more of theirs is used.

    Args:
        options: what ``torch.distributed`` says of the group.
        algorithms: by collective; those that are not listed are chosen by the cost model.
    """

    def __init__(self, options: _DistributedBackendOptions, algorithms: Mapping[str, Schedule]) -> None:
        # the form without a store is the one that torch 2.13 can make from a subclass, whatever its types say
        super().__init__(options.group_rank, options.group_size)  # type: ignore[call-arg]
        self._options, self._algorithms = options, algorithms
        self._names = {"name": str(options.group_id), "desc": ""}
        self._kept = Kept()
        self._transports: dict[str, Transport] = {}
        self._communicators: dict[str, Communicator] = {}
        self._closed = False
        adopt(self, self._communicator(torch.device("cpu")))

    @property
    def algorithms(self) -> Mapping[str, Schedule]:
        """By collective, those that are not chosen by the cost model."""
        return self._algorithms

    # What torch.distributed asks of a group.

    def getBackendName(self) -> str:
        return "ring"

    def setGroupName(self, name: str) -> None:
        self._names["name"] = name

    def getGroupName(self) -> str:
        return self._names["name"]

    def setGroupDesc(self, text: str) -> None:
        self._names["desc"] = text

    def getGroupDesc(self) -> str:
        return self._names["desc"]

    def _get_backend(self, device: torch.device) -> Any:
        """The transport, for those who ask about its device."""
        return self._communicator(device).link.wire

    def shutdown(self) -> None:
        """Leave: what is under way has a second to end."""
        self._close(PATIENCE)

    def abort(self) -> None:
        """Leave at once: what is under way fails here, and the other ranks notice."""
        self._close(0.0)

    def _close(self, patience: float) -> None:
        self._closed = True
        for communicator in self._communicators.values():
            communicator.close(patience)
        self._transports.clear()
        self._kept = Kept()

    # How to reach the others.

    def _communicator(self, device: torch.device) -> Communicator:
        """That of the device's type, made at its first use: on CUDA by all ranks together.

        Raises:
            ValueError: a device that nothing moves tensors of; RuntimeError: there is none of its kind here.
            CollectiveError: the group has been destroyed.
        """
        found = self._communicators.get(device.type)
        if found is None:
            if self._closed:
                raise CollectiveError(f"group {self.getGroupName()} has been destroyed")
            transport = self._transports[device.type] = Transport.of(self._options, device)
            found = self._communicators[device.type] = Communicator(self, transport.link(self._options))
        return found

    def _wire(self, communicator: Communicator, up: bool) -> Any:
        transport = self._transports["cuda" if communicator.backend == "nccl" else "cpu"]
        return transport.up if up else transport.down

    def _run(
        self, collective: str, device: torch.device, value: list[Any], opts: Any, calls: Sequence[Callable[..., Handle]]
    ) -> Work:
        communicator = self._communicator(device)
        algorithm, timeout = self._algorithms.get(collective, "auto"), getattr(opts, "timeout", timedelta(0))
        how = {"group": communicator, "algorithm": algorithm, "async_op": getattr(opts, "asyncOp", True)}
        how["timeout"] = timeout if timeout > timedelta(0) else None
        issue = partial(_issue, calls, how)
        if torch.autograd._profiler_enabled():  # type: ignore[attr-defined]
            issue = partial(profiled, f"ring:{collective}", communicator, issue)
        return CollectiveWork(issue(), value, self._kept)


def _issue(calls: Sequence[Callable[..., Handle]], how: Mapping[str, Any]) -> Handle:
    """Issue the calls; the handle of the last."""
    handle: Handle = None
    for call in calls:
        handle = call(**how)
    return handle
