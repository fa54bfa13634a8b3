"""Where tensors go, and how they come back: pinned host memory beside a GPU, files mapped into memory beside none.

put(t)      ──▶ parcel        t is on its way; it must not change any more, and may be let go of
parcel.fetch()                it is wanted soon
parcel.get()    ──▶ t         bitwise the same, in the same layout
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

PENDING = 4  # tensors on their way to the disk; the next one waits, or they would stay in memory after all


class Parcel(Protocol):
    """A tensor that has been put away."""

    def fetch(self) -> None:
        """Begin to bring it back."""

    def get(self) -> Tensor:
        """The tensor, where it was; waits until it is there. Once, and then it is the caller's."""


class Tier(Protocol):
    """A place. ``out``, ``back``: bytes that have gone there and come back so far."""

    out: int
    back: int

    def put(self, tensor: Tensor) -> Parcel:
        """Send a tensor there."""


def tier_for(device: torch.device) -> Tier:
    """The next place below a device: pinned host memory for a GPU, the disk for the host."""
    return Pinned() if device.type == "cuda" else Disk()


@dataclass(frozen=True, slots=True)
class Form:
    """What a tensor looks like: transposed stays transposed, or a product would round in another order."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    dense: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Form:
        span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        dense = tensor.numel() == span and all(stride > 0 for stride in tensor.stride())
        return cls(tensor.shape, tensor.stride(), tensor.dtype, tensor.device, dense)

    def flat(self, tensor: Tensor) -> Tensor:
        """The bytes of a tensor of this form in one row: a view, if they lie dense."""
        tensor = tensor.detach()
        if self.dense:
            row = tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
        else:
            row = tensor.contiguous().view(-1)
        return row.view(torch.uint8)

    def shaped(self, row: Tensor) -> Tensor:
        """The tensor that :meth:`flat` made a row of."""
        row = row.view(self.dtype)
        return row.as_strided(self.shape, self.stride) if self.dense else row.view(self.shape)


class Disk:
    """Files in a folder, one a tensor, that two threads write and read beside the computation.

    Args:
        folder: where; a new one among the temporary files otherwise, which goes with this object.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.out = self.back = 0
        self.folder = Path(tempfile.mkdtemp(prefix="offload-", dir=folder))
        self._writer, self._reader = ThreadPoolExecutor(1, "offload-out"), ThreadPoolExecutor(1, "offload-back")
        self._pending = threading.BoundedSemaphore(PENDING)
        self._number = itertools.count()
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def put(self, tensor: Tensor) -> Parcel:
        self._pending.acquire()
        self.out += tensor.nbytes
        return _Filed(self, tensor, self.folder / str(next(self._number)))

    def write(self, rows: list[Tensor], version: int, path: Path) -> bool:
        """Whether the bytes of the one row stayed the same since they had that version.

        The row is taken out of the list and let go of before the next one may come: more than PENDING are never held.
        """
        row = rows.pop()
        try:
            if row.numel():
                torch.from_file(str(path), shared=True, size=row.numel(), dtype=torch.uint8).copy_(row)
            return row._version == version
        finally:
            del row
            self._pending.release()


class _Filed:
    def __init__(self, disk: Disk, tensor: Tensor, path: Path) -> None:
        self._disk, self._path, self._form, self._nbytes = disk, path, Form.of(tensor), tensor.nbytes
        weakref.finalize(self, _remove, path)
        row = self._form.flat(tensor)
        self._written: Future[bool] = disk._writer.submit(disk.write, [row], row._version, path)
        self._fetched: Future[Tensor] | None = None

    def fetch(self) -> None:
        if self._fetched is None:
            self._disk.back += self._nbytes
            row = torch.empty(self._nbytes, dtype=torch.uint8)  # here, in the thread that a ledger watches
            self._fetched = self._disk._reader.submit(_read, self._written, self._path, row)

    def get(self) -> Tensor:
        self.fetch()
        assert self._fetched is not None
        row, self._fetched = self._fetched.result(), None
        return self._form.shaped(row)


def _read(written: Future[bool], path: Path, row: Tensor) -> Tensor:
    if not written.result():
        raise RuntimeError("a tensor was changed in place on its way to the disk: what was put away must not change")
    if row.numel():
        row.copy_(torch.from_file(str(path), shared=False, size=row.numel(), dtype=torch.uint8))
    return row


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # not written yet, or mapped still: it goes with the folder
        path.unlink()


class Pinned:
    """Page-locked host memory, over a stream of its own in each direction."""

    def __init__(self) -> None:
        self.out = self.back = 0
        self.leaving, self.coming = torch.cuda.Stream(), torch.cuda.Stream()

    def put(self, tensor: Tensor) -> Parcel:
        self.out += tensor.nbytes
        return _Locked(self, tensor)


class _Locked:
    def __init__(self, tier: Pinned, tensor: Tensor) -> None:
        self._tier, self._form = tier, Form.of(tensor)
        row = self._form.flat(tensor)
        self._host = torch.empty(row.numel(), dtype=torch.uint8, pin_memory=True)
        tier.leaving.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(tier.leaving):
            self._host.copy_(row, non_blocking=True)
            self._left = tier.leaving.record_event()
        row.record_stream(tier.leaving)  # its memory is not given out again before it has been read
        self._fetched: tuple[Tensor, torch.cuda.Event] | None = None

    def fetch(self) -> None:
        if self._fetched is None:
            self._tier.back += self._host.nbytes
            coming = self._tier.coming
            coming.wait_event(self._left)
            with torch.cuda.stream(coming):
                row = self._host.to(self._form.device, non_blocking=True)
                self._fetched = row, coming.record_event()

    def get(self) -> Tensor:
        self.fetch()
        assert self._fetched is not None
        (row, there), self._fetched = self._fetched, None
        current = torch.cuda.current_stream(row.device)
        current.wait_event(there)
        row.record_stream(current)
        return self._form.shaped(row)
