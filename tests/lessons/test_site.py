"""The course as a site: its pages in a real browser, its links, its search; and what ``site`` and ``report`` refuse."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessons import parity
from lessons.__main__ import main
from lessons.catalogue import LANGUAGES, Catalogue
from lessons.commands.check import check
from lessons.manifest import COURSE, PARTS
from lessons.order import Event
from lessons.reading import Reading
from lessons.results import results_of
from lessons.said import Passed, Said, Shown
from lessons.shell import ALONE
from lessons.site.index import index
from lessons.site.papers import collected
from lessons.site.which import QUESTIONS
from lessons.workspace import State, Workspace, digest
from tests.lessons.in_browser import Elements, browser, opened, opened_all, opened_directly

NUMBERS = {
    "text": "Two ranks took 1 ms.",
    "lines": ["size  time", "  1 K  1 ms"],
    "numbers": {"ranks": 2},
}


def learn(folder: Path, language: str = "en") -> Workspace:
    """A folder of somebody who has done lessons 0 and 1, measured, answered, and begun lesson 2."""
    workspace = Workspace(str(folder), language)
    workspace.open()
    with workspace.progress.change():
        progress = workspace.progress
        progress.current = COURSE[2].name
        progress.lesson("tour")["passed"] = {"when": "2026-01-02T03:04:05+00:00"}
        for lesson, state in ((COURSE[1], State.PASSED), (COURSE[2], State.STARTED)):
            workspace.file(lesson).write_text("mine = 1\n")
            progress.lesson(lesson.name)["state"] = state
        done = progress.lesson(COURSE[1].name)
        done |= {"passed": {"sha256": digest(workspace.file(COURSE[1])), "when": "2026-01-03T03:04:05+00:00"}}
        answers = {"predict": {"answer": "7", "right": False}, "quiz.1": {"answer": "c", "right": True}}
        answers["calculate.2"] = {"answer": "756 us", "right": True}
        done |= {"hints": 2, "measured": [NUMBERS], "quiz": {"right": 2, "of": 6, "when": "", "answers": answers}}
    return Workspace(str(folder), language)


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("english")
    learn(base / "my_lessons")
    assert main(["site", str(base / "site"), "--folder", str(base / "my_lessons")]) == 0
    return base / "site"


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("chinese")
    found = base / "found.json"
    words = ["--folder", str(base / "my_lessons"), "--language", "zh", "--json", str(found)]
    assert main(["site", str(base / "site"), *words]) == 0
    written = json.loads(found.read_text())
    assert written["language"] == "zh"
    assert {path.name for path in (base / "site").iterdir()} == {*written["files"], "site.json"}
    assert set(written["pages"]) == {path.name for path in (base / "site").glob("*.html")}
    return base / "site"


def pages(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.html") if path.name != "scripted.html")


# As it is written.


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_link_leads_somewhere(english: Path, chinese: Path, language: str) -> None:
    folder = {"en": english, "zh": chinese}[language]
    found = {path.name: Elements(path.read_text("utf-8")) for path in pages(folder)}
    ids = {name: {values["id"] for _, values in one.elements if "id" in values} for name, one in found.items()}
    count = 0
    for name, one in found.items():
        listed = [values["id"] for _, values in one.elements if "id" in values]
        assert len(listed) == len(set(listed)), name
        for link in [values["href"] for values in one.all("a")]:
            target, _, anchor = link.partition("#")
            assert (target or name) in found, f"{name}: {link}"
            assert not anchor or anchor in ids[target or name], f"{name}: {link}"
            count += 1
    assert count > 300
    reached = {values["href"].partition("#")[0] for one in found.values() for values in one.all("a")}
    assert found.keys() <= reached


def test_the_search_leads_to_places_that_exist(english: Path) -> None:
    script = (english / "search.js").read_text("utf-8")
    entries = json.loads(script.partition("ENTRIES = ")[2].rstrip().rstrip(";"))
    found = {path.name: Elements(path.read_text("utf-8")) for path in pages(english)}
    for address, title, heading, text in entries:
        name, _, anchor = address.partition("#")
        assert anchor in {values.get("id") for _, values in found[name].elements}, address
        assert title
        assert heading
        assert text
    assert len({address for address, *_ in entries}) == len(entries)
    for lesson in COURSE:
        for key in ("problem", "real"):
            assert any(address == f"{lesson.folder}.html#{key}" for address, *_ in entries)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_line_ends_inside_of_an_option(english: Path, chinese: Path, language: str) -> None:
    for path in pages({"en": english, "zh": chinese}[language]):
        code = re.findall(r"(?<!<pre>)<code>(.*?)</code>", path.read_text("utf-8"))
        assert [one for one in code if re.search(r"(?:^|\s)--?\w", one)] == [], path.name


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_comes_from_elsewhere(english: Path, chinese: Path, language: str) -> None:
    for path in pages({"en": english, "zh": chinese}[language]):
        text = path.read_text("utf-8")
        assert set(re.findall(r"https?://[^\s\"'<&]+", text)) <= {"http://www.w3.org/2000/svg"}, path
        assert "default-src 'none'" in text
        found = Elements(text)
        assert not any("src" in values for _, values in found.elements)
        assert found.all("html")[0]["lang"] == ("en" if language == "en" else "zh-Hans")


def test_a_lesson_is_the_same_alone_and_in_the_site(tmp_path: Path, english: Path) -> None:
    from lessons.page import page

    workspace = learn(tmp_path / "my_lessons")
    alone = page(Reading(COURSE[4], workspace.say), workspace.command, (None, None), ALONE)
    within = (english / f"{COURSE[4].folder}.html").read_text("utf-8")

    def sections(text: str) -> str:
        text = text.partition("<main")[2].partition("</main>")[0]
        text = re.sub(r'<a href="\d\d_\w+\.html" title="[^"]*">(.*?)</a>', r"\1", text)
        return re.sub(r" <span>--folder</span> \S+?(?=</code>)", "", text.replace('href="glossary.html#', 'href="#'))

    assert sections(alone) == sections(within)


def test_lessons_that_a_text_speaks_of_are_linked(english: Path, chinese: Path) -> None:
    third, fourth = COURSE[3].folder, COURSE[4].folder
    for folder, words in ((english, "lesson 3"), (chinese, "第 3 课")):
        title = Catalogue("en" if folder is english else "zh")("course.03.title")
        text = (folder / f"{fourth}.html").read_text("utf-8")
        assert f'<a href="{third}.html" title="{title}">{words}</a>' in text
        assert f'<a href="{fourth}.html"' not in text.partition("<main")[2].partition("</main>")[0]


def test_the_index_has_parts_minutes_the_core_path_and_what_is_done(english: Path) -> None:
    text = (english / "index.html").read_text("utf-8")
    say = Catalogue()
    places = [text.index(say(f"course.part.{name}")) for name in PARTS]
    assert places == sorted(places)
    for lesson in COURSE:
        item = re.search(rf'<li class="([^"]*)"><a href="{lesson.folder}.html">.*?</li>', text)
        assert item
        assert ("★" in item[0]) == ("core" in item[1].split()) == lesson.core
        assert f"{lesson.minutes} min" in item[0]
    assert re.search(rf'<li class="core passed"><a href="{COURSE[1].folder}.html">.*?✓ done', text)
    assert re.search(rf'<li class="core started"><a href="{COURSE[2].folder}.html">.*?started', text)
    assert f"Go on: {COURSE[2].number} · " in text
    assert f"done: 1 of {len(COURSE) - 1}" in text


def test_who_has_done_all_is_sent_to_the_results(tmp_path: Path) -> None:
    workspace = learn(tmp_path)
    with workspace.progress.change():
        for lesson in COURSE[1:]:
            workspace.file(lesson).write_text("mine = 1\n")
            kept = workspace.progress.lesson(lesson.name)
            kept |= {"state": State.PASSED, "passed": {"sha256": digest(workspace.file(lesson)), "when": ""}}
    text, _ = index(Workspace(str(tmp_path)))
    every = len(COURSE) - 1
    assert f"Lessons: {every}, " in text
    assert f"done: {every} of {every}" in text
    assert '<a class="button" href="results.html">All lessons are done' in text


def test_a_newcomer_is_told_to_begin(chinese: Path) -> None:
    text = (chinese / "index.html").read_text("utf-8")
    assert f'href="{COURSE[0].folder}.html">开始：' in text
    assert not (chinese / "results.html").exists()
    assert "results.html" not in text


def test_the_glossary_says_where_its_words_are_used(english: Path) -> None:
    text = (english / "glossary.html").read_text("utf-8")
    deadlock = re.search(r'<div><dt id="term-deadlock">.*?</div>', text, re.DOTALL)
    assert deadlock
    assert f'href="{COURSE[1].folder}.html"' in deadlock[0]
    first = (english / f"{COURSE[1].folder}.html").read_text("utf-8")
    assert 'href="glossary.html#term-rank"' in first


def test_questions_are_in_the_catalogue_and_lead_to_lessons_that_exist(english: Path) -> None:
    ids = [name for questions in QUESTIONS.values() for name in questions]
    assert len(ids) == len(set(ids)) > 30
    for language in LANGUAGES:
        known = parity.read(parity.ROOT / "catalogue" / language)["which"]
        assert {f"{name}.{key}" for name in ids for key in ("question", "answer")} == known.keys()
    course = {lesson.number for lesson in COURSE}
    text = (english / "which.html").read_text("utf-8")
    for questions in QUESTIONS.values():
        for name, numbers in questions.items():
            assert (f'<li id="{name}">' in text) == bool(course & set(numbers)), name


def test_a_paper_stands_once_with_all_its_lessons(english: Path) -> None:
    papers = collected([Reading(lesson, Catalogue()) for lesson in COURSE])
    ring = [paper for paper in papers if "Bandwidth optimal all-reduce" in paper.text]
    assert len(ring) == 1
    assert [reading.lesson.number for reading in ring[0].readings][:2] == [4, 5]
    years = [[*re.findall(r"(?<![\d:.])(?:19|20)\d\d(?![\d.]\d)", paper.text), "later"][-2:][0] for paper in papers]
    assert years == sorted(years)
    assert any("Practice and Experience, 2007" in paper.text for paper in papers)
    assert not any("this walk" in paper.text for paper in papers)
    text = (english / "papers.html").read_text("utf-8")
    assert text.count("Bandwidth optimal all-reduce") == 1


@pytest.mark.parametrize("number", range(1, 8))
def test_part_one_has_papers_and_something_to_calculate(number: int) -> None:
    for language in LANGUAGES:
        reading = Reading(COURSE[number], Catalogue(language))
        assert len(reading.calculations) >= 2
        assert reading.text("papers").count("\n- ") >= 2
        for one in reading.calculations:
            assert one.answer > 0
            assert one.unit


# In a browser.


@browser
@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_scrolls_sideways(english: Path, chinese: Path, language: str, width: int) -> None:
    every = pages({"en": english, "zh": chinese}[language])
    results, console = opened_all(every, "loose()", width)
    assert {path.name: result for path, result in zip(every, results, strict=True) if result != [width, True, []]} == {}
    assert len(every) > len(COURSE) + 3
    assert console == ""


@browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_with_and_without_colour(english: Path, scheme: str) -> None:
    paths = [english / f"{name}.html" for name in ("index", "which", "glossary", "papers", "results", COURSE[5].folder)]
    results, console = opened_all(paths, "[faint(), colourOnly()]", scheme=scheme)
    assert results == [[[], []]] * len(paths)
    assert console == ""


@browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_can_be_read_on_a_phone(english: Path, scheme: str) -> None:
    paths = [english / f"{lesson.folder}.html" for lesson in COURSE]
    results, console = opened_all(paths, f"unread({json.dumps(scheme == 'dark')})", 390, scheme)
    assert {path.name: result for path, result in zip(paths, results, strict=True) if result} == {}
    assert console == ""


@browser
def test_everything_can_be_reached_by_keys(english: Path) -> None:
    paths = [english / f"{name}.html" for name in ("index", "which", COURSE[4].folder)]
    results, console = opened_all(paths, "reached()")
    assert all(len(reached) > 15 and all(reached) for reached in results)
    assert opened(english / "index.html", "keyboard()") == (
        [True, True, True, True, True, "glossary.html#term-deadlock"],
        "",
    )
    assert console == ""


@browser
def test_the_search_finds_titles_first_from_a_file(english: Path) -> None:
    queries = ["deadlock", "ring reduce scatter", "hang", "parameter server", "bus bandwidth", "Patarasuk", "xyzzy", ""]
    results, console = opened_directly(english / f"{COURSE[3].folder}.html", f"searches({json.dumps(queries)})")
    assert console == ""
    first = [links[0] if links else None for links, _, _ in results]
    assert first[0] == "glossary.html#term-deadlock"
    assert first[1].startswith("04_")
    assert first[2].startswith(("which.html#hangs", "29_"))
    assert first[3].startswith(("03_", "papers.html"))
    assert first[4] == "which.html#busbw"
    assert "glossary.html#term-busbw" in results[4][0]
    assert first[5].startswith("papers.html#")
    assert any(link.startswith("01_") for link in results[0][0])
    assert results[6] == [[], Catalogue()("site.search.none"), False]
    assert results[7][2] is True


@browser
def test_the_search_speaks_chinese(chinese: Path) -> None:
    queries = ["死锁", "总线带宽", "环形为什么慢", "all-reduce 卡住"]
    results, console = opened(chinese / "index.html", f"searches({json.dumps(queries)})")
    assert console == ""
    first = [links[0] for links, _, _ in results]
    assert first[0] == "glossary.html#term-deadlock"
    assert first[1] == "which.html#busbw"
    assert first[3] == "which.html#hangs"
    assert len(results[2][0]) > 2


@browser
def test_the_picture_on_the_first_page_walks(english: Path) -> None:
    (before, one, said, end, last, left), console = opened(english / "index.html", "walks()")
    assert set(before) == {8}
    assert sorted(set(one)) == [8, 17]
    assert one.count(17) == 6
    assert said == "step 1 of 10"
    assert set(end) == {50}
    assert (last, left, console) == ("step 10 of 10", 0, "")


@browser
def test_questions_predictions_and_calculations_answer(english: Path) -> None:
    page = english / f"{COURSE[1].folder}.html"
    result, console = opened(
        page, '[guesses(["8", "9"]), choices(["a", "c"]), calculated("#calculate-2", ["756", "1"])]'
    )
    assert result[0] == [False, "right", "wrong", True]
    assert result[1][-1].startswith("right")
    assert result[2] == ["right", "wrong"]
    assert console == ""
    right = ["400", "400 KiB", "0.390625 MiB", "409600 B", "400 kb", "409.6 KB", "many"]
    ask = f'calculated("#calculate-1", {json.dumps(right)})'
    result, _ = opened(english / f"{COURSE[5].folder}.html", ask)
    assert result == ["right"] * 6 + ["number"]


@browser
def test_the_replay_plays_in_the_site(english: Path) -> None:
    page = english / f"{COURSE[5].folder}.html"
    text = page.read_text("utf-8")
    unboxed = page.with_name("unboxed.html")
    unboxed.write_text(text.replace(' sandbox="allow-scripts"', ""), "utf-8")  # to look inside
    result, console = opened(unboxed, "plays()")
    unboxed.unlink()
    assert result == [True, [], 0, True, True]
    assert console == ""


# The commands.


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return tmp_path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site of two pages, in the place of the course."""
    monkeypatch.setattr("lessons.site.site", lambda workspace: {"index.html": "new", "a.html": "b"})


