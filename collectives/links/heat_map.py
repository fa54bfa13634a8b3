"""A matrix of numbers as a heat map: shades in a terminal, colours in a file. Needs no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from ..atomic import replacing
from .outliers import Link

_SHADES = "░▒▓█"
_WITH_NUMBERS = 16  # ranks; more do not fit into a line


def heat_lines(values: Mapping[Link, float], ranks: int, marked: Sequence[Link] = ()) -> Iterator[str]:
    """Rows are senders, columns receivers; the darker a cell, the nearer to the largest.

    Args:
        marked: links to show with an exclamation mark.
    """
    top = max(values.values(), default=0.0)
    numbers = ranks <= _WITH_NUMBERS
    width = max(max((len(f"{value:.3g}") for value in values.values()), default=1), len(str(ranks))) if numbers else 1
    cell = width + 3 if numbers else 2
    yield "from\\to " + "".join(f"{to:>{cell}}" if numbers or to % 5 == 0 else " " * cell for to in range(ranks))
    for source in range(ranks):
        line = f"{source:>7} "
        for to in range(ranks):
            value = values.get((source, to))
            if value is None:
                line += f"{'·':>{cell}}"
                continue
            shade = _SHADES[min(len(_SHADES) - 1, int(len(_SHADES) * value / top))] if top else _SHADES[0]
            sign = "!" if (source, to) in marked else " "
            line += f" {value:>{width}.3g}{sign}{shade}" if numbers else f"{sign}{shade}"
        yield line.rstrip()


def write_heat_map(path: str | os.PathLike[str], panels: Mapping[str, Mapping[Link, float]], ranks: int) -> None:
    """One panel a title, side by side. Needs matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.5 + max(4.5, 0.4 * ranks) * len(panels), max(4.5, 0.4 * ranks)), layout="constrained")
    for axes, (title, values) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        rows = [[values.get((source, to), float("nan")) for to in range(ranks)] for source in range(ranks)]
        figure.colorbar(axes.imshow(rows, cmap="viridis"), ax=axes, shrink=0.8)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("to rank")
        axes.set_ylabel("from rank")
    with replacing(path) as fresh:
        figure.savefig(fresh, dpi=120)
