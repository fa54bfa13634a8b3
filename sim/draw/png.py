"""A picture as PNG, through matplotlib, which is imported when it is needed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .shapes import CJK_FONTS, Circle, Line, Picture, Rect, Text

_POINTS = 0.72  # a pixel of the picture is 1/100 inch
_SHARP = 200  # dots an inch: twice as many pixels as the picture has


def check_png() -> None:
    """
    Raises:
        ValueError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(
            'a PNG needs matplotlib: pip install "ringlab[viz]" (or ".[viz]" in its folder), or name a .svg'
        )


def write_png(picture: Picture, path: Path) -> None:
    check_png()
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle as Disc
    from matplotlib.patches import FancyArrowPatch, Rectangle

    installed = font_manager.get_font_names()
    families = ["sans-serif", *(name for name in CJK_FONTS if name in installed)]
    figure = Figure(figsize=(picture.width / 100, picture.height / 100), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, picture.width)
    axes.set_ylim(picture.height, 0)
    axes.axis("off")
    for order, shape in enumerate(picture.shapes):
        match shape:
            case Rect(x, y, width, height, fill, pattern, stroke):
                box = Rectangle((x, y), width, height, facecolor=fill, zorder=order, linewidth=0.5)
                box.set_edgecolor(stroke or "none")
                axes.add_patch(box)
                if pattern:
                    hatch = {"hatch": "////", "dots": "...."}[pattern]
                    axes.add_patch(
                        Rectangle(
                            (x, y), width, height, fill=False, hatch=hatch, edgecolor="#FFFFFF66", lw=0, zorder=order
                        )
                    )
            case Circle(x, y, radius, fill, stroke):
                axes.add_patch(Disc((x, y), radius, facecolor=fill, edgecolor=stroke or "none", zorder=order))
            case Line(points, stroke, width, dashed, arrow):
                axes.plot(
                    *zip(*points, strict=True),
                    color=stroke,
                    lw=width * _POINTS,
                    ls="--" if dashed else "-",
                    zorder=order,
                )
                if arrow:
                    head = FancyArrowPatch(*points[-2:], arrowstyle="-|>", mutation_scale=7, color=stroke, zorder=order)
                    axes.add_patch(head)
            case Text(x, y, text, size, fill, anchor, bold):
                axes.text(
                    x,
                    y,
                    text.replace("$", r"\$"),
                    size=size * _POINTS * 0.94,  # matplotlib's own font is wider than a browser's
                    color=fill,
                    family=families,
                    ha={"start": "left", "middle": "center", "end": "right"}[anchor],
                    va="center_baseline",
                    weight="bold" if bold else "normal",
                    zorder=order,
                )
    figure.savefig(path, dpi=_SHARP, format="png")
