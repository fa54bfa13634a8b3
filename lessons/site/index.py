"""The first page: what the course is, its parts with their lessons, and how far the learner is."""

from __future__ import annotations

from html import escape

from ..catalogue import Catalogue
from ..commands.resume import after
from ..lesson import Lesson
from ..manifest import COURSE, PARTS, core_further, core_minutes
from ..page import breakable
from ..reading import duration
from ..workspace import State, Workspace
from .hero import hero
from .masthead import address
from .search import Entry


def index(workspace: Workspace) -> tuple[str, list[Entry]]:
    """Its sections; what stands here is found on the pages of the lessons."""
    say = workspace.say
    parts = [_part(name, lessons, workspace) for name, lessons in PARTS.items()]
    core = escape(say("site.index.only"))
    choice = f'<label class="only"><input type="checkbox" id="core"> <span>{core}</span></label>'
    return "\n".join([_welcome(workspace), hero(say), choice, *parts]), []


def _welcome(workspace: Workspace) -> str:
    """What there is, in numbers; where to begin, or to go on."""
    say = workspace.say
    core = [lesson for lesson in COURSE if lesson.core]
    numbered = [lesson for lesson in COURSE if lesson.number]  # the tour is no lesson
    fields = {"lessons": len(numbered), "time": duration(say, sum(lesson.minutes for lesson in COURSE))}
    facts = [say("site.index.lessons", **fields)]
    core_time, further = duration(say, core_minutes()), duration(say, core_further())
    facts.append(say("site.index.core", lessons=len(core), time=core_time, further=further))
    lesson, word = COURSE[0], "begin"
    if not workspace.is_new:
        way_on = workspace.next(workspace.current) if _done(workspace, workspace.current) else workspace.current
        lesson, word = way_on or workspace.current, "go_on"
        done = sum(_done(workspace, one) for one in numbered)
        facts.append(say("site.index.done", done=done, all=len(numbered)))
        word = "finished" if done == len(numbered) else word
    title = f"{lesson.number} · {workspace.title(lesson)}"
    href = "results.html" if word == "finished" else address(lesson)
    button = f'<a class="button" href="{href}">{escape(say(f"site.index.{word}", title=title))}</a>'
    command = f"<code>{breakable(_typed(workspace))}</code>"
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    hint = escape(say("site.index.type"))
    return f'<ul class="facts">{items}</ul><p class="go">{button} <span>{hint} {command}</span></p>'


def _typed(workspace: Workspace) -> str:
    command = None if workspace.is_new else after(workspace, workspace.current)
    return workspace.command(*(command[1] if command else ()))


def _part(name: str, lessons: tuple[Lesson, ...], workspace: Workspace) -> str:
    title = escape(workspace.say(f"course.part.{name}"))
    items = "".join(_item(lesson, workspace) for lesson in lessons)
    kind = "part" if any(lesson.core for lesson in lessons) else "part beside"
    return (
        f'<section class="{kind}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>'
        f'<ol class="lessons">{items}</ol></section>'
    )


def _item(lesson: Lesson, workspace: Workspace) -> str:
    say, state = workspace.say, workspace.state(lesson)
    star = f'<span class="star" title="{escape(say("page.core"))}">★</span>' if lesson.core else ""
    minutes = escape(say("page.minutes", minutes=lesson.minutes))
    mark = "" if state is State.OPEN else f'<span class="state">{_sign(state)} {escape(_word(say, state))}</span>'
    return (
        f'<li class="{"core" if lesson.core else "beside"} {state}"><a href="{address(lesson)}">'
        f'<span class="number">{lesson.number}</span><span class="title">{escape(workspace.title(lesson))}</span></a>'
        f'<span class="about">{star}<span>{minutes}</span>{mark}</span>'
        f"<p>{escape(say(f'course.{lesson.number:02}.proves'))}</p></li>"
    )


def _sign(state: State) -> str:
    return {State.PASSED: "✓", State.STARTED: "…", State.CHANGED: "≠", State.SKIPPED: "→"}[state]


def _word(say: Catalogue, state: State) -> str:
    return say(f"runner.state.{state}")


def _done(workspace: Workspace, lesson: Lesson) -> bool:
    return workspace.state(lesson) is State.PASSED
