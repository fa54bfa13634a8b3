"""The pictures on paper and in the terminal, and the trace; the page has ``test_html.py``."""

import argparse
import gzip
import importlib.util
import io
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from rich.cells import cell_len

from collectives.span import Span
from sim.draw import palette, pictures, terminal
from sim.draw.chart import chart
from sim.draw.label import Label, label_of
from sim.draw.moment import complete, held_at, under_way
from sim.draw.rows import rows_of
from sim.draw.shapes import Rect, Text
from sim.draw.svg import svg
from sim.replay import Curve, Moved, Replay

SVG = "{http://www.w3.org/2000/svg}"


def pipeline(unit: str = "slots", slot: float = 1.0) -> Replay:
    """Two stages, two microbatches, backward twice as long: drawn by hand."""
    boxes = [
        (0, "F 0", 0, 1), (0, "F 1", 1, 2), (0, "B 0", 4, 6), (0, "B 1", 7, 9),
        (1, "F 0", 1, 2), (1, "B 0", 2, 4), (1, "F 1", 4, 5), (1, "B 1", 5, 7),
    ]  # fmt: skip
    spans = [Span(rank, "compute", name, start * slot, end * slot) for rank, name, start, end in boxes]
    memory = [Curve(f"stage {rank}", "activations", [0.0, 2.0 * slot], [1.0, 2.0], 3.0) for rank in range(2)]
    facts = {"makespan": 9.0 * slot, "bubble_fraction": 1 / 3}
    return Replay("1f1b", facts, ["stage 0", "stage 1"], spans, memory=memory, unit=unit)


def ring(size: int = 4) -> Replay:
    """A ring all-reduce in rounds of 1 ms."""
    spans, moves = [], []
    for step in range(2 * (size - 1)):
        start, end, reduces = step * 1e-3, (step + 1) * 1e-3, step < size - 1
        for rank in range(size):
            to, chunk = (rank + 1) % size, (rank - step - 1) % size
            holds = step + 2 if reduces else size
            link, message = f"{rank}->{to}", f"{step} {rank}"
            spans.append(Span(rank, "send 0", f"send {chunk}", start, end, 1 << 20, link, message))
            spans.append(Span(to, "recv 0", f"recv {chunk}", start, end, 1 << 20, link, message))
            moves.append(Moved(chunk, rank, to, start, end, reduces, holds))
    whole = 2 * (size - 1) * 1e-3
    links = [Curve(f"{r}->{(r + 1) % size}", "GB/s", [0.0, whole], [50.0 - 10 * r, 0.0], 50.0) for r in range(size)]
    names, starts = [f"rank {rank}" for rank in range(size)], [[1] * size for _ in range(size)]
    return Replay("ring", {"makespan": whole}, names, spans, size, starts, moves, links)


def fake_stdout(monkeypatch: pytest.MonkeyPatch, encoding: str, tty: bool = False) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(stream, "isatty", lambda: tty, raising=False)
    monkeypatch.setattr(sys, "stdout", stream)


# The terminal.


def test_a_schedule_of_slots_is_drawn_a_cell_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    assert terminal.gantt(pipeline()).splitlines() == [
        "1f1b",
        "stage 0 F0F1····B0──··B1──",
        "stage 1 ··F0B0──F1B1──····",
        "        ┴────────────────┴",
        "slots   0                9",
        "        F forward  B backward  · idle",
    ]


def test_without_unicode_it_is_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "ascii")
    text = terminal.gantt(pipeline()) + terminal.links(ring()) + terminal.grid(ring(), 0.003)
    assert "stage 1 ..F0B0--F1B1--....\n        +----" in text
    assert text.isascii()


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8", tty=True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[44;97mF0\x1b[0m" in terminal.gantt(pipeline(), 80)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in terminal.gantt(pipeline(), 80)


