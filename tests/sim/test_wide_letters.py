"""Pictures in Chinese: letters that are twice as wide line up and have room."""

import io
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text as Marked

from collectives.commands import showing
from collectives.registry import find
from collectives.span import Span
from sim.draw import terminal
from sim.draw.chart import chart
from sim.draw.html import html
from sim.draw.label import label_of, spoken
from sim.draw.pictures import write_svg
from sim.draw.shapes import CJK_FONTS, Rect, text_width
from sim.draw.svg import svg
from sim.replay import Curve, Moved, Replay
from sim.words import Words

CHINESE = Words(
    {
        "rank": "进程 {rank}",
        "stage": "阶段 {stage}",
        "legend.idle": "空闲",
        "ink.F": "前向",
        "ink.B": "反向",
        "unit.slots": "格",
        "grid.chunk": "块",
        "links.name": "链路",
        "links.carried": "传输量",
        "span.send": "发送",
        "span.send_to": "向 {rank} 发送",
    }
)


def in_columns(line: str) -> str:
    """A character a column of the terminal."""
    return "".join(letter + "\0" * (cell_len(letter) - 1) for letter in line)


def fake_stdout(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))


def slots(names: list[str]) -> Replay:
    spans = [Span(0, "compute", "F 0", 0, 1), Span(0, "compute", "B 0", 2, 4), Span(1, "compute", "F 0", 1, 2)]
    return Replay("流水线", {}, names, spans, unit="slots", words=CHINESE)


def hops(names: list[str]) -> Replay:
    spans = [Span(0, "send 0", "send to 1", 0.0, 4e-3), Span(1, "recv 0", "recv 1", 0.0, 3.7e-3)]
    links = [Curve("0->1", "GB/s", [0.0], [1.0], 2.0), Curve("交换机->1", "GB/s", [0.0], [20.0], 20.0)]
    moves = [Moved(1, 0, 1, 0.0, 2e-3, True, 2)]
    return Replay("环", {}, names, spans, 2, [[1, 1], [1, 1]], moves, links, words=CHINESE)


def test_names_of_spans_are_said_and_not_changed() -> None:
    assert spoken("send 14-15", CHINESE) == "发送 14-15"
    assert spoken("send to 3", CHINESE) == "向 3 发送"
    assert spoken("F 3 c1", CHINESE) == "F 3 c1"
    assert spoken("sender", CHINESE) == "sender"
    label = label_of(Span(0, "send 0", "send to 3", 0.0, 1.0), CHINESE)
    assert (label.kind, label.texts) == ("send", ("向 3 发送", "→3"))


def test_wide_letters_line_up_in_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    assert terminal.gantt(slots(["阶段 0", "b"]), 40).splitlines() == [
        "流水线",
        "阶段 0 F0··B0──",
        "b      ··F0····",
        "       ┴──────┴",
        "格     0      4",
        "       F 前向  B 反向  · 空闲",
    ]
    assert terminal.grid(hops(["进程 0", "b"]), 2e-3, 40).splitlines() == [
        "块     0  1",
        "进程 0 1* 1",
        "b      1* 2*",
    ]
    assert terminal.links(hops([]), 60).splitlines() == [
        "链路          传输量     mean    limit  utilisation",
        "交换机->1  76.29 MiB  20 GB/s  20 GB/s  ████████████ 100.0%",
        "0->1       3.815 MiB   1 GB/s   2 GB/s  ██████······  50.0%",
    ]
    assert "向 1 发送─" in terminal.gantt(hops([]), 40)


@pytest.mark.parametrize("width", [20, 21, 34, 80])
def test_wide_letters_stay_on_the_screen(width: int) -> None:
    names = ["很长很长很长很长的名字", "b"]
    for text in (
        terminal.gantt(slots(names), width),
        terminal.gantt(hops(names), width),
        terminal.links(hops(names), width),
        terminal.grid(hops(names), 2e-3, width),
    ):
        assert max(map(cell_len, text.splitlines())) <= width


def test_a_screen_without_wide_letters_is_still_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "ascii")
    lines = terminal.gantt(slots(["阶段 0", "b"]), 40).splitlines()
    assert lines[1:3] == ["???? 0 F0..B0--", "b      ..F0...."]


@pytest.mark.parametrize(("op", "name"), [("all_reduce", "ring"), ("all_to_all", "bruck"), ("reduce_scatter", "ring")])
def test_a_drawn_schedule_lines_up(op: str, name: str) -> None:
    words = {
        "show.chunk": "数据块",
        "show.start": "开始",
        "show.local": "本地",
        "show.step": "第 {step} 步",
        "show.rank": "进程 {rank}",
        "show.from": "{chunks} 来自进程 {rank}",
        "show.scratch": "暂存{index}",
        "show.output": "输出{index}",
    }
    lines = [in_columns(Marked.from_markup(line).plain) for line in showing.draw(find(op, name), 3, words)]
    blocks = "\n".join(lines).split("\n\n")[1:]
    assert len(blocks) > 2
    for block in blocks:
        head, *rows = block.splitlines()
        assert head[:15].endswith(in_columns("数据块") + " ")
        starts = [15 + match.start() for match in re.finditer(r"\S+", head[15:])]
        assert op != "all_to_all" or head[15:].split()[:3] == [in_columns(f"输出{rank}") for rank in range(3)]
        assert len(rows) == 3
        for row in rows:
            assert row[:14].strip() == in_columns(f"进程 {rows.index(row)}")
            assert all(row[start] != " " and row[start - 1] in " +=" for start in starts)


def test_wide_letters_have_room_in_the_chart() -> None:
    assert text_width("中文", 10) == 20
    assert text_width("ab→", 10) == pytest.approx(6.5 * 2 + 10)
    shapes = chart(slots(["很长的名字啊", "b"])).shapes
    assert min(shape.x for shape in shapes if isinstance(shape, Rect) and shape.tip) >= 20 + 6 * 12


def test_a_png_has_wide_letters(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    fonts = pytest.importorskip("matplotlib.font_manager")
    if not set(CJK_FONTS) & set(fonts.get_font_names()):
        pytest.skip("no font of wide letters is installed")
    write_svg(str(tmp_path / "x.png"), slots(["阶段 0", "b"]))
    assert not [warning for warning in recwarn if "missing" in str(warning.message)]


def test_fonts_of_wide_letters_are_asked_for_where_they_are_needed() -> None:
    font = re.compile('font-family="([^"]*)"')
    found = [font.search(svg(chart(run)))[1] for run in (Replay("plain", {}, ["0"], []), slots(["0", "1"]))]  # type: ignore[index]
    assert found == [
        "system-ui, Helvetica, Arial, DejaVu Sans, sans-serif",
        "system-ui, Helvetica, Arial, DejaVu Sans, Noto Sans CJK SC, PingFang SC, Microsoft YaHei, sans-serif",
    ]
    assert '"Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif' in html(slots(["0", "1"]))
