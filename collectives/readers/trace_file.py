"""Reads a Chrome trace back into spans: one of ours, or any with a process a rank. Needs no torch."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..span import Span


@dataclass(frozen=True)
class Trace:
    """spans: by start; names: how the ranks are called; metadata: what stands beside the events."""

    spans: tuple[Span, ...]
    names: Mapping[int, str]
    metadata: Mapping[str, Any]


def read_trace(path: str | Path) -> Trace:
    """The complete events (``"ph": "X"``) of a trace, plain or gzipped, as spans in seconds. O(events · log events).

    Raises:
        ValueError: the file cannot be read, is no JSON (with the line), or holds no complete event.
    """
    try:
        raw = Path(path).read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"trace {str(path)!r} cannot be read: {error}") from None
    try:
        said = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"trace {str(path)!r}, line {error.lineno}: not JSON ({error.msg}); is it cut off?") from None
    except RecursionError:
        raise ValueError(f"trace {str(path)!r} is nested too deeply for a trace") from None
    events = said.get("traceEvents") if isinstance(said, dict) else said
    metadata = said.get("metadata") if isinstance(said, dict) else None
    if not isinstance(events, list):
        raise ValueError(f"trace {str(path)!r} has no list of traceEvents")
    names: dict[int, str] = {}
    streams: dict[tuple[int, Any], str] = {}
    found: list[Span] = []
    for event in events:
        if not isinstance(event, dict) or not isinstance(event.get("pid"), int):
            continue
        rank = event["pid"]
        args: dict[str, Any] = event["args"] if isinstance(event.get("args"), dict) else {}
        if event.get("ph") == "M" and event.get("name") == "process_name":
            names[rank] = str(args.get("name", f"rank {rank}"))
        elif event.get("ph") == "M" and event.get("name") == "thread_name":
            streams[rank, event.get("tid")] = str(args.get("name", "")).partition(" lane ")[0]
        elif event.get("ph") == "X" and all(_finite(event.get(key)) for key in ("ts", "dur")):
            stream = streams.get((rank, event.get("tid"))) or str(event.get("cat") or event.get("tid"))
            start, nbytes = event["ts"] * 1e-6, args.get("bytes", 0)
            end = start + max(0.0, event["dur"] * 1e-6)
            nbytes = nbytes if isinstance(nbytes, int) else 0
            found.append(Span(rank, stream, str(event.get("name", "")), start, end, nbytes, str(args.get("link", ""))))
    if not found:
        raise ValueError(f'trace {str(path)!r} has no complete events ("ph": "X")')
    found.sort(key=lambda span: (span.start, span.rank))
    return Trace(tuple(found), names, metadata if isinstance(metadata, dict) else {})


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e18 and not math.isnan(value)
