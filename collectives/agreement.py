"""``check=True``: before anything moves, the ranks compare what they are about to do."""

from __future__ import annotations

import time
import zlib
from datetime import timedelta
from typing import TYPE_CHECKING

import torch

from . import failure
from .errors import CollectiveError, MismatchError
from .executor import OURS, Progress, StepFailure

if TYPE_CHECKING:
    from .communicator import Communicator

_BYTES = 512  # of text; a header has the same size whatever the call, so it always arrives
_TAG = OURS | 0x0C0FFEE


def compare(
    communicator: Communicator, call: str, number: int, splits: tuple[list[int], list[int]] | None, deadline: float
) -> None:
    """All ranks say which call they make.

    Args:
        splits: elements that this rank gives to and takes from every rank, where that may differ (all_to_all).

    Raises:
        MismatchError: on every rank alike, naming who calls what; nothing of the call has been sent.
        CollectiveError: a rank did not come.
    """
    size = communicator.size
    given, taken = splits or ([0] * size, [0] * size)
    text = f"call {number}: {call}"
    numbers = torch.tensor([zlib.crc32(text.encode()), *given, *taken], dtype=torch.int64)
    words = torch.frombuffer(bytearray(text.encode()[:_BYTES].ljust(_BYTES)), dtype=torch.uint8)
    headers = _exchange(communicator, call, torch.cat([words, numbers.view(torch.uint8)]), deadline)
    said: dict[tuple[str, int], list[int]] = {}
    gives, takes = [], []
    for rank, header in enumerate(headers):
        text = bytes(header[:_BYTES].tolist()).decode(errors="replace").strip()
        checksum, *rest = header[_BYTES:].clone().view(torch.int64).tolist()
        said.setdefault((text, checksum), []).append(rank)
        gives.append(rest[:size])
        takes.append(rest[size:])
    operation = call.split(" ")[0]
    if len(said) > 1:
        who = "; ".join(
            f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: {text}"
            for (text, _), ranks in said.items()
        )
        raise MismatchError(f"the ranks disagree on what to do: {who}", operation=operation)
    wrong = [(i, j) for i in range(size) for j in range(size) if gives[i][j] != takes[j][i]]
    if wrong:
        which = "; ".join(
            f"rank {i} gives rank {j} {gives[i][j]} elements, which takes {takes[j][i]}" for i, j in wrong[:4]
        )
        raise MismatchError(f"the ranks disagree on the sizes of {operation}: {which}", operation=operation)


def _exchange(communicator: Communicator, call: str, mine: torch.Tensor, deadline: float) -> list[torch.Tensor]:
    """Every rank's ``mine`` (of one size), by rank."""
    if not communicator.streaming:
        return _exchange_by_store(communicator, mine, deadline)
    wire, rank, size = communicator.link.wire, communicator.rank, communicator.size
    tag = _TAG + communicator.number
    everyone = [mine if r == rank else torch.empty_like(mine) for r in range(size)]
    others = [(rank + i) % size for i in range(1, size)]
    progress = Progress(time.monotonic(), 0, "hear from", rank)
    works: list[object] = []
    try:
        received = [(peer, wire.recv([everyone[peer]], peer, tag)) for peer in others]
        sent = [(peer, wire.send([mine], peer, tag)) for peer in others]
        works = [received, sent]
        for progress.peer, work in received + sent:
            work.wait(timedelta(seconds=max(0.001, deadline - time.monotonic())))
    except RuntimeError as error:
        stop = StepFailure(progress, error, (works, everyone))
        communicator.broken = failure.give_up(communicator, call, "comparing the calls", stop)
        raise communicator.broken from error
    return everyone


def _exchange_by_store(communicator: Communicator, mine: torch.Tensor, deadline: float) -> list[torch.Tensor]:
    """NCCL moves no CPU tensors, and a comparison need not be fast."""
    store, turn = communicator.link.store, communicator.compared
    communicator.compared += 1
    keys = [f"collectives/compare/{communicator.number}/{turn}/{r}" for r in range(communicator.size)]
    store.set(keys[communicator.rank], bytes(mine.tolist()))
    try:
        store.wait(keys, timedelta(seconds=max(0.001, deadline - time.monotonic())))
    except RuntimeError as error:
        raise CollectiveError("not every rank came to compare the calls") from error
    return [torch.frombuffer(bytearray(store.get(key)), dtype=torch.uint8) for key in keys]