def test_a_site_is_replaced_as_a_whole(here: Path, quick: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "course"]) == 0
    assert (here / "course" / "index.html").as_uri() in capsys.readouterr().out
    mark = here / "course" / "site.json"
    mark.write_text(mark.read_text().replace('"a.html"', '"a.html", "old.html"'))
    for name in ("index.html", "old.html"):
        (here / "course" / name).write_text("old")
    assert main(["site", "course"]) == 0
    assert {path.name: path.read_text() for path in (here / "course").glob("*.html")} == {
        "index.html": "new",
        "a.html": "b",
    }
    assert [path.name for path in here.iterdir()] == ["course"]


def test_what_cannot_be_written_leaves_the_old_site(
    here: Path, quick: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["site", "course", "--language", "zh"]) == 0
    assert main(["site", "course"]) == 0
    assert "The course is in course" in capsys.readouterr().out  # the language was the site's alone
    before = sorted((path.name, path.read_text()) for path in (here / "course").iterdir())
    monkeypatch.setattr("lessons.site.site", lambda workspace: {"index.html": "newer", "no/such.html": ""})
    assert main(["site", "course"]) == 2
    assert "could not be written" in capsys.readouterr().err
    assert sorted((path.name, path.read_text()) for path in (here / "course").iterdir()) == before
    assert [path.name for path in here.iterdir()] == ["course"]


