"""GPUs by name: what their links carry. Sources: NVIDIA's data sheets; shares as in :mod:`sim.presets`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """nvlink: bytes a second of one NVLink per direction; nvlinks: how many a GPU has; share: of them that data reach;
    pcie: bytes a second of its slot that data reach."""

    name: str
    nvlink: float
    nvlinks: int
    share: float
    pcie: float


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("p100", 20e9, 4, 0.90, 11e9),
        Gpu("v100", 25e9, 6, 0.896, 11e9),
        Gpu("t4", 0.0, 0, 0.0, 11e9),
        Gpu("a10", 0.0, 0, 0.0, 22e9),
        Gpu("a100", 25e9, 12, 0.783, 22e9),
        Gpu("a800", 25e9, 8, 0.783, 22e9),
        Gpu("h100", 25e9, 18, 0.813, 48e9),
        Gpu("h200", 25e9, 18, 0.813, 48e9),
        Gpu("h20", 25e9, 18, 0.813, 48e9),
        Gpu("h800", 25e9, 8, 0.813, 48e9),
        Gpu("b200", 50e9, 18, 0.756, 50e9),
        Gpu("gb200", 50e9, 18, 0.756, 50e9),
    )
}


def find_gpu(text: str) -> Gpu | None:
    """The GPU that a name as drivers print it means (``NVIDIA A100-SXM4-80GB``), or None."""
    words = text.lower().replace("-", " ").split()
    return next((GPUS[word] for word in words if word in GPUS), None)


def gpu_of(text: str) -> Gpu:
    """The same, where there must be one.

    Raises:
        ValueError: none of that name; the nearest are listed.
    """
    gpu = find_gpu(text)
    if gpu is None:
        near = difflib.get_close_matches(text.lower(), GPUS, n=3) or list(GPUS)
        raise ValueError(f"gpu {text!r} is unknown: use {', '.join(near)}")
    return gpu