@pytest.mark.parametrize("width", [20, 33, 80])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    many = [
        Span(r, "compute", f"{'FB'[i % 2]} {i // 2}", i * 1.7e-3, (i + 0.9) * 1.7e-3)
        for r in range(3)
        for i in range(99)
    ]
    run = Replay("a title that goes on and on and on and on", {}, ["a rank with a long name"] * 3, many)
    for text in (terminal.gantt(run, width), terminal.links(ring(), width), terminal.grid(ring(12), 0.01, width)):
        assert max(len(line) for line in text.splitlines()) <= width


def test_a_run_in_seconds_is_drawn_to_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    spans = [Span(0, "compute", "F 0", 0.0, 1e-3), Span(0, "compute", "B 0", 1.7e-3, 3.73e-3)]
    assert terminal.gantt(Replay("to scale", {}, ["rank 0"], spans), 47).splitlines()[1:4] == [
        "rank 0 F0─────────·······B0────────────────────",
        "       ┴──────────┴─────────┴──────────┴──────┴",
        "ms     0          1         2          3   3.73",
    ]


def test_the_bottleneck_is_the_first_link() -> None:
    lines = terminal.links(ring()).splitlines()
    assert lines[1].split()[:3] == ["0->1", "286.1", "MiB"]
    assert lines[1].endswith("100.0%")
    assert lines[-1].startswith("3->0")
    assert lines[-1].endswith("40.0%")


def test_the_grid_counts_contributions() -> None:
    assert terminal.grid(ring(), 0.003).splitlines() == [
        "chunk  0  1  2  3",
        "rank 0 4* 3  2  1",
        "rank 1 1  4* 3  2",
        "rank 2 2  1  4* 3",
        "rank 3 3  2  1  4*",
    ]


# What pictures are made of.


def test_names_of_spans_become_labels() -> None:
    def label(name: str, stream: str = "compute") -> Label:
        return label_of(Span(0, stream, name, 0.0, 1.0))

    assert label("F 12 c1") == Label("F", ("F12c1", "F12"), 1)
    assert label("W 3") == Label("W", ("W3",))
    assert label("optimizer") == Label("O", ("optimizer", "O"))
    assert label("sync") == Label("S", ("sync", "S"))
    assert label("launch", "launch") == Label("L", ("launch", "L"))
    assert label("send 14-15", "send 0") == Label("send", ("send 14-15", "14-15"))
    assert label("recv 0,4,8,12,…", "recv 0").texts == ("recv 0,4,8,12,…", "0,4,8,12,…")
    assert label("send 3→5", "send 0") == Label("send", ("send 3→5", "3→5"))
    assert label("send to 3", "send 0") == Label("send", ("send to 3", "→3"))
    assert label("recv from 2", "recv 0") == Label("recv", ("recv from 2", "←2"))
    assert label("receive from 2", "recv 0") == Label("recv", ("receive from 2", "←2"))
    assert label("activation 7", "send") == Label("send", ("activation 7", "7"))
    assert label("7-8", "send") == Label("send", ("7-8",))
    assert label("reduce", "reduce 0").kind == "reduce"
    assert label("all_gather 4", "network") == Label("collective", ("all_gather 4", "4"))
    assert label("anything", "anywhere").kind == "other"


def test_a_box_never_shows_a_part_of_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [Span(0, "send 0", "send 14-15", i / 30, (i + 1) / 30, message=f"{i}") for i in range(30)]
    run = Replay("", {}, ["rank 0"], spans)
    texts = {shape.text for shape in chart(run).shapes if isinstance(shape, Text)}
    assert not {"14", "15"} & texts
    for encoding in ("utf-8", "ascii"):
        fake_stdout(monkeypatch, encoding)
        row = terminal.gantt(run, 80).splitlines()[1].removeprefix("rank 0 ")
        assert set(row) <= set(">─-")
        arrows = Replay("", {}, ["rank 0"], [Span(0, "send 0", "send to 3", 0.0, 1.0)])
        assert terminal.gantt(arrows, 20).splitlines()[1] in ("rank 0 →3────", "rank 0 >3----")


