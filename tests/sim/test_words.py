"""Pictures in other languages: every fixed word can be replaced."""

import io
import json
import re
import shutil
import string
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from rich.text import Text as Marked

from collectives.commands import showing
from collectives.registry import algorithms, find
from collectives.span import Span
from sim import collective_replay, pipeline, pipeline_replay
from sim.collective import simulate
from sim.commands.outcome import facts
from sim.draw import terminal
from sim.draw.chart import chart
from sim.draw.html import html
from sim.draw.pictures import write_trace
from sim.draw.shapes import Text
from sim.draw.svg import svg
from sim.presets import find_machine
from sim.replay import Curve, Moved, Replay
from sim.words import ENGLISH, IN_ENGLISH, Words

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
UNITS = {"KiB", "MiB", "GiB", "GB", "ms", "us", "ns"}
COLLECTIVES = {"all_reduce", "all_to_all", "broadcast"}
ALGORITHMS = {"ring", "channels", "pairwise", "naive", "interleaved", "zbv"}
DEVICES = {"dgx", "node", "gpu", "nvswitch", "rail"}
IDENTIFIERS = UNITS | COLLECTIVES | ALGORITHMS | DEVICES | {"Home", "End"}


def foreign(key: str) -> str:
    """The word in no language: its id, marked, and its fields behind it."""
    fields = dict.fromkeys(field for _, field, _, _ in string.Formatter().parse(ENGLISH[key]) if field)
    return f"‹{key}›" + "".join(f" {{{field}}}" for field in fields)


FOREIGN = {key: foreign(key) for key in ENGLISH}


def english_in(texts: Iterable[str]) -> set[str]:
    """The words that are left where marked ones are taken out; identifiers and units are no words."""
    found = {word for text in texts for word in re.findall(r"[A-Za-z_]{2,}", re.sub(r"‹[\w.]*›?", " ", text))}
    return found - IDENTIFIERS


def drawn(words: Words) -> list[Replay]:
    """What the simulator draws: collectives and pipelines, with all that they can have."""
    runs = []
    collectives = (("all_reduce", "ring:channels=2", 4), ("all_to_all", "pairwise", 3), ("broadcast", "naive", 1))
    for op, name, size in collectives:
        schedule, machine = find(op, name), find_machine("dgx-h100")
        outcome = simulate(schedule, machine.network(None, size, None, 0), 1 << 20, machine.costs, events=True)
        runs.append(collective_replay.replay(outcome, facts(outcome, machine), words))
    outcome = simulate(find("all_reduce", "ring"), find_machine("dgx-a100").network(2, 4), 64, events=True)
    runs.append(collective_replay.replay(outcome, {}, words))
    for name, stages, times in (
        ("1f1b", 9, pipeline.Times(p2p=0.5, optimizer=1, sync=True)),
        ("interleaved", 2, pipeline.Times(p2p=0.1)),
        ("zbv", 2, pipeline.Times()),
        ("1f1b", 1, pipeline.Times()),
    ):
        runs.append(pipeline_replay.replay(pipeline.simulate(name, stages, stages, times=times), words))
    return runs


def everything(words: Words) -> Replay:
    """Boxes of every kind, numbers of every key, and more links than a terminal lists."""
    names = [
        ("compute", "F 0 c0"), ("compute", "F 0 c1"), ("compute", "B 0"), ("compute", "I 0"), ("compute", "W 0"),
        ("compute", "R 0"), ("compute", "sync"), ("compute", "optimizer"), ("compute", "1"), ("launch", "launch"),
        ("operation", "all_reduce"), ("send 0", "send 1-2"), ("send 0", "send to 1"), ("recv 0", "recv 1"),
        ("recv 0", "recv from 1"), ("recv 1", "receive from 1"), ("reduce 0", "reduce"), ("send", "activation 1"),
        ("send", "gradient 1"),
    ]  # fmt: skip
    spans = [Span(0, stream, name, i, i + 1.0, 1024, "0->1") for i, (stream, name) in enumerate(names)]
    links = [Curve(f"0->{i}", "GB/s", [0.0, 9.0], [5.0, 0.0], 50.0) for i in range(25)]
    memory = [Curve("0", unit, [0.0], [2.0], 3.0) for unit in ("microbatches", "activations")]
    numbers: dict[str, float | str] = {key.removeprefix("fact."): 1 for key in ENGLISH if key.startswith("fact.")}
    moves = [Moved(0, 0, 1, 5.0, 15.0, True, 2)]
    return Replay("", numbers, [], spans, 2, [[1, 1], [1, 1]], moves, links, memory, "slots", words)


