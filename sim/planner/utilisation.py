"""How much of the GPUs' peak a step uses: MFU and HFU."""

from __future__ import annotations

from . import flops
from .hardware import Hardware
from .layout import Layout
from .transformer import Transformer


def model_flops(model: Transformer, layout: Layout) -> float:
    """Of a step, as MFU counts them: all matrix products, of attention the whole square."""
    return flops.training(flops.forward(model, layout.samples * 1.0))  # type: ignore[arg-type]


def hardware_flops(model: Transformer, layout: Layout) -> float:
    """With what is recomputed, as HFU counts them."""
    once = flops.forward(model, layout.samples * 1.0)  # type: ignore[arg-type]
    skipped = layout.flash and layout.recompute == "selective"
    return flops.training(once) + (0 if skipped else flops.recomputed(once, layout.recompute))


def utilisation(flop: float, seconds: float, layout: Layout, hardware: Hardware) -> float:
    """The share of all GPUs' peak, in the precision of the plan's products."""
    return flop / (seconds * layout.gpus * hardware.chip.speed(layout.precision.compute))
