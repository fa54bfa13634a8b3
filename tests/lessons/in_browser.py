"""Pages in a real browser, and as a parser sees them."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")
SCRIPTS = ("in_page.js", "in_site.js")


class Elements(HTMLParser):
    """Every element with its attributes, and the text of each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = [""]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in ("input", "meta", "link", "br", "wbr"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"{tag} is closed but not open"

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1], data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [values for name, values in self.elements if name == tag]


def opened(path: Path, ask: str, width: int = 1200, scheme: str = "light") -> tuple[Any, str]:
    """What ``ask``, an expression of ``in_page.js``, gives in the page, and what the console said."""
    results, console = opened_all([path], ask, width, scheme)
    return results[0], console


def opened_all(paths: Sequence[Path], ask: str, width: int = 1200, scheme: str = "light") -> tuple[list[Any], str]:
    """The same of several pages in one browser, each in a window of its own, where the first one lies."""
    frames = [
        f'<iframe style="width: {width}px; height: 800px; border: 0" srcdoc="{escape(_asking(path, ask, number))}">'
        "</iframe>"
        for number, path in enumerate(paths)
    ]  # windows are 500 wide or more, frames as wide as we like
    scripted = paths[0].with_name("scripted.html")
    scripted.write_text(f"<!DOCTYPE html><body>{''.join(frames)}</body>", "utf-8")
    dom, console = _dumped(scripted, width, scheme)
    results = dict(re.findall(r' data-result(\d+)="([^"]*)"', dom))
    assert len(results) == len(paths), console
    return [json.loads(unescape(results[str(number)])) for number in range(len(paths))], console


def opened_directly(path: Path, ask: str) -> tuple[Any, str]:
    """The same of a page that is opened as a file, as people open it."""
    scripted = path.with_name("scripted.html")
    scripted.write_text(_asking(path, ask, 0), "utf-8")
    dom, console = _dumped(scripted, 1200, "light")
    result = re.search(r' data-result0="([^"]*)"', dom)
    assert result, console
    return json.loads(unescape(result[1])), console


def _asking(path: Path, ask: str, number: int) -> str:
    """The page, and a script that writes its answer into the body of the window that is looked at."""
    script = "".join(Path(__file__).with_name(name).read_text("utf-8") for name in SCRIPTS)
    call = (
        f"<script>{script}\n(async () => {ask})().catch(String)"
        f".then((result) => {{ parent.document.body.setAttribute('data-result{number}', JSON.stringify(result)); }});"
        "</script>"
    )
    return path.read_text("utf-8").replace("</body>", call + "</body>")


def _dumped(path: Path, width: int, scheme: str) -> tuple[str, str]:
    """The document as it is in the end, and the lines of the console."""
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--virtual-time-budget=6000",
        f"--window-size={width + 50},900",
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
    ]
    command = [str(BROWSER), *options, "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if ":CONSOLE" in line)
