"""Traces read back, whole and damaged."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectives.readers.trace_file import read_trace
from collectives.span import Span, write

SPANS = [
    Span(0, "send 0", "send 3", 1e-3, 3e-3, 512, "0->1", "a"),
    Span(1, "recv 0", "recv 3", 1.5e-3, 3e-3, 512, "0->1", "a"),
    Span(1, "reduce 0", "reduce", 3e-3, 3.25e-3, 512),
    Span(1, "send 0", "send 2", 2e-3, 4e-3, 256, "1->0"),  # overlaps nothing of its stream
    Span(1, "send 0", "send 1", 2.5e-3, 4.5e-3, 256, "1->0"),  # but this one does: a lane of its own
]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    write(path, SPANS, {0: "first", 1: "second"}, {"world": 2})
    for packed in (False, True):
        if packed:
            path.write_bytes(gzip.compress(path.read_bytes()))
        trace = read_trace(path)
        assert trace.names == {0: "first", 1: "second"}
        assert trace.metadata == {"world": 2}
        assert [(s.rank, s.stream, s.name, s.bytes, s.link) for s in trace.spans] == [
            (s.rank, s.stream, s.name, s.bytes, s.link) for s in sorted(SPANS, key=lambda s: (s.start, s.rank))
        ]
        for got, wanted in zip(trace.spans, sorted(SPANS, key=lambda s: (s.start, s.rank)), strict=True):
            assert got.start == pytest.approx(wanted.start - 1e-3, abs=1e-9)
            assert got.end == pytest.approx(wanted.end - 1e-3, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1"),
        ("{}", "no list of traceEvents"),
        ('{"traceEvents": []}', "no complete events"),
        ("[" * 100_000, "nested"),
        ('{"traceEvents":\n [{"ph": "X",', "line 2"),
        ('[{"ph": "X", "pid": 0, "ts": NaN, "dur": 1}]', "no complete events"),
        ('[{"ph": "X", "pid": "a", "ts": 1, "dur": 1}]', "no complete events"),
        ("\x1f\x8bnot gzip", "cannot be read"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=words):
        read_trace(path)
    with pytest.raises(ValueError, match="cannot be read"):
        read_trace(tmp_path / "missing.json")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=6)), max_size=4), st.integers(0, 2000), st.booleans()
)
def test_damage_is_a_value_error_or_a_trace(
    tmp_path: Path, edits: list[tuple[int, bytes]], cut: int, packed: bool
) -> None:
    path = tmp_path / "t.json"
    write(path, SPANS)
    data = path.read_bytes()
    data = gzip.compress(data) if packed else data
    for at, new in edits:
        data = data[:at] + new + data[at + len(new) :]
    path.write_bytes(data[: max(10, len(data) - cut // 2)])
    with contextlib.suppress(ValueError):  # and nothing else
        assert read_trace(path).spans