def test_numbers_in_a_row_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    spans = [Span(0, "send 0", f"send {9 + i}", float(i), i + 1.0) for i in range(4)]
    assert terminal.gantt(Replay("", {}, ["rank 0"], spans), 20).splitlines()[1] == "rank 0 9──10 11 12 "
    assert terminal.gantt(Replay("", {}, ["rank 0"], spans), 80).splitlines()[1] == "rank 0 9─────10────11────12────"


def test_messages_are_told_by_their_row_and_their_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    spans = [
        Span(0, "send 0", "send 0", 0.0, 2e-3), Span(1, "recv 0", "recv 0", 0.0, 2e-3),
        Span(1, "send 0", "send 0", 2e-3, 4e-3), Span(2, "recv 0", "recv 0", 2e-3, 4e-3),
    ]  # fmt: skip
    assert terminal.gantt(Replay("relay", {}, [], spans), 80).splitlines() == [
        "relay",
        "rank 0 send 0─────······",
        "rank 1 send ······0─────",
        "rank 1 recv 0─────······",
        "rank 2 recv ······0─────",
        "            ┴──────────┴",
        "ms          0          4",
        "            0─ message with chunk 0  · idle",
    ]


def test_channels_keep_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    spans = [Span(0, f"send {channel}", f"send {channel}", 0.0, 1.0) for channel in range(2)]
    lines = terminal.gantt(Replay("", {}, ["rank 0"], spans), 40).splitlines()
    assert [line[:13] for line in lines[1:3]] == ["rank 0 send 0", "rank 0 send 1"]


@pytest.mark.parametrize("width", [24, 40, 80])
@pytest.mark.parametrize("size", [2, 4, 9])
def test_the_legend_explains_what_is_drawn_and_nothing_else(size: int, width: int) -> None:
    _, *lines = terminal.gantt(ring(size), width).splitlines()
    axis = next(number for number, line in enumerate(lines) if "┴" in line)
    left = lines[axis].index("┴")
    rows, legend = "".join(line[left:] for line in lines[:axis]), " ".join(" ".join(lines[axis + 2 :]).split())
    assert ("message with chunk" in legend) == bool(re.search(r"\d", rows))
    for mark, word in {">": "send", "<": "receive", "·": "idle"}.items():
        assert (mark in rows) == (f"{mark} {word}" in legend)


def test_an_axis_has_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    for size, width in ((2, 24), (4, 40), (4, 80), (9, 80)):
        lines = terminal.gantt(ring(size), width).splitlines()
        rule, numbers = next((a, b) for a, b in pairwise(lines) if "┴" in a)
        assert rule.strip()[0] == rule.strip()[-1] == "┴"
        unit, first, *_, last = numbers.split()
        assert (unit, first, last) == ("ms", "0", f"{2 * (size - 1)}")
        assert cell_len(numbers) == cell_len(rule)


def test_the_launch_is_in_the_first_row() -> None:
    spans = [Span(rank, "launch", "launch", 0.0, 1.0) for rank in range(2)]
    spans += [Span(0, "recv 0", "recv 1", 1.0, 2.0), Span(0, "send 0", "send 1", 1.0, 2.0)]
    rows = rows_of(Replay("", {}, ["rank 0", "rank 1"], spans))
    assert [(row.rank, row.stream, [span.name for span in row.spans]) for row in rows] == [
        (0, "send 0", ["launch", "send 1"]),
        (0, "recv 0", ["recv 1"]),
        (1, "launch", ["launch"]),
    ]


def test_messages_that_take_no_time_have_no_row() -> None:
    spans = [Span(0, "compute", "F 0", 0.0, 1.0), Span(0, "send", "activation 0", 1.0, 1.0, 0, "0->1", "a")]
    rows = rows_of(Replay("", {}, ["rank 0"], spans))
    assert [row.stream for row in rows] == ["compute"]


