"""The page in a real browser: it opens from a file, alone; its chunks move; its numbers are the run's."""

import functools
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from collectives.span import Span
from sim.draw.axis import value_text
from sim.draw.html import html as page
from sim.draw.html import pack
from sim.replay import Curve, Moved, Replay

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")


def one_f_one_b(stages: int, microbatches: int, forward: float = 1.0, backward: float = 2.0) -> Replay:
    """1F1B: every stage does its order, each thing as soon as what it needs is done."""
    orders = []
    for stage in range(stages):
        ahead = min(microbatches, stages - stage)
        order = [("F", i) for i in range(ahead)]
        for i in range(microbatches):
            order += [("B", i)] + ([("F", i + ahead)] if i + ahead < microbatches else [])
        orders.append(order)
    done: dict[tuple[str, int, int], float] = {}
    spans: list[Span] = []
    clocks, at = [0.0] * stages, [0] * stages
    while any(at[stage] < len(orders[stage]) for stage in range(stages)):
        for stage in range(stages):
            while at[stage] < len(orders[stage]):
                kind, i = orders[stage][at[stage]]
                before = stage - 1 if kind == "F" else stage + 1
                if 0 <= before < stages and (kind, before, i) not in done:
                    break
                start = max(clocks[stage], done.get((kind, before, i), 0.0))
                end = start + (forward if kind == "F" else backward)
                done[kind, stage, i] = clocks[stage] = end
                spans.append(Span(stage, "compute", f"{kind} {i}", start, end))
                at[stage] += 1
    makespan = max(clocks)
    facts = {"makespan": makespan, "bubble_fraction": 1 - microbatches * (forward + backward) / makespan}
    memory = [Curve(f"stage {s}", "activations", [0.0, 1.0 + s], [0.0, float(stages - s)]) for s in range(stages)]
    return Replay("1F1B", facts, [f"stage {s}" for s in range(stages)], spans, memory=memory, unit="slots")


def ring(size: int = 8, round_s: float = 1 / 3e3) -> Replay:
    spans, moves = [], []
    for step in range(2 * (size - 1)):
        start, end, reduces = step * round_s, (step + 1) * round_s, step < size - 1
        for rank in range(size):
            to, chunk = (rank + 1) % size, (rank - step - 1) % size
            spans.append(Span(rank, "send 0", f"send {chunk}", start, end, 1 << 20, f"{rank}->{to}"))
            moves.append(Moved(chunk, rank, to, start, end, reduces, step + 2 if reduces else size))
    whole = 2 * (size - 1) * round_s
    facts: dict[str, float | str] = {"time_s": whole, "busbw": 1 / 3, "messages": len(moves), "bottleneck": "a<b"}
    links = [Curve("0->1", "GB/s", [0.0, whole], [50.0, 0.0], 50.0)]
    names, starts = [f"rank {rank}" for rank in range(size)], [[1] * size for _ in range(size)]
    return Replay("ring", facts, names, spans, size, starts, moves, links)


class Opened(HTMLParser):
    """What the browser made of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root: dict[str, str] = {}
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, str] = {}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        if tag == "html":
            self.root = values
        self.elements.append((tag, values))
        self._inside = values.get("id", "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[self._inside] = self.texts.get(self._inside, "") + data


@functools.cache
def opened(path: Path, fragment: str = "") -> Opened:
    """The page after its script has run, which is before it has finished loading."""
    command = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--dump-dom"]
    done = subprocess.run([*command, path.as_uri() + fragment], capture_output=True, text=True, timeout=60, check=True)
    return Opened(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "pipeline.html").write_text(page(one_f_one_b(8, 32)), "utf-8")
    (folder / "ring.html").write_text(page(ring()), "utf-8")
    return folder


def with_script(folder: Path, script: str) -> dict[str, Any]:
    """What ``script``, added at the end of the ring's page, returns."""
    path = folder / "scripted.html"
    call = f"<script>document.body.dataset.result = JSON.stringify((() => {{ {script} }})());</script>"
    path.write_text((folder / "ring.html").read_text("utf-8").replace("</body>", call + "</body>"), "utf-8")
    opened.cache_clear()
    body = next(values for tag, values in opened(path).elements if tag == "body")
    result: dict[str, Any] = json.loads(body["data-result"])
    return result


