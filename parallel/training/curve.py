"""The loss of a run as a picture. Needs matplotlib, not torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from collectives.atomic import replacing


def draw(path: str | os.PathLike[str], steps: Sequence[Mapping[str, Any]]) -> None:
    """Loss over steps, and the gradients' norm below; what was left out after an overflow is a hollow point."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    numbers = [step["step"] for step in steps]
    upper.plot(numbers, [step["loss"] for step in steps], color="C0")
    left = [step for step in steps if not step["taken"]]
    upper.plot([step["step"] for step in left], [step["loss"] for step in left], "o", color="C0", fillstyle="none")
    lower.plot(numbers, [step["grad_norm"] for step in steps], color="grey")
    upper.set_ylabel("loss a token (nats)")
    lower.set_ylabel("gradient norm")
    lower.set_xlabel("step")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    with replacing(path) as fresh:
        figure.savefig(fresh)