def test_a_run_in_which_nothing_happens_has_no_length(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    run = Replay("nothing", {"bottleneck": ""}, ["rank 0"], [], links=[Curve("0->1", "GB/s", [0.0], [0.0], 50.0)])
    assert terminal.gantt(run).splitlines() == ["nothing", "rank 0 "]
    assert "0->1" in terminal.links(run)
    assert "over 0 s" in chart(run).description


def test_spans_that_overlap_have_lanes_of_their_own() -> None:
    spans = [
        Span(0, "send 0", "send 1", 0.0, 2.0),
        Span(0, "send 0", "send 2", 1.0, 3.0),
        Span(0, "compute", "F 0", 0.0, 1.0),
    ]
    rows = rows_of(Replay("", {}, ["rank 0", "rank 1"], spans))
    assert [(row.rank, row.stream, row.main, len(row.spans)) for row in rows] == [
        (0, "compute", True, 1),
        (0, "send 0", False, 1),
        (0, "send 0", False, 1),
        (1, "compute", True, 0),
    ]


def test_a_moment_of_a_collective() -> None:
    run = ring()
    assert held_at(run, 0.0) == [[1] * 4] * 4
    assert held_at(run, 0.0015)[1][3] == 2
    assert held_at(run, 0.006) == [complete(run)] * 4 == [[4] * 4] * 4
    assert [(move.chunk, move.source) for move in under_way(run, 0.0015)] == [(2, 0), (3, 1), (0, 2), (1, 3)]
    assert under_way(run, 0.006) == []


def test_text_on_every_colour_can_be_read() -> None:
    for colour in [ink.light for ink in palette.INKS.values()] + [palette.scale(i, 9) for i in range(9)]:
        ink = palette.text_on(colour)
        light, low = (palette._luminance(c) + 0.05 for c in (colour, ink))
        assert max(light, low) / min(light, low) >= 4.5, colour


# SVG and PNG.


@pytest.mark.parametrize(
    "run", [pipeline(), pipeline("s", 2e-3), ring(), ring(9), Replay("nothing", {}, ["rank 0"], [])]
)
def test_everything_is_on_the_canvas(run: Replay) -> None:
    picture = chart(run)
    root = ElementTree.fromstring(svg(picture))
    assert root.get("viewBox") == f"0 0 {picture.width:g} {picture.height:g}"
    for shape in picture.shapes:
        if isinstance(shape, Rect):
            assert 0 <= shape.x <= shape.x + shape.width <= picture.width
            assert 0 <= shape.y <= shape.y + shape.height <= picture.height
        if isinstance(shape, Text):
            assert shape.size >= 7
            assert 0 <= shape.y <= picture.height


def test_a_box_is_where_and_what_it_should_be() -> None:
    picture = chart(pipeline())
    root = ElementTree.fromstring(svg(picture))
    boxes = {
        title.text: rect
        for rect in root.iter(SVG + "rect")
        for title in rect.iter(SVG + "title")
        if "compute" in str(title.text)
    }
    assert len(boxes) == 8
    first, last = (
        boxes["stage 0, compute: F 0\n0 slots to 1 slot (1 slot)"],
        boxes["stage 0, compute: B 1\n7 slots to 9 slots (2 slots)"],
    )
    assert float(last.get("width", 0)) == pytest.approx(2 * float(first.get("width", 0)), abs=0.02)
    assert first.get("fill") == "#0072B2"
    texts = [text.text for text in root.iter(SVG + "text")]
    assert {"1f1b", "F0", "B1", "stage 1", "F  forward", "idle", "slots"} <= set(texts)
    assert any("bubble fraction 33.33 %" in str(text) for text in texts)
    in_row = sorted(
        (r.x, r.x + r.width) for r in picture.shapes if isinstance(r, Rect) and r.tip.startswith("stage 0, compute")
    )
    assert all(end <= start + 1e-6 for (_, end), (start, _) in pairwise(in_row))


def test_names_are_escaped() -> None:
    run = Replay('<script> & "co" \x00', {"a<b": "</svg>"}, ["<rank>"], [Span(0, "compute", "</text>", 0.0, 1.0)])
    root = ElementTree.fromstring(svg(chart(run)))
    assert root.findtext(SVG + "title") == '<script> & "co" '
    assert not list(root.iter(SVG + "script"))


def test_a_chunk_has_a_shade() -> None:
    spans = [Span(0, "compute", f"F 0 c{chunk}", chunk, chunk + 1) for chunk in range(2)]
    fills = [r.fill for r in chart(Replay("", {}, ["rank 0"], spans)).shapes if isinstance(r, Rect) and r.tip]
    assert fills == [palette.INKS["F"].light, palette.mix(palette.INKS["F"].light, "#FFFFFF", 0.5)]


# The options of a command.


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    pictures.add_arguments(parser)
    return parser.parse_args(argv)


def test_every_file_that_was_asked_for_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = arguments(*(f"--{kind}={tmp_path / f'x.{kind}'}" for kind in ("trace", "svg", "html")))
    pictures.check(args)
    pictures.draw(args, ring())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"# wrote {tmp_path / f'x.{kind}'}" for kind in ("trace", "svg", "html")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.html", "x.svg", "x.trace"]


def test_places_that_cannot_be_written_are_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in ("trace", "svg", "html"):
        with pytest.raises(ValueError, match=f"--{option} .*does not exist"):
            pictures.check(arguments(f"--{option}", str(tmp_path / "no" / "file")))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="viz"):
        pictures.check(arguments("--svg", str(tmp_path / "x.png")))


