"""The options of every command that can draw, and the files that they ask for."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from collectives import span
from collectives.atomic import check_writable, replacing, write_text

from ..replay import Replay

_OPTIONS = ("trace", "svg", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("pictures")
    group.add_argument("--html", metavar="FILE", help="one page that replays the run, for any browser, offline")
    group.add_argument("--svg", metavar="FILE", help="a chart for paper; a name that ends in .png gives a PNG")
    group.add_argument(
        "--trace", metavar="FILE", help="a Chrome trace, for https://ui.perfetto.dev; .gz at the end packs it"
    )


def check(args: argparse.Namespace) -> None:
    """Before the run.

    Raises:
        ValueError: a file cannot be written, is meant for two things, or needs what is not installed.
    """
    taken: dict[str, str] = {}
    for option in ("json", *_OPTIONS):
        path = getattr(args, option, None)
        if not path or (option == "json" and path == "-"):
            continue
        if path == "-":
            raise ValueError(f"--{option} -: write a file name")
        if path.endswith(("/", os.sep)):
            raise ValueError(f"--{option} {path}: this is a folder; name a file in it")
        check_writable(f"--{option}", path)
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise ValueError(f"--{other} and --{option} are both {path}: give each its own file")
    if args.svg and Path(args.svg).suffix.lower() not in (".svg", ".png"):
        raise ValueError(f"--svg {args.svg}: use a name that ends in .svg or .png")
    if args.svg and _is_png(args.svg):
        from .png import check_png

        check_png()


def draw(args: argparse.Namespace, run: Replay) -> None:
    """Write the files that were asked for, each all or nothing, and say so on stderr."""
    writers: dict[str, Callable[[str, Replay], None]] = {"trace": write_trace, "svg": write_svg, "html": write_html}
    for option in _OPTIONS:
        path = getattr(args, option)
        if path:
            writers[option](path, run)
            print(f"# wrote {path}", file=sys.stderr)


def write_html(path: str, run: Replay) -> None:
    from .html import html

    write_text(path, html(run))


def write_svg(path: str, run: Replay) -> None:
    """An SVG, or a PNG if the name says so."""
    from .chart import chart

    if _is_png(path):
        from .png import write_png

        with replacing(path) as fresh:
            write_png(chart(run), fresh)
    else:
        from .svg import svg

        write_text(path, svg(chart(run)))


def write_trace(path: str, run: Replay) -> None:
    """A process a rank, arrows for messages, and curves of what links carried and ranks held; gzipped for ``.gz``."""
    counters = [
        replace(curve, name=f"{what} {curve.name}")
        for what, curves in (("link", run.links), ("memory", run.memory))
        for curve in curves
    ]
    metadata = {"title": run.title, "unit": run.unit, **run.facts}
    names = dict(enumerate(run.names))
    if path.lower().endswith(".gz"):
        trace = json.dumps(span.chrome_trace(run.spans, names, metadata, counters), separators=(",", ":")) + "\n"
        with replacing(path) as fresh:
            fresh.write_bytes(gzip.compress(trace.encode(), mtime=0))
    else:
        span.write(path, run.spans, names, metadata, counters)


def _is_png(path: str) -> bool:
    return Path(path).suffix.lower() == ".png"
