"""Figures are what the library says, in the terminal and on a page."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from collectives.commands.showing import draw
from collectives.registry import find
from lessons.catalogue import Catalogue
from lessons.figures import Figure, Gathered, Operators, Reshard, Run, Shards, Steps, Sweep, Waits
from lessons.manifest import COURSE

SAY = Catalogue()
WAITING = "lessons.course.01_send_and_receive.facts:receive_first"
KINDS: dict[str, Figure] = {
    "steps": Steps("ring", 4),
    "operators": Operators(),
    "waits": Waits(WAITING, 4),
    "run": Run("ring", 4),
    "sweep": Sweep(("ring", "recursive_doubling"), 8, machine="dgx-h100"),
    "alone": Sweep(("ring",), 4, machine="laptop"),
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
            self.tables[-1][-1][-1] += data


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


def test_every_figure_of_the_course_is_drawn_on_both() -> None:
    for lesson in COURSE:
        for figure in lesson.figures.values():
            assert text(figure)
            assert Balanced(figure.html(SAY)).open == []


def test_figures_speak_another_language(monkeypatch: pytest.MonkeyPatch) -> None:
    say = Catalogue()
    words = {"show.rank": "进程 {rank}", "rank": "进程 {rank}", "show.chunk": "块"}
    table = say.table
    monkeypatch.setattr(say, "table", lambda name: words if name == "pictures" else table(name))
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