def terminal_texts(run: Replay, width: int) -> list[str]:
    return [
        terminal.gantt(run, width),
        *([terminal.links(run, width)] if run.links else []),
        *([terminal.grid(run, run.moves[0].end, width)] if run.moves else []),
    ]


class Markup(HTMLParser):
    """What of a page is read: its texts, and the attributes that say something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.lang = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.lang = self.lang or dict(attrs).get("lang") or ""
        self.texts += [value or "" for key, value in attrs if key in ("title", "aria-label")]

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.texts.append(data)


def page_words(page: str) -> dict[str, str]:
    words: dict[str, str] = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["words"]  # type: ignore[index]
    return words


def fake_stdout(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))


# Words.


def test_what_a_language_lacks_is_english() -> None:
    texts = {"legend.idle": "空闲", "fact.tokens": "词元"}
    words = Words(texts)
    texts["legend.idle"] = "changed"
    assert words("legend.idle") == "空闲"
    assert words("ring.at", time="3 ms") == IN_ENGLISH("ring.at", time="3 ms") == "at 3 ms"
    assert words["ring.at"] == "at {time}"
    assert (words.counted("ranks", 1), words.counted("ranks", 2)) == ("1 rank", "2 ranks")
    assert "fact.tokens" in words
    assert "fact.tokens" not in IN_ENGLISH
    with pytest.raises(KeyError, match="no word"):
        words("no word")


def test_no_id_begins_another() -> None:
    """So that a file of tables can hold them."""
    assert not [(a, b) for a in ENGLISH for b in ENGLISH if b.startswith(a + ".")]


def test_fields_have_names_and_nothing_else() -> None:
    """So that the script of a page can fill them in."""
    for key, text in ENGLISH.items():
        for _, field, form, conversion in string.Formatter().parse(text):
            assert field is None or (field.isidentifier() and not form and not conversion), key


def test_numbers_units_and_spans_of_ones_own_have_words() -> None:
    words = Words({"fact.tokens": "词元", "unit.tokens": "个", "span.rotate": "轮换"})
    spans = [Span(0, "rotate", "rotate 1", 0.0, 1.0)]
    run = Replay("", {"tokens": 3, "loss": 2}, ["0"], spans, memory=[Curve("0", "tokens", [0.0], [7.0])], words=words)
    texts = [shape.text for shape in chart(run).shapes if isinstance(shape, Text)]
    assert {"词元 3   ·   loss 2", "轮换 1", "7 个"} <= set(texts)


# No fixed word of a picture is left.


@pytest.mark.parametrize("run", [*drawn(Words(FOREIGN)), everything(Words(FOREIGN))])
def test_every_word_of_a_picture_can_be_replaced(run: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    assert not english_in(ElementTree.fromstring(svg(chart(run))).itertext())
    assert not english_in(terminal_texts(run, 3000))
    page = Markup(html(run))
    assert page.lang == "‹lang›"
    assert not english_in(page.texts)
    assert page_words(html(run)).items() <= FOREIGN.items()


def test_every_word_of_a_drawn_schedule_can_be_replaced() -> None:
    for schedule in algorithms():
        lines = [Marked.from_markup(line).plain for line in showing.draw(schedule, 4, FOREIGN)]
        assert not english_in(lines) - {schedule.name, schedule.collective}
    assert next(showing.draw(find("all_reduce", "ring"), 4, {})).startswith("[bold]ring all_reduce[/bold] (ranks: 4), ")


def test_every_word_is_in_some_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_stdout(monkeypatch, "utf-8")
    texts = [line for schedule in algorithms() for line in showing.draw(schedule, 4, FOREIGN)]
    texts += showing.draw(find("all_reduce", "ring:channels=2"), 4, FOREIGN)
    for run in (*drawn(Words(FOREIGN)), everything(Words(FOREIGN))):
        texts += [*ElementTree.fromstring(svg(chart(run))).itertext(), *terminal_texts(run, 3000), html(run)]
        texts += terminal_texts(run, 60)  # where names do not fit, the legend says what stands for them
    seen = set(re.findall("‹([^‹›]*)›", " ".join(texts)))
    assert sorted(ENGLISH.keys() - seen) == []


def test_scripts_say_only_words_that_travel_with_the_page() -> None:
    scripts = [path.read_text("utf-8") for path in files("sim.draw").iterdir() if path.name.endswith(".js")]
    calls = re.findall(r"\bsay\((.)", "".join(scripts))
    assert len(calls) > 20
    assert set(calls) == {'"'}


HOOK = """<script>
window.drawn = new Set();
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  window.drawn.add(text);
  fillText.call(this, text, ...rest);
};
</script></head>"""
READ = """<script>
const said = new Set(), box = over.getBoundingClientRect();
const read = () => {
  for (const node of document.querySelectorAll("body *:not(script)")) {
    for (const name of ["title", "aria-label", "aria-valuetext"]) said.add(node.getAttribute(name));
    for (const child of node.childNodes) if (child.nodeType === Node.TEXT_NODE) said.add(child.data);
  }
};
for (const action of [home, forth, toggle, toggle, forth, end, () => pauseAt(run.end / 3)]) { action(); read(); }
for (let y = 0; y < box.height; y += 4) for (const share of [0.3, 0.6, 0.9]) {
  over.onpointermove({ clientX: box.left + share * box.width, clientY: box.top + y });
  said.add(tip.textContent);
}
document.body.dataset.said = JSON.stringify([...said, ...window.drawn].filter(Boolean));
</script></body>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")
@pytest.mark.parametrize("which", ["collective", "pipeline", "everything", "large"])
def test_every_word_that_scripts_write_can_be_replaced(which: str, tmp_path: Path) -> None:
    words = Words(FOREIGN)
    large = Replay("", {}, [], [], 150, [[1] * 150] * 150, [Moved(0, 0, 1, 0.0, 1.0, True, 2)], words=words)
    run = {"everything": everything(words), "large": large}.get(which) or drawn(words)[
        0 if which == "collective" else 4
    ]
    page = html(run).replace("</head>", HOOK).replace("</body>", READ)
    (tmp_path / "page.html").write_text(page, "utf-8")
    command = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--dump-dom"]
    command.append((tmp_path / "page.html").as_uri())
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.search(r'data-said="([^"]*)"', dom)
    assert found, "the scripts ended early"
    said = json.loads(found[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert not english_in(said)
    expected = {
        "collective": {"grid.chunk", "replay.moved", "replay.sent", "replay.filled", "replay.links", "replay.share"},
        "pipeline": {"replay.memory", "replay.now", "replay.idle", "replay.box", "replay.pause", "replay.curve"},
        "everything": {"legend.chunks", "replay.average", "box.when", "ink.other", "unit.slots"},
        "large": {"replay.grid_large", "replay.nothing", "rank"},
    }[which]
    assert expected <= set(re.findall("‹([^‹›]*)›", " ".join(said)))


def test_a_trace_is_the_same_in_every_language(tmp_path: Path) -> None:
    run = everything(IN_ENGLISH)
    write_trace(str(tmp_path / "english"), run)
    write_trace(str(tmp_path / "foreign"), everything(Words(FOREIGN)))
    assert (tmp_path / "english").read_bytes() == (tmp_path / "foreign").read_bytes()
