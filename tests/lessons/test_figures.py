"""Figures are what the library says, in the terminal and on a page."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import chain, combinations, pairwise

import pytest

from collectives.commands.showing import draw
from collectives.registry import find
from lessons.catalogue import Catalogue
from lessons.figures import (
    Backward,
    Bars,
    Blocks,
    Figure,
    Flights,
    Gathered,
    LayerTimes,
    Matrix,
    Operators,
    Pipelines,
    Plot,
    Replicas,
    Reshard,
    Run,
    Seats,
    Shards,
    Stacks,
    Steps,
    Sweep,
    Timetable,
    Waits,
    Winners,
)
from lessons.figures.axis import across, upwards
from lessons.figures.curves import curves
from lessons.figures.markup import inline
from lessons.figures.winners import Case, found
from lessons.manifest import COURSE, lesson_numbered
from sim.draw.palette import turned
from sim.draw.shapes import Line, Picture, Rect, drawn_width, text_width
from sim.draw.shapes import Text as Label

SAY = Catalogue()
WAITING = "lessons.course.01_send_and_receive.facts:receive_first"
KINDS: dict[str, Figure] = {
    "steps": Steps("ring", 4),
    "operators": Operators(),
    "waits": Waits(WAITING, 4),
    "run": Run("ring", 4),
    "sweep": Sweep(("ring", "recursive_doubling"), 8, machine="dgx-h100"),
    "seats": Seats(pp=4, dp=2, tp=4, marked=5),
    "winners": Winners((Case("gpt2-xl", 1, 64), Case("gpt3-13b", 8, 512))),
    "flights": Flights("one rank skips a call"),
    "blocks": Blocks(
        (
            (
                "tensor.figure.forward",
                (
                    Matrix("X", "s × h", "all"),
                    "·",
                    Matrix("", "h × 3h", "columns", width=3, parts=3, labels=("Q", "K", "V")),
                    "→",
                    Matrix("heads", "s × h", "columns"),
                    "·",
                    Matrix("O", "h × h", "rows"),
                    "=",
                    Matrix("Y", "s × h", "sum"),
                ),
            ),
        )
    ),
    "layer": LayerTimes((("h100", "dgx-h100"),)),
    "pipelines": Pipelines(("gpipe", "interleaved"), 3, 4, chunks=2),
    "alone": Sweep(("ring",), 4, machine="laptop"),
    "replicas": Replicas(gpus=3, rows=2),
    "backward": Backward(limits=(0, 1 << 40), ranks=4),
    "stacks": Stacks("ledger", "lessons.course.11_memory_ledger.facts:ledgers", "gigabytes", limit=80 * 2**30),
    "plot": Plot("roof", "lessons.course.12_flops_and_days.facts:roof", "intensity", "rate"),
    "linear": Plot("segments", "lessons.course.14_recompute.facts:segments", "segments", "bytes", log=""),
    **{
        kind.__name__.lower(): next(one for one in lesson_numbered(number).figures.values() if isinstance(one, kind))
        for kind, number in ((Bars, 13), (Timetable, 15))
    },
    "shards": Shards(),
    "gathered": Gathered(),
    "reshard": Reshard(11, 4, 3),
}
every = pytest.mark.parametrize("figure", KINDS.values(), ids=KINDS.keys())


def text(figure: Figure, width: int = 80) -> str:
    return "\n".join(line.plain for line in figure.lines(SAY, width))


class Rows(HTMLParser):
    """The cells of every table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.tables[-1][-1][-1] += data.replace("\u00a0", " ")