@pytest.mark.parametrize(
    ("names", "target", "said"),
    [
        (["d/notes.txt"], "d", "notes.txt"),
        (["d/site.json"], "d", "site.json"),
        (["f"], "f", "is a file"),
        ([], ".", "the folder that you are in"),
        ([], "no/such/folder", "cannot be made"),
    ],
)
def test_what_is_not_ours_stays(
    here: Path, capsys: pytest.CaptureFixture[str], names: list[str], target: str, said: str
) -> None:
    for name in names:
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("{}")
    assert main(["site", target]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert len(shown.strip().splitlines()) == 1
    assert sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()) == sorted(names)


def test_a_file_beside_a_site_stays(here: Path, quick: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "course"]) == 0
    (here / "course" / "notes.txt").write_text("mine")
    assert main(["site", "course"]) == 2
    assert "notes.txt" in capsys.readouterr().err
    assert (here / "course" / "notes.txt").read_text() == "mine"


def test_a_report_shows_predictions_beside_the_truth(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn(here / "my_lessons")
    assert main(["report", "--html", "mine.html"]) == 0
    shown = capsys.readouterr().out
    assert f"Lessons done: 1 of {len(COURSE) - 1}." in shown
    assert "you said 7; it is 8 messages. ✗ not quite" in " ".join(shown.split())
    assert "you said 756 us; it is 756 us. ✓ right" in " ".join(shown.split())
    assert "Numbers foretold rightly: 1 of 2." in shown
    assert "Two ranks took 1 ms." in shown
    assert "    1 K  1 ms" in shown
    text = (here / "mine.html").read_text("utf-8")
    assert "Two ranks took 1 ms." in text
    assert not any(values["href"].endswith(".html") for values in Elements(text).all("a"))


def test_a_check_keeps_what_it_has_measured(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = Workspace("my_lessons")
    workspace.open()
    workspace.file(COURSE[6]).write_text("mine = 1\n")
    verdict = check(workspace, COURSE[6], quiet=True, judging=measuring)
    assert verdict.recorded
    kept, found = results_of(Workspace()).lessons[6].measured
    assert (kept.text, kept.lines, kept.numbers) == ("Two ranks took 1 ms.", ["size  time"], {"ranks": 2})
    assert (found.text, found.lines) == ("The records say: Rank 2 is missing.", [])
    assert main(["report"]) == 0
    assert "Lesson 6, measured: Two ranks took 1 ms." in capsys.readouterr().out


def measuring(number: int, path: Path, language: str, broken: bool, ranks: tuple[int, ...]) -> Iterator[Event]:
    yield Passed(Said("check.ran"), "fit", (2, 3))
    yield Shown("Two ranks took 1 ms.", ("size  time",), ("That is little.",), {"ranks": 2})
    yield Shown("The records say:", (), ("Rank 2 is missing.",))


def test_a_report_for_programs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn(here / "my_lessons")
    assert main(["report", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["predictions"] == {"right": 1, "of": 2}
    assert found["lessons"][1]["quiz"] == {"right": 2, "of": 6}
    assert found["lessons"][1]["passed"] == "2026-01-03"
    assert found["lessons"][1]["measured"] == [NUMBERS]


def test_a_report_of_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 0
    assert "Lessons done: 0" in capsys.readouterr().out
    assert list(here.iterdir()) == []


def test_a_quiz_asks_what_is_to_be_calculated_and_keeps_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quiz", "1", "--answers", "8,-,-,-,1342 us,700"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Question 6 of 6" in shown
    assert "2 of 6 right" in shown
    guesses = results_of(Workspace()).lessons[1].guesses
    assert [(guess.key, guess.right) for guess in guesses] == [
        ("predict", True),
        ("calculate.1", True),
        ("calculate.2", False),
    ]


def test_the_text_in_the_terminal_has_papers_and_calculations(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Calculate it yourself") < shown.index("Papers\n") < shown.index("System Deadlocks")
    assert "python -m lessons quiz 1" in shown


def test_the_list_shows_the_core_path(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["lesson"] for row in found["lessons"] if row["core"]] == [one.number for one in COURSE if one.core]
    assert found["core_minutes"] == sum(one.minutes for one in COURSE if one.core)
    assert found["core_further"] == sum(one.further for one in COURSE if one.core) > 0
    assert main(["list"]) == 0
    assert "★ The core path" in capsys.readouterr().out