# The file.


def test_a_page_is_small() -> None:
    assert len(page(one_f_one_b(8, 32)).encode()) < 60_000
    assert len(page(one_f_one_b(8, 32, 1.2345e-3, 2.3456789e-3)).encode()) < 70_000
    assert len(page(one_f_one_b(64, 512)).encode()) < 1_000_000


def test_a_page_asks_for_nothing_from_elsewhere() -> None:
    text = page(ring())
    assert re.findall(r'(?:src|href|url)\s*[=(]\s*"?([^">)\s]+)', text) == ["data:,"]
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text


def test_what_users_name_cannot_break_the_page() -> None:
    evil = "</script><script>alert(1)</script>{{data}}"
    run = Replay(evil, {evil: evil}, [evil], [Span(0, "compute", evil, 0.0, 1.0)])
    text = page(run)
    assert text.count("<script") == 3
    assert text.count("</script>") == 3
    assert json.loads(re.search(r'id="data">(.*?)</script>', text)[1])["names"] == [evil]  # type: ignore[index]


def test_packing_keeps_times() -> None:
    run = pack(one_f_one_b(4, 8))
    assert run["tick"] == 1.0
    assert run["rows"][3][3][:9] == [run["rows"][3][3][0], 3, 1, run["rows"][3][3][3], 0, 2, run["rows"][3][3][6], 0, 1]
    run = pack(ring())
    assert run["end"] * run["tick"] == pytest.approx(14 / 3e3, rel=1e-6)
    assert len(run["moves"]) == 7 * 112


def test_the_numbers_are_those_of_the_run() -> None:
    facts = ring().facts
    found = re.findall(r'data-key="([^"]+)" data-value="([^"]*)"', page(ring()))
    assert {key for key, _ in found} == set(facts)
    for key, value in found:
        expected = facts[key]
        assert html.unescape(value) == expected if isinstance(expected, str) else json.loads(value) == expected


def test_an_empty_number_has_no_card() -> None:
    text = page(Replay("", {"bottleneck": "", "messages": 3}, ["rank 0"], [Span(0, "compute", "F 0", 0.0, 1.0)]))
    assert re.findall(r"<dt>([^<]*)</dt>", text) == ["messages"]


# In the browser.


@browser
def test_a_pipeline_opens_without_errors(folder: Path) -> None:
    shown = opened(folder / "pipeline.html", "#t=40")
    assert shown.root["data-ready"] == "1"
    assert shown.root["data-boxes"] == "512"
    assert float(shown.root["data-t"]) == 40
    assert shown.texts.get("errors", "") == ""
    stage = next(values for _, values in shown.elements if values.get("id") == "stage")
    assert "hidden" in stage, "a pipeline has no ring"
    assert shown.texts["now"].startswith("At 40 slots: stage 0 B 6, stage 1 F 13, stage 2 B 7")


@browser
def test_one_of_a_unit_is_one(folder: Path) -> None:
    facts: dict[str, float | str] = {"makespan": 1.0}
    memory = [Curve("stage 0", "microbatches", [0.0, 1.0], [1.0, 0.0])]
    run = Replay("one", facts, ["stage 0"], [Span(0, "compute", "F 0", 0.0, 1.0)], memory=memory, unit="slots")
    (folder / "one.html").write_text(page(run), "utf-8")
    shown = opened(folder / "one.html", "#t=1")
    assert shown.texts.get("errors", "") == ""
    assert shown.texts["clock"] == "1 slot of 1 slot"
    assert {value_text(n, "microbatches", run.words) for n in (0.0, 0.5, 1.0, 2.0)} == {
        "0 microbatches", "0.5 microbatches", "1 microbatch", "2 microbatches"
    }  # fmt: skip
    path = folder / "texts.html"
    texts = (
        "valueText(0, 'microbatches'), valueText(1, 'microbatches'), valueText(2, 'microbatches'), timeText(run.end)"
    )
    script = f"<script>document.body.dataset.texts = JSON.stringify([{texts}]);</script>"
    path.write_text(page(run).replace("</body>", script + "</body>"), "utf-8")
    body = next(values for tag, values in opened(path).elements if tag == "body")
    assert json.loads(body["data-texts"]) == ["0 microbatches", "1 microbatch", "2 microbatches", "1 slot"]


