"""A benchmark run as a picture: ours, the backend's own, the wire and the model. Needs matplotlib, not torch."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic import replacing
from .report import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GREYS = ("-", "-.", ":", "--")


def check_plot(path: str) -> None:
    """Refuse a picture that cannot be drawn, before any work is done.

    Raises:
        ValueError: of another format than .png, .svg and .pdf, or there is no matplotlib.
    """
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--plot {path}: name a .png, .svg or .pdf file")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(f"--plot {path} needs matplotlib: pip install 'ringlab[viz]', or leave --plot out")


def write_plot(
    path: str | os.PathLike[str], environment: dict[str, Any], rows: Sequence[Row], baselines: Sequence[Row] = ()
) -> None:
    """Bus bandwidth over size above, ratio to the backend below; rows of no bytes are left out.

    Solid: ours, as measured; dotted in the same colour: as predicted; black and dashed: the backend; grey: baselines.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8, 7), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    shown = [row for row in rows if row.bytes]
    for algorithm in dict.fromkeys(row.algorithm for row in shown):
        _ours(upper, lower, algorithm, [row for row in shown if row.algorithm == algorithm])
    native = {row.bytes: row for row in shown if row.native_busbw is not None}
    backend = environment["backend"]
    upper.plot(list(native), [row.native_busbw or 0.0 for row in native.values()], "k--", label=f"{backend} itself")
    lower.plot(list(native), [row.null or 1.0 for row in native.values()], "k--")
    beside = [row for row in baselines if row.bytes]
    for number, name in enumerate(dict.fromkeys(row.algorithm for row in beside)):
        mine = [row for row in beside if row.algorithm == name]
        style = _GREYS[number % len(_GREYS)]
        upper.plot([row.bytes for row in mine], [row.busbw for row in mine], style, color="grey", label=name)
    lower.axhline(1.0, color="grey", linewidth=0.8)
    upper.set_ylabel("bus bandwidth (GB/s)")
    lower.set_ylabel(f"time / {backend}'s (below 1: faster)")
    lower.set_xlabel("buffer")
    for axes in (upper, lower):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    lower.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _binary(size)))
    upper.legend(fontsize="small")
    title = f"{shown[0].collective} of {shown[0].dtype}, " if shown else ""
    upper.set_title(f"{title}{environment['ranks']} ranks, {backend}, {', '.join(environment['devices'])}", fontsize=9)
    with replacing(path) as fresh:
        figure.savefig(fresh, dpi=120)


def _ours(upper: Axes, lower: Axes, algorithm: str, rows: Sequence[Row]) -> None:
    """One algorithm: measured, and predicted where that was asked for."""
    (line,) = upper.plot([r.bytes for r in rows], [r.busbw for r in rows], "o-", label=algorithm, markersize=4)
    expected = [(r.bytes, r.busbw * r.time_us / r.expected_us) for r in rows if r.expected_us]
    if expected:
        upper.plot(*zip(*expected, strict=True), ":", color=line.get_color(), label=f"{algorithm}, model")
    ratios = [(r.bytes, r.ratio) for r in rows if r.ratio is not None]
    lower.plot([size for size, _ in ratios], [ratio for _, ratio in ratios], "o-", markersize=4)


def _binary(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"
