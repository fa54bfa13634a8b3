"""A picture as SVG, written by hand: any browser and editor opens it, and every box says on pointing what it is."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from .shapes import CJK_FONTS, Circle, Line, Picture, Rect, Shape, Text, is_wide

_PATTERNS = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M1 0V6" stroke="#fff" stroke-opacity=".38" stroke-width="1.6"/></pattern>'
    '<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<circle cx="1.5" cy="1.5" r=".9" fill="#fff" fill-opacity=".5"/></pattern>'
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="context-stroke"/></marker></defs>'
)


def svg(picture: Picture) -> str:
    width, height = _number(picture.width), _number(picture.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-labelledby="title desc" font-family="{_fonts(picture)}">',
        f'<title id="title">{_safe(picture.title)}</title><desc id="desc">{_safe(picture.description)}</desc>',
        _PATTERNS,
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for shape in picture.shapes:
        lines += _element(shape)
    return "\n".join([*lines, "</svg>\n"])


def _fonts(picture: Picture) -> str:
    """Those of Chinese only where they are needed."""
    wide = any(is_wide(letter) for shape in picture.shapes if isinstance(shape, Text) for letter in shape.text)
    return ", ".join(["system-ui, Helvetica, Arial, DejaVu Sans", *(CJK_FONTS if wide else ()), "sans-serif"])


def _element(shape: Shape) -> Iterator[str]:
    match shape:
        case Rect():
            place = " ".join(f'{key}="{_number(getattr(shape, key))}"' for key in ("x", "y", "width", "height"))
            yield _closed("rect", f"{place} {_paint(shape.fill, shape.stroke)}", shape.tip)
            if shape.pattern:
                yield f'<rect {place} fill="url(#{shape.pattern})" pointer-events="none"/>'
        case Circle():
            place = f'cx="{_number(shape.x)}" cy="{_number(shape.y)}" r="{_number(shape.radius)}"'
            yield _closed("circle", f"{place} {_paint(shape.fill, shape.stroke)}", shape.tip)
        case Line():
            path = "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in shape.points)
            extra = ' stroke-dasharray="4 3"' * shape.dashed + ' marker-end="url(#arrow)"' * shape.arrow
            yield f'<path d="{path}" fill="none" stroke="{shape.stroke}" stroke-width="{_number(shape.width)}"{extra}/>'
        case Text():
            anchor = f' text-anchor="{shape.anchor}"' * (shape.anchor != "start")
            y = _number(shape.y + 0.35 * shape.size)
            yield (
                f'<text x="{_number(shape.x)}" y="{y}" font-size="{_number(shape.size)}" fill="{shape.fill}"{anchor}'
                f'{" font-weight=" + quoteattr("600") if shape.bold else ""} pointer-events="none">'
                f"{_safe(shape.text)}</text>"
            )


def _closed(tag: str, attributes: str, tip: str) -> str:
    return f"<{tag} {attributes}>" + f"<title>{_safe(tip)}</title></{tag}>" if tip else f"<{tag} {attributes}/>"


def _paint(fill: str, stroke: str) -> str:
    return f'fill="{fill}"' + (f' stroke="{stroke}"' if stroke else "")


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _safe(text: str) -> str:
    """Without what XML has no way to say."""
    return escape("".join(c for c in text if c >= " " or c in "\t\n"))
