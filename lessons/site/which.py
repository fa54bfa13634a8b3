"""The page "Which lesson do I need?": questions that people ask, and the lessons that answer them.

Question and answer are in the catalogue, ``which.NAME``. A lesson that is still being written is not named.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from markdown_it import MarkdownIt

from ..catalogue import Catalogue
from ..manifest import COURSE
from .masthead import link
from .search import Entry, plain

_FILE = "which.html"
# what somebody wants → the question's id → lessons, the one to begin with first
QUESTIONS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "wrong": {
        "hangs": (29, 1),
        "hangs_large": (1, 29),
        "copies_differ": (3, 5, 8, 25),
        "two_ranks": (4, 5, 3),
        "tail": (5, 17),
        "nan": (13, 16),
        "loss_stands": (13, 3),
        "tensor_wrong": (19, 20, 21),
        "resume_differs": (28,),
    },
    "slow": {
        "all_reduce": (6, 5, 7),
        "busbw": (6, 31),
        "small": (6, 7, 9),
        "slow_link": (5, 7),
        "rank_order": (7, 25),
        "ddp_slow": (8, 9, 10),
        "overlap": (9, 10),
        "bubble": (22, 23, 24),
        "scaling": (27, 6),
        "mfu": (12, 27),
    },
    "memory": {
        "fits": (11, 26),
        "oom": (11, 14, 17, 18),
        "activations": (14, 15, 21),
        "zero_stage": (17, 18),
        "any_model": (18, 11),
        "offload": (15, 18),
        "int8": (16,),
        "layer_too_big": (19, 20, 18),
    },
    "plan": {
        "operators": (2,),
        "which_strategy": (26, 25),
        "who_sits": (25, 26),
        "days": (12, 26),
        "dp_ddp": (8,),
        "zero_pipeline": (25, 17),
        "serve": (30,),
        "nccl": (31, 7),
        "whole": (32, 0),
    },
}


def which(say: Catalogue) -> tuple[str, list[Entry]]:
    """Its sections, and what the search finds there."""
    markdown = MarkdownIt("commonmark", {"html": False})
    course = {lesson.number: lesson for lesson in COURSE}
    sections, entries = [], []
    for want, questions in QUESTIONS.items():
        items = []
        for name, numbers in questions.items():
            lessons = [course[number] for number in numbers if number in course]
            if not lessons:
                continue
            question, answer = say(f"which.{name}.question"), say(f"which.{name}.answer")
            links = "".join(f"<li>{link(lesson, say(f'course.{lesson.number:02}.title'))}</li>" for lesson in lessons)
            items.append(
                f'<li id="{name}"><h3>{escape(question)}</h3>{markdown.render(answer)}<ul class="to">{links}</ul></li>'
            )
            entries.append(Entry(f"{_FILE}#{name}", question, say("site.which.title"), plain(answer)))
        if items:
            title = escape(say(f"site.which.want.{want}"))
            sections.append(
                f'<section aria-labelledby="{want}-title"><h2 id="{want}-title">{title}</h2>'
                f'<ul class="questions">{"".join(items)}</ul></section>'
            )
    return "\n".join(sections), entries