@browser
def test_a_run_in_which_nothing_happens_opens(folder: Path) -> None:
    links = [Curve("0->1", "GB/s", [0.0], [0.0], 50.0)]
    (folder / "nothing.html").write_text(page(Replay("nothing", {}, ["rank 0"], [], links=links)), "utf-8")
    shown = opened(folder / "nothing.html")
    assert shown.root["data-ready"] == "1"
    assert shown.texts.get("errors", "") == ""
    assert shown.texts["clock"] == "0 s of 0 s"


@browser
@pytest.mark.parametrize(("rounds", "done"), [(0, 0), (1.5, 8), (7, 56), (14, 112)])
def test_chunks_move_with_time(folder: Path, rounds: float, done: int) -> None:
    shown = opened(folder / "ring.html", f"#t={rounds / 3e3:.9g}")
    assert shown.texts.get("errors", "") == ""
    assert shown.root["data-done"] == str(done)
    dots = [v for _, v in shown.elements if v.get("class") == "chunk" and v.get("visibility") == "visible"]
    assert len(dots) == (0 if rounds == 14 else 8)
    complete = sum(values.get("class", "").split()[:1] == ["done"] for tag, values in shown.elements if tag == "td")
    assert complete == {0: 0, 8: 0, 56: 8, 112: 64}[done]
    assert f"{done} of 112 moves done" in shown.texts["moved"]


@browser
def test_slider_buttons_and_keys_move_time(folder: Path) -> None:
    result = with_script(
        folder,
        """
        const key = (key) => {
            document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            return window.__state();
        };
        const click = (id) => { document.getElementById(id).click(); return window.__state(); };
        const slide = (share) => {
            const slider = document.getElementById("slider");
            slider.value = slider.max * share;
            slider.dispatchEvent(new Event("input"));
            return document.querySelector("#ring .chunk circle").getAttribute("cx");
        };
        const moved = slide(0.53) !== slide(0.5), half = window.__state();
        return {
            half, moved, end: key("End"), back: key("ArrowLeft"), home: key("Home"), step: key("ArrowRight"),
            hash: location.hash, clicked: click("step"), playing: key(" "), paused: key(" "),
            dark: (click("theme"), document.documentElement.dataset.theme),
            zoomed: (key("+"), view.to - view.from < run.end), errors: window.__errors, ready: window.__ready,
        };
        """,
    )
    assert result["half"]["done"] == 56
    assert [row[rank] for rank, row in enumerate(result["half"]["grid"])] == [8] * 8
    assert result["moved"]
    assert result["end"]["done"] == 112
    assert result["end"]["grid"] == [[8] * 8] * 8
    assert result["back"]["t"] == pytest.approx(13 / 3e3, rel=1e-6)
    assert result["home"] == {"t": 0, "playing": False, "boxes": 112, "done": 0, "grid": [[1] * 8] * 8}
    assert result["step"]["t"] == pytest.approx(1 / 3e3, rel=1e-6)
    assert float(result["hash"].removeprefix("#t=")) == pytest.approx(1 / 3e3, rel=1e-6)
    assert result["clicked"]["done"] == 16
    assert result["playing"]["playing"]
    assert not result["paused"]["playing"]
    assert result["dark"] == "dark"
    assert result["zoomed"]
    assert result["errors"] == []
    assert result["ready"]