class Balanced(HTMLParser):
    """Raises if a tag is closed that is not open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("input", "meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@every
def test_rows_of_numbers_are_whole_and_no_line_ends_behind_a_number(figure: Figure) -> None:
    folded = re.findall(r"<details>.*?</details>", figure.html(SAY), re.DOTALL)
    for rows in (Rows(one).tables[0] for one in folded):
        assert {len(row) for row in rows} == {len(rows[0])}
    for row in re.findall(r"<tbody>(.*?)</tbody>", "".join(folded), re.DOTALL):
        assert not re.search(r"\d [^<]", row)


@every
@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_fit(figure: Figure, width: int) -> None:
    assert max(line.cell_len for line in figure.lines(SAY, width)) <= width


@every
def test_markup_is_well_formed(figure: Figure) -> None:
    assert Balanced(figure.html(SAY)).open == []


@every
def test_ids_of_a_figure_are_its_own(figure: Figure) -> None:
    """Two pictures on one page must not share a pattern or a title."""
    ids = re.findall(r'\bid="([^"]+)"', figure.html(SAY).partition("<iframe")[0])
    assert len(ids) == len(set(ids))
    assert all(re.match(r"p[0-9a-f]{8}-", one) for one in ids)


def test_steps_in_the_terminal_are_those_of_show() -> None:
    shown = {
        re.sub(r"\[[^\]]*\]", "", line).strip() for line in draw(find("reduce_scatter", "ring"), 4) if "rank" in line
    }
    mine = {line.strip() for line in text(Steps("ring", 4, "reduce_scatter"), 60).split("\n")}
    assert {line for line in shown if line.startswith("rank")} <= mine


def test_steps_stand_beside_each_other_where_there_is_room() -> None:
    assert len(text(Steps("ring", 3), 100).split("\n")) < len(text(Steps("ring", 3), 80).split("\n")) * 0.75


def test_steps_on_a_page_are_the_same_moves() -> None:
    tables = Rows(Steps("ring", 4).html(SAY)).tables
    assert len(tables) == 7
    assert tables[0][1] == ["rank 0", "0", "0", "0", "0"]
    assert tables[1][1] == ["rank 0", "0", "0", "+03", "0", "← 2 from rank 3"]
    assert tables[-1][1] == ["rank 0", "0123", "=0123", "0123", "0123", "← 1 from rank 3"]


def test_steps_without_a_working_buffer() -> None:
    tables = Rows(Steps("direct", 3, "all_to_all").html(SAY)).tables
    assert tables[-1][1][1:4] == ["=0→0", "=1→0", "=2→0"]


def test_operators_are_the_contracts() -> None:
    tables = Rows(Operators().html(SAY)).tables
    assert len(tables) == 16
    reduce_scatter = tables[11]
    assert [row[1:] for row in reduce_scatter[1:]] == [["012", "·", "·"], ["·", "012", "·"], ["·", "·", "012"]]
    assert "rank 2  2→0 2→1 2→2  → 0→2 1→2 2→2" in text(Operators())


def test_waits_are_those_of_the_prover() -> None:
    said = " ".join(text(Waits(WAITING, 3)).split())
    assert "rank 0 ─→ rank 2 ─→ rank 1 ─┐" in said
    assert "all 3 receive first" in said
    assert "all 3 receive first" in Waits(WAITING, 3).html(SAY)


def test_waits_refuses_what_does_not_wait() -> None:
    with pytest.raises(ValueError, match="does not stand still"):
        Waits("ring", 4).lines(SAY, 80)


def test_a_run_has_the_time_of_the_simulator() -> None:
    assert "37.46 us" in text(Run("ring", 4))
    page = Run("ring", 4).html(SAY)
    assert "37.46 us" in page.partition("<iframe")[0]
    assert 'sandbox="allow-scripts"' in page
    assert "&lt;script" in page
    assert "<script" not in page


def test_a_sweep_marks_the_fastest() -> None:
    rows = [line.split("  ") for line in text(KINDS["sweep"]).split("\n") if "iB" in line]
    assert [("*" in row[-1]) for row in rows] == [True, True, True, False]
    table = Rows(KINDS["sweep"].html(SAY)).tables[0]
    assert table[0] == ["size", "ring", "recursive_doubling"]
    assert len(table) == 12
    assert all("".join(row).count("*") == 1 for row in table[1:])


def test_a_single_curve_is_drawn_with_bars() -> None:
    bars = [line.count("█") for line in text(KINDS["alone"]).split("\n") if "iB" in line]
    assert bars == sorted(bars)
    assert bars[0] < 6
    assert "*" not in text(KINDS["alone"])


def test_a_step_by_threads_is_longer_than_by_processes() -> None:
    title = text(KINDS["replicas"]).split("\n")[0]
    threads, processes = (float(one) for one in re.findall(r"\(([\d.]+) ms\)", title))
    assert threads > processes
    rows = [line.split()[:2] for line in text(KINDS["replicas"]).split("\n")]
    assert [row for row in rows if row[:1] in (["DP"], ["DDP"])] == [
        [form, str(device)] for form in ("DP", "DDP") for device in range(3)
    ]


def test_buckets_of_every_size_send_the_same_bytes() -> None:
    figure = Backward()
    sent = [sum(span.bytes for span in figure.spans(limit)) for limit in figure.limits]
    assert sent == [4 * 124_439_808] * 3


def test_blocks_are_held_by_whom_the_library_says() -> None:
    drawn = text(KINDS["blocks"])
    assert "•••• · 001100110011 →  0011 ·  0000 =  ++++" in drawn
    assert Matrix("", "", "columns", parts=3).runs(2, 12) == [
        (0, 0, 2), (0, 4, 2), (0, 8, 2), (1, 2, 2), (1, 6, 2), (1, 10, 2),
    ]  # fmt: skip
    assert [len(line.split("=")) for line in text(KINDS["blocks"], 30).split("\n")].count(2) == 1


def test_sums_take_more_of_a_layer_the_more_ranks_share_it() -> None:
    figure = LayerTimes((("a100", "p4d"),))
    times = [figure.seconds("a100", "p4d", ranks) for ranks in figure.ranks]
    assert times[0][1] == 0
    assert [one[0] for one in times] == sorted((one[0] for one in times), reverse=True)
    assert [one[1] for one in times] == sorted(one[1] for one in times)
    assert "7.654 ms, 64%" in text(figure)


@pytest.mark.parametrize("width", [40, 80])
def test_a_stack_is_as_long_as_its_size(width: int) -> None:
    stacks = KINDS["stacks"]
    assert isinstance(stacks, Stacks)
    rows = stacks.rows()
    bars = [line for line in text(stacks, width).split("\n") if " GB" in line and "|\u00a0" not in line][: len(rows)]
    sizes = [sum(row.parts.values()) for row in rows]
    drawn = [max(len(run) for run in re.findall(r"[PGOAM]+", line)) for line in bars]
    assert all(abs(one / drawn[0] - size / sizes[0]) < 0.1 for one, size in zip(drawn, sizes, strict=True))
    assert all(("|" in bar) == (size < stacks.limit) for bar, size in zip(bars, sizes, strict=True))


def test_a_stack_has_all_its_numbers_on_a_page() -> None:
    table = Rows(KINDS["stacks"].html(SAY)).tables[0]
    assert table[0] == ["what", "parameters", "gradients", "optimizer", "activations", "for a moment, and gaps"]
    assert table[1][:4] == ["batch 8, all kept", "3.1 GB", "3.1 GB", "18.7 GB"]


def test_a_plot_has_its_curves_and_its_points() -> None:
    table = Rows(KINDS["plot"].html(SAY)).tables[0]
    assert table[0] == ["FLOPs a byte of memory traffic", "A100", "H100"]
    assert table[6] == ["153", "312", "513"]
    assert table[8] == ["295", "312", "989"]
    assert table[11] == ["one token times a matrix (H100): 1", "", "3.35"]
    assert "one token times a matrix (H100): 1 → 3.35" in text(KINDS["plot"])


def test_words_of_a_legend_are_evenly_apart() -> None:
    words = ["MLP", "attention's matrices", "illicit", "WWW"]
    assert [round(drawn_width(word, 10)) for word in words] == [23, 102, 28, 27]
    assert all(drawn_width(word, 10) <= text_width(word, 10) * 1.4 for word in words)
    assert drawn_width("环形", 10) == 20


def test_axes_have_round_numbers() -> None:
    below = across(range(1, 17), str, log=False)
    assert (below.ticks, below.share(1), below.share(16)) == ([5, 10, 15], 0, 1)
    assert across([4.0**power for power in range(9)], str).ticks == [4.0**power for power in range(0, 9, 2)]
    assert upwards([0.1, 3.3], str, log=False).ticks == [0, 1, 2, 3, 4]
    assert upwards([3e5, 1.9 * 2**20], str, log=False, unit=2**20).ticks == [i * 2**19 for i in range(5)]
    powers = upwards([0.2, 40], str)
    assert (powers.ticks, powers.share(1)) == ([0.1, 1, 10, 100], pytest.approx(1 / 3))


def test_letters_on_a_dark_page_are_those_that_can_be_read_there() -> None:
    box = Rect(0, 0, 50, 20, "#009E73")
    shapes = [box, Label(25, 10, "B0", 11, "#000000", "middle"), Label(100, 10, "stage 0", 19, "#1B2330")]
    drawn = inline(Picture(200, 20, "a", "b", shapes))
    assert re.findall(r'<text (class="same" )?.*?>(.*?)<', drawn) == [('class="same" ', "B0"), ("", "stage 0")]
    assert "--least:173px" in drawn  # at which its smallest letters, of 11 pixels, have 9.5
    assert [turned(colour) for colour in ("#FFFFFF", "#000000", "#777777")] == ["#000000", "#FFFFFF", "#888888"]


def test_names_of_points_touch_neither_curves_nor_each_other() -> None:
    figure = KINDS["plot"]
    assert isinstance(figure, Plot)
    data = figure.data()
    points = {SAY(f"plot.point.{name}"): at for name, at in data.points.items()}
    values = [*chain.from_iterable(data.curves.values()), *(value for _, value in points.values())]
    picture = curves(data.x, data.curves, "", (across(data.x, str), upwards(values, str)), points)
    names = [shape for shape in picture.shapes if isinstance(shape, Label) and shape.text in points]
    lines = [shape.points for shape in picture.shapes if isinstance(shape, Line) and len(shape.points) > 2]
    assert (len(names), len(lines)) == (len(points), len(data.curves))
    boxes = []
    for name in names:
        left = name.x - text_width(name.text, name.size) * (name.anchor == "end")
        boxes.append((left, name.y - 8, left + text_width(name.text, name.size), name.y + 8))
    for left, top, right, bottom in boxes:
        for (x, y), (to_x, to_y) in (pair for line in lines for pair in pairwise(line)):
            places = [(x + (to_x - x) * at / 200, y + (to_y - y) * at / 200) for at in range(201)]
            assert not [at for at in places if left <= at[0] <= right and top <= at[1] <= bottom]
    for one, other in combinations(boxes, 2):
        assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]


def test_every_figure_of_the_course_is_drawn_on_both() -> None:
    for lesson in COURSE:
        for figure in lesson.figures.values():
            assert text(figure)
            assert Balanced(figure.html(SAY)).open == []


def test_figures_speak_another_language(monkeypatch: pytest.MonkeyPatch) -> None:
    say = Catalogue()
    words = {"show.rank": "进程 {rank}", "rank": "进程 {rank}", "show.chunk": "块"}
    table = say.table
    monkeypatch.setattr(say, "table", lambda name: words if name == "sim" else table(name))
    assert "进程 3" in "\n".join(line.plain for line in Steps("ring", 4).lines(say, 80))
    for figure in KINDS.values():
        assert max(line.cell_len for line in figure.lines(say, 80)) <= 80
    assert "进程 3" in KINDS["run"].html(say)


def test_naming_figures_costs_nothing() -> None:
    heavy = ("torch", "numpy", "networkx", "rich", "sim")
    code = f"import lessons.manifest, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("number", [0, 1, 4, 5])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_steps_circles_and_runs_fit_a_narrow_screen(number: int, language: str) -> None:
    for figure in COURSE[number].figures.values():
        lines = figure.lines(Catalogue(language), 40)
        assert max(line.cell_len for line in lines) <= 40, [line.plain for line in lines]


def test_seats_are_those_of_the_mesh() -> None:
    said = text(KINDS["seats"])
    assert "machine 2   pp 2 dp 0 tp 0-3: 16 17 18 19" in said
    for group in ("tp: 4 5 6 7", "dp: 1 5", "pp: 5 13 21 29"):
        assert group in said
    page = KINDS["seats"].html(SAY)
    assert page.count(">tp<") == 3
    assert page.count(">pp<") == 3
    assert page.count(">dp<") == 1


def test_the_best_strategy_of_a_case_is_marked_and_those_that_do_not_fit_say_so() -> None:
    cells = found(Case("gpt3-13b", 1, 64))
    assert cells["ZeRO-Offload"].seconds > 0
    assert cells["DDP"].seconds == 0
    said = text(Winners((Case("gpt3-13b", 1, 64),)))
    assert "1.00× *" in said
    assert f"{cells['DDP'].least / 1e9:,.0f} GB" in said


def test_a_flight_that_was_never_called_is_empty() -> None:
    rows = Rows(KINDS["flights"].html(SAY)).tables[0]
    assert rows[3][1:] == ["✓ all_reduce of 8", ""]
    assert rows[1][2].startswith("… all_reduce")


def test_notes_of_blocks_explain_only_the_signs_that_stand_there() -> None:
    split = Matrix("W", "h × h", "columns")
    alone = Blocks((("tensor.figure.fused", (split,)),))
    both = Blocks((("tensor.figure.forward", (Matrix("X", "s × h", "all"), "·", split)),))
    assert "•" not in alone.html(SAY)
    assert "Sheets" not in alone.html(SAY)
    assert "•: every rank has all of it." in both.html(SAY)
    assert "Sheets" not in both.html(SAY)
    assert "Sheets on one another" in KINDS["blocks"].html(SAY)
    assert "+: every rank" in " ".join(text(KINDS["blocks"]).split())


def test_seats_say_what_stands_in_a_cell() -> None:
    note = re.search(r'<p class="note">(.*?)</p>', Seats(pp=4, dp=2, tp=4, marked=5).html(SAY))
    assert note
    assert "its place pp·dp·tp. Framed: rank 5" in note[1]


def test_no_line_ends_between_a_number_of_a_table_and_its_unit() -> None:
    table = lesson_numbered(27).figures
    assert "87.04\u00a0s</td>" in "".join(one.html(SAY) for one in table.values())
