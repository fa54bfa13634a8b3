"""The learner's own results on a page: what ``report`` prints, for a browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from ..catalogue import Catalogue
from ..lesson import Lesson
from ..reading import duration
from ..results import Guess, Measurement, Result, Results, results_of
from ..workspace import Workspace
from .masthead import link
from .search import Entry, plain

Link = Callable[[Lesson, str], str]
_SHORT, _PROSE = 40, ' class="prose"'  # letters that stay in one line


def results(workspace: Workspace) -> tuple[str, list[Entry]]:
    """Its sections; the search does not look there."""
    return sections(results_of(workspace), workspace.say, link), []


def unlinked(lesson: Lesson, title: str) -> str:
    """A lesson, on a page that stands alone."""
    return f"{lesson.number} · {escape(title)}"


def sections(found: Results, say: Catalogue, link: Link) -> str:
    """link: markup that names a lesson."""
    parts = [_summary(found, say)]
    if guesses := [(one, guess) for one in found.lessons for guess in one.guesses]:
        parts.append(_section("guesses", _guesses(guesses, say), say))
    if measured := [(one, shown) for one in found.lessons for shown in one.measured]:
        parts.append(_section("measured", "".join(_measured(one, shown, link) for one, shown in measured), say))
    return "\n".join([*parts, _section("lessons", _lessons(found, say, link), say)])


def _summary(found: Results, say: Catalogue) -> str:
    (minutes, all_minutes), (right, guesses) = found.core, found.guesses
    tiles = [
        (f"{len(found.done)} / {found.all}", "done"),
        (f"{duration(say, minutes)} / {duration(say, all_minutes)}", "core"),
        (f"{right} / {guesses}", "right"),
    ]
    items = "".join(
        f"<div><dt>{escape(say(f'results.{name}'))}</dt><dd>{escape(number)}</dd></div>" for number, name in tiles
    )
    return f'<dl class="tiles">{items}</dl>'


def _section(name: str, content: str, say: Catalogue) -> str:
    title = escape(say(f"results.section.{name}"))
    return f'<section aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>{content}</section>'


def _guesses(guesses: list[tuple[Result, Guess]], say: Catalogue) -> str:
    rows = []
    for one, guess in guesses:
        verdict = say(f"results.{'hit' if guess.right else 'miss'}")
        cells = (guess.answer, guess.truth, verdict, plain(guess.question))
        rows.append(f'<tr><th scope="row">{one.lesson.number}</th>' + "".join(map(_cell, cells)) + "</tr>")
    return _table(("lesson", "yours", "truth", "verdict", "question"), rows, say)


def _measured(one: Result, shown: Measurement, link: Link) -> str:
    lines = escape("\n".join(shown.lines))
    table = f"<pre><code>{lines}</code></pre>" if lines else ""
    return f"<p>{link(one.lesson, one.title)}<br>{escape(shown.text)}</p>{table}"


def _lessons(found: Results, say: Catalogue, link: Link) -> str:
    rows = []
    for one in found.lessons:
        quiz = f"{one.quiz[0]} / {one.quiz[1]}" if one.quiz else ""
        mended = say("results.hit") if one.mended else ""
        cells = (say(f"runner.state.{one.state}"), one.when, quiz, str(one.hints or ""), mended)
        rows.append(f'<tr><th scope="row">{link(one.lesson, one.title)}</th>' + "".join(map(_cell, cells)) + "</tr>")
    return _table(("title", "state", "when", "quiz", "hints", "mended"), rows, say)


def _cell(text: str) -> str:
    return f"<td{_PROSE * (len(text) > _SHORT)}>{escape(text)}</td>"


def _table(heads: Sequence[str], rows: Sequence[str], say: Catalogue) -> str:
    head = "".join(f'<th scope="col">{escape(say(f"results.column.{name}"))}</th>' for name in heads)
    content = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll" tabindex="0"><table class="results">{content}</table></div>'
