"""Text to train on without a download: the source of Python's standard library, byte by byte.

step k of a run    seed, k ──▶ one place in the text for each row of the global batch ──▶ (rows, sequence + 1) bytes

Where a row begins depends on the seed and the number of the step alone. So every mesh reads the same rows, each of its
data-parallel ranks some of them, and whoever resumes at step k needs nothing else to go on with the same data.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import torch
from torch import Tensor

VOCABULARY = 256  # bytes
_SHIFT = 1_000_003  # a prime, so that steps of neighbouring seeds do not share their places


class Text:
    """Bytes in memory.

    Args:
        path: a file of any kind; None is Python's standard library (its top folder, some 5 MB).

    Raises:
        ValueError: it cannot be read, or is empty.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")) if path is None else [Path(path)]
        try:
            content = b"\n".join(file.read_bytes() for file in files)
        except OSError as error:
            raise ValueError(
                f"text {path or files[0].parent}: {error.strerror}; name a file that can be read"
            ) from error
        if not content:
            raise ValueError(f"text {path or 'of the standard library'}: it is empty; name a file with something in it")
        self.bytes = torch.frombuffer(bytearray(content), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.bytes)

    def check(self, sequence: int) -> None:
        """Raise ValueError if no row of ``sequence`` bytes and a target fits."""
        if sequence >= len(self.bytes):
            raise ValueError(f"sequence={sequence}: the text has {len(self.bytes)} bytes; use a shorter one")

    def rows(self, step: int, rows: int, sequence: int, seed: int = 0) -> Tensor:
        """The global batch of a step: (rows, sequence + 1), int64; the last byte of a row is a target only.

        Raises:
            ValueError: a sequence longer than the text.
        """
        self.check(sequence)
        places = len(self.bytes) - sequence
        generator = torch.Generator().manual_seed((seed * _SHIFT + step) % 2**63)
        starts = torch.randint(places, (rows,), generator=generator)
        return torch.stack([self.bytes[start : start + sequence + 1] for start in starts.tolist()]).long()