def test_names_that_make_no_picture_are_refused(tmp_path: Path) -> None:
    wrong = [
        (["--svg", "x.jpg"], "--svg x.jpg: use a name that ends in .svg or .png"),
        (["--svg", "x"], "--svg x: use a name that ends in .svg or .png"),
        (["--html", f"{tmp_path}/new/"], "this is a folder; name a file in it"),
        (["--html", str(tmp_path)], "this is a folder; name a file in it"),
        (["--html", "-"], "--html -: write a file name"),
        (["--trace", f"{tmp_path}/x.svg", "--svg", f"{tmp_path}/./x.svg"], "--trace and --svg are both"),
    ]
    for argv, sentence in wrong:
        with pytest.raises(ValueError, match=sentence):
            pictures.check(arguments(*argv))
    args = arguments("--html", str(tmp_path / "x"))
    args.json = str(tmp_path / "x")
    with pytest.raises(ValueError, match="--json and --html are both"):
        pictures.check(args)
    args.json = "-"
    pictures.check(args)


def test_a_trace_can_be_packed(tmp_path: Path) -> None:
    for name in ("x.json", "x.json.gz"):
        pictures.write_trace(str(tmp_path / name), ring())
    assert gzip.decompress((tmp_path / "x.json.gz").read_bytes()) == (tmp_path / "x.json").read_bytes()


def test_a_png_has_twice_the_pixels(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for run in (pipeline(), ring()):
        pictures.write_svg(str(tmp_path / "x.PNG"), run)
        data, picture = (tmp_path / "x.PNG").read_bytes(), chart(run)
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert int.from_bytes(data[16:20], "big") == pytest.approx(2 * picture.width, abs=1)
        assert int.from_bytes(data[20:24], "big") == pytest.approx(2 * picture.height, abs=1)


def test_the_trace_has_arrows_and_counters(tmp_path: Path) -> None:
    pictures.write_trace(str(tmp_path / "x.json"), ring())
    trace = json.loads((tmp_path / "x.json").read_text())
    events = trace["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert counters[0] == {"ph": "C", "name": "link 0->1", "pid": 4, "ts": 0.0, "args": {"GB/s": 50.0}}
    assert counters[1] == {"ph": "C", "name": "link 0->1", "pid": 4, "ts": 6000.0, "args": {"GB/s": 0.0}}
    assert len(counters) == 8
    assert {"ph": "M", "name": "process_name", "pid": 4, "args": {"name": "counters"}} in events
    assert sum(event["ph"] == "s" for event in events) == sum(event["ph"] == "f" for event in events) == 24
    assert trace["metadata"] == {"title": "ring", "unit": "s", "makespan": 0.006}
