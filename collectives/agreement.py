"""``check=True``: before anything moves, the ranks compare what they are about to do."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import torch

from . import failure
from .errors import MismatchError
from .executor import OURS, Progress, StepFailure

if TYPE_CHECKING:
    from .communicator import Communicator

_BYTES = 512  # a header has the same size whatever the call, so it always arrives
_TAG = OURS | 0x0C0FFEE


def exchange(communicator: Communicator, mine: torch.Tensor, deadline: float) -> list[torch.Tensor]:
    """Every rank's ``mine`` (same shape and dtype everywhere), by rank; a tag that no collective uses.

    Raises:
        StepFailure: a peer died or did not come.
    """
    group, rank, size = communicator.group, communicator.rank, communicator.size
    everyone = [mine if r == rank else torch.empty_like(mine) for r in range(size)]
    others = [(rank + i) % size for i in range(1, size)]
    progress = Progress(time.monotonic(), 0, "hear from", rank)
    works: list[object] = []
    try:
        received = [(peer, group.recv([everyone[peer]], peer, _TAG)) for peer in others]
        sent = [(peer, group.send([mine], peer, _TAG)) for peer in others]
        works = [received, sent]
        for progress.peer, work in received + sent:
            work.wait(timedelta(seconds=max(0.001, deadline - time.monotonic())))
    except RuntimeError as error:
        raise StepFailure(progress, error, (works, everyone)) from error
    return everyone


def compare(communicator: Communicator, call: str, number: int, deadline: float) -> None:
    """All ranks say which call they make.

    Raises:
        MismatchError: on every rank alike, naming who calls what; nothing of the call has been sent.
        CollectiveError: a rank did not come.
    """
    text = f"call {number}: {call}".encode()[:_BYTES].ljust(_BYTES)
    mine = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    try:
        headers = exchange(communicator, mine, deadline)
    except StepFailure as stop:
        communicator.broken = failure.give_up(communicator, call, "comparing the calls", stop)
        raise communicator.broken from stop.cause
    calls: dict[str, list[int]] = {}
    for rank, header in enumerate(headers):
        calls.setdefault(bytes(header.tolist()).decode(errors="replace").strip(), []).append(rank)
    if len(calls) > 1:
        said = "; ".join(
            f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: {text}" for text, ranks in calls.items()
        )
        raise MismatchError(f"the ranks disagree on what to do: {said}", operation=call.split(" ")[0])


def broadcast_numbers(communicator: Communicator, numbers: list[float], deadline: float) -> list[float]:
    """Rank 0's numbers, on every rank."""
    try:
        everyone = exchange(communicator, torch.tensor(numbers, dtype=torch.float64), deadline)
    except StepFailure as stop:
        communicator.broken = failure.give_up(communicator, "agreeing on a machine", "direct", stop)
        raise communicator.broken from stop.cause
    return [float(number) for number in everyone[0].tolist()]
