"""GPUs by name: what they compute and hold; :mod:`sim.gpu` has their links.

Peaks are of dense matrices, in operations a second of the tensor cores (fp32: of the ordinary ones), memory is what the
driver reports, rounded to GiB. Sources: NVIDIA's and AMD's data sheets of the SXM (or OAM) forms, boost clocks.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True)
class Chip:
    """memory: bytes; bandwidth: bytes a second of its memory; peak: operations a second by dtype; watts: under load;
    sms: streaming multiprocessors (compute units)."""

    name: str
    memory: int
    bandwidth: float
    peak: Mapping[str, float]
    watts: float
    sms: int

    def speed(self, dtype: str) -> float:
        """The peak in this dtype, or in the fastest one that takes its place: a V100 has no bf16 and computes in fp16.

        Raises:
            ValueError: it has none; those that it has are listed.
        """
        for name in (dtype, {"bf16": "fp16", "fp16": "bf16", "tf32": "fp32"}.get(dtype, dtype)):
            if name in self.peak:
                return self.peak[name]
        raise ValueError(f"{self.name} does not compute in {dtype}: use {', '.join(self.peak)}")


def _chip(
    name: str, sms: int, gib: float, bandwidth: float, half: float, fp32: float, watts: float, **more: float
) -> Chip:
    """GiB, GB/s, TFLOP/s, watts; ``fp16`` in ``more`` stands for chips without bf16."""
    peaks = {"fp32": fp32, **({} if "fp16" in more else {"bf16": half, "fp16": half}), **more}
    rates = {dtype: rate * 1e12 for dtype, rate in peaks.items()}
    return Chip(name, round(gib * GIB), bandwidth * 1e9, rates, watts, sms)


CHIPS = {
    chip.name: chip
    for chip in (
        _chip("p100", 56, 16, 732, 0, 10.6, 300, fp16=21.2),
        _chip("v100", 80, 32, 900, 0, 15.7, 300, fp16=125),
        _chip("v100-16g", 80, 16, 900, 0, 15.7, 300, fp16=125),
        _chip("t4", 40, 15, 320, 0, 8.1, 70, fp16=65, int8=130),
        _chip("a10", 72, 22.5, 600, 125, 31.2, 150, tf32=62.5, int8=250),
        _chip("a100", 108, 80, 2039, 312, 19.5, 400, tf32=156, int8=624),
        _chip("a100-40g", 108, 40, 1555, 312, 19.5, 400, tf32=156, int8=624),
        _chip("a800", 108, 80, 2039, 312, 19.5, 400, tf32=156, int8=624),
        _chip("l40s", 142, 45, 864, 362, 91.6, 350, tf32=183, fp8=733, int8=733),
        _chip("rtx-4090", 128, 24, 1008, 165.2, 82.6, 450, tf32=82.6, fp8=330.3, int8=660.6),
        _chip("h100", 132, 80, 3352, 989.4, 66.9, 700, tf32=494.7, fp8=1978.9, int8=1978.9),
        _chip("h800", 132, 80, 3352, 989.4, 66.9, 700, tf32=494.7, fp8=1978.9, int8=1978.9),
        _chip("h20", 78, 96, 4000, 148, 44, 400, tf32=74, fp8=296, int8=296),
        _chip("h200", 132, 140, 4800, 989.4, 66.9, 700, tf32=494.7, fp8=1978.9, int8=1978.9),
        _chip("b200", 148, 179, 8000, 2250, 75, 1000, tf32=1125, fp8=4500, int8=4500, fp4=9000),
        _chip("gb200", 152, 185, 8000, 2500, 80, 1200, tf32=1250, fp8=5000, int8=5000, fp4=10000),
        _chip("b300", 148, 268, 8000, 2250, 75, 1100, tf32=1125, fp8=4500, fp4=14000),
        _chip("gb300", 152, 278, 8000, 2500, 80, 1400, tf32=1250, fp8=5000, fp4=15000),
        _chip("mi300x", 304, 192, 5300, 1307.4, 163.4, 750, tf32=653.7, fp8=2614.9, int8=2614.9),
    )
}


def chip_of(text: str) -> Chip:
    """The GPU that a name means, as people or drivers write it: ``h100``, ``a100-80g``, ``NVIDIA A100-SXM4-40GB``.

    Raises:
        ValueError: none of that name, or none of that memory; the nearest are listed.
    """
    words = re.split(r"[\s_-]+", text.strip().lower().replace("rtx 4090", "rtx4090").replace("rtx-4090", "rtx4090"))
    base = next((name for word in words for name in CHIPS if word == name.replace("rtx-4090", "rtx4090")), None)
    if base is None:
        near = difflib.get_close_matches(text.lower(), CHIPS, n=3) or list(CHIPS)
        raise ValueError(f"gpu {text!r} is unknown: use {', '.join(near)}")
    sizes = {chip.name: chip for chip in CHIPS.values() if chip.name == base or chip.name.startswith(f"{base}-")}
    wanted = next((int(word.rstrip("gb")) for word in words if re.fullmatch(r"[0-9]+gb?", word)), None)
    for chip in sizes.values():
        if wanted is None or abs(chip.memory / GIB - wanted) <= 0.08 * wanted:
            return chip
    raise ValueError(f"gpu {text!r}: there is no {base} with {wanted} GB: use {', '.join(sizes)}")
