"""A lesson as one HTML file that works offline: text, figures, questions that answer, hints, and the words it uses.

``page.html`` is the markup, which ``shell.py`` fills. All text is escaped, and nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from .glossary import Linker, terms
from .markdown import figure_of, is_wide, parse
from .pointers import point
from .reading import GRADES, Prediction, Question, Reading
from .shell import ALONE, Shell

_RELATION = {"previous": "prev", "next": "next"}
_LONG = 24  # letters of a name that may be broken
_SHORT = 12  # of one with hyphens that may not
_NAME = re.compile(r"(?<![\w-])(?:\w+-\d[\w.]*|\d+-[^\W\d_]+)(?![\w-])")  # GPT-2, 1-bit


def page(
    reading: Reading,
    command: Callable[..., str],
    around: tuple[Reading | None, Reading | None],
    shell: Shell = ALONE,
) -> str:
    """The file.

    Args:
        command: what the learner types, from its words: ``command("check", 4)``.
        around: the lessons before and after, if there are any.
        shell: what is around the text.
    """
    return Page(reading, command, shell).file(around)


class Page:
    """The sections, in the order in which they are read: terms are linked where they come first."""

    def __init__(self, reading: Reading, command: Callable[..., str], shell: Shell = ALONE) -> None:
        self.reading, self.say, self.command, self.shell = reading, reading.say, command, shell
        self.linker = Linker(terms(reading.say), shell.glossary)
        self.markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        self.markdown.add_render_rule("code_inline", _code)
        self.markdown.add_render_rule("text", _text)
        self.markdown.add_render_rule("fence", _fence)

    def file(self, around: tuple[Reading | None, Reading | None]) -> str:
        reading, sections = self.reading, self.sections()
        neighbours = _neighbours(around, self.command, self.shell)
        return self.shell.wrap(self.say, reading.title, reading.where, reading.proves, sections, neighbours)

    def sections(self) -> str:
        reading, parts = self.reading, []
        for name in reading.sections():
            text = self.text(reading.text(name))
            if name == "task":
                parts.append(self.section(name, text + self.commands() + self.hints() + self.twin()))
            else:
                parts.append(self.section(name, text, "card real" if name == "real" else ""))
            if name == "problem" and reading.prediction:
                parts.append(self.section("predict", self.number(reading.prediction, "guess"), "card predict-card"))
        if reading.questions:
            questions = (self.question(number, one) for number, one in enumerate(reading.questions, 1))
            parts.append(self.section("quiz", "".join(questions)))
        if reading.calculations:
            problems = (self.number(one, f"calculate-{i}") for i, one in enumerate(reading.calculations, 1))
            parts.append(self.section("calculate", "".join(problems)))
        if reading.has("papers"):
            parts.append(self.section("papers", self.text(reading.text("papers"), titles=True)))
        return "\n".join([*parts, self.glossary()])

    def section(self, name: str, content: str, look: str = "") -> str:
        heading = f'<h2 id="{name}-title">{escape(self.reading.heading(name))}</h2>'
        look = f' class="{look}"' if look else ""
        return f'<section id="{name}" aria-labelledby="{name}-title"{look}>\n{heading}\n{content}</section>'

    def text(self, markdown: str, titles: bool = False) -> str:
        """titles: what is emphasised are titles, in which no term is linked."""
        tokens = parse(markdown)
        self.linker.link(tokens, titles)
        if self.shell.address:
            point(tokens, self.reading.lesson, self.shell.address, self.say)
        return str(self.markdown.renderer.render(self.with_figures(tokens), self.markdown.options, {}))

    def with_figures(self, tokens: list[Token]) -> list[Token]:
        """Figures drawn, in the place of their paragraphs; tables in a box in which they can be moved."""
        out: list[Token] = []
        for token in tokens:
            figure = figure_of(token) if token.type == "inline" else None
            if figure:
                out[-1] = _html(self.figure(*figure))  # in the place of the paragraph's beginning
            elif token.type == "paragraph_close" and out[-1].type == "html_block":
                continue
            elif token.type == "table_open":
                out += [_html('<div class="scroll" tabindex="0">'), token]
            elif token.type == "table_close":
                out += [token, _html("</div>")]
            else:
                out.append(token)
        return out

    def figure(self, name: str, caption: str) -> str:
        drawn = self.reading.lesson.figures[name].html(self.say)
        return f'<figure id="figure-{escape(name)}"><figcaption>{escape(caption)}</figcaption>{drawn}</figure>\n'

    def number(self, asked: Prediction, id: str) -> str:
        """A question whose answer is a number; ``id``: of its field."""
        unit, words = escape(asked.unit), escape(self.say(f"page.{id.partition('-')[0]}"))
        field = (
            f'<label for="{id}">{words}</label>'
            f'<input type="text" id="{id}" inputmode="decimal" autocomplete="off"> {unit}'
        )
        return (
            f'<form class="predict" data-answer="{asked.answer!r}" data-tolerance="{asked.tolerance!r}" '
            f'data-unit="{unit}">'
            f"{self.text(asked.question)}"
            f'<div class="answer-line" data-script hidden>{field} {self.button()}</div>'
            + self.verdicts("right", "wrong", "number")
            + self.answer(f"<p><strong>{escape(shown(asked.answer))} {unit}</strong></p>" + self.text(asked.why))
            + "</form>"
        )

    def question(self, number: int, question: Question) -> str:
        choices = "".join(
            f'<label class="choice"><input type="radio" name="choice" value="{letter}">'
            f"<span>{self.inline(text)}</span></label>"
            for letter, text in question.choices.items()
        )
        right = f"<p><strong>{self.inline(question.choices[question.right])}</strong></p>"
        return (
            f'<form class="question" data-right="{escape(question.right)}">'
            f'<div id="question-{number}">{self.text(question.question)}</div>'
            f'<div role="radiogroup" aria-labelledby="question-{number}">{choices}</div>'
            f'<div class="answer-line" data-script hidden>{self.button()}</div>'
            + self.verdicts("right", "again", "choose")
            + self.answer(right + self.text(question.why))
            + "</form>"
        )

    def inline(self, markdown: str) -> str:
        """Markdown that is a single paragraph, without its tags."""
        return str(self.markdown.renderInline(markdown))

    def button(self) -> str:
        return f"<button>{escape(self.say('page.check'))}</button>"

    def verdicts(self, *names: str) -> str:
        words = {name: escape(self.say(f"page.said.{name}")) for name in names}
        said = "".join(f'<span data-said="{name}" hidden>{text}</span>' for name, text in words.items())
        return f'<p class="verdict" role="status">{said}</p>'

    def answer(self, content: str) -> str:
        return f'<details class="answer"><summary>{escape(self.say("page.answer"))}</summary>{content}</details>'

    def commands(self) -> str:
        number = self.reading.lesson.number
        kinds = (
            {"start": "start", "check": "check", "hint": "hint"} if self.reading.lesson.checks else {"tour": "start"}
        )
        items = "".join(
            f"<li><span>{escape(self.say(f'page.command.{kind}'))}</span>{self.command_box(word, number)}</li>"
            for kind, word in kinds.items()
        )
        return f'<ul class="commands">{items}</ul>'

    def command_box(self, *words: object) -> str:
        before, after = (escape(self.say(f"page.{name}")) for name in ("copy", "copied"))
        button = (
            '<button type="button" class="copy" data-script hidden>'
            f'<span class="before">{before}</span><span class="after" role="status">{after}</span></button>'
        )
        return f'<div class="command"><code>{breakable(self.command(*words))}</code>{button}</div>'

    def hints(self) -> str:
        """Closed, from a nudge to near-code."""
        parts = []
        for function, hints in self.reading.hints.items():
            title = escape(self.reading.heading("hints"))
            parts.append(f"<h3>{f'{title}: <code>{escape(function)}</code>' if function else title}</h3>")
            for grade, hint in zip(GRADES, hints, strict=False):
                name = escape(self.say(f"page.hint.{grade}"))
                parts.append(f'<details class="hint"><summary>{name}</summary>{self.text(hint)}</details>')
        return f'<div class="hints">{"".join(parts)}</div>' if parts else ""

    def twin(self) -> str:
        if not self.reading.lesson.twin or not self.reading.has("twin.task"):
            return ""
        number = self.reading.lesson.number
        boxes = self.command_box("start", number, "--broken") + self.command_box("check", number, "--broken")
        return f"<h3>{escape(self.reading.heading('twin'))}</h3>{self.text(self.reading.text('twin.task'))}{boxes}"

    def glossary(self) -> str:
        """The terms that were linked, by name."""
        used = sorted(self.linker.used.values(), key=lambda term: term.name.lower())
        items = "".join(
            f'<dt id="term-{term.id}">{escape(term.name)}</dt><dd>{self.markdown.render(term.text).strip()}</dd>'
            for term in used
        )
        return self.section("glossary", f"<dl>{items}</dl>") if used else ""


def _neighbours(around: tuple[Reading | None, Reading | None], command: Callable[..., str], shell: Shell) -> str:
    parts = []
    for word, look, reading in zip(("previous", "next"), ("back", "forward"), around, strict=True):
        content = ""
        if reading:
            title = escape(f"{reading.lesson.number} · {reading.title}")
            content = f'<span class="word">{escape(reading.say(f"page.{word}"))}</span>'
            if shell.address:
                content += f'<a rel="{_RELATION[word]}" href="{escape(shell.address(reading.lesson))}">{title}</a>'
            else:
                content += f"{title}<br><code>{escape(command('open', reading.lesson.number))}</code>"
        parts.append(f'<div class="{look}">{content}</div>')
    return "".join(parts)


def shown(number: float) -> str:
    """A number as people write it."""
    return str(int(number)) if number.is_integer() else f"{number:.6g}"


def _html(content: str) -> Token:
    return Token("html_block", "", 0, content=content)


def breakable(code: str) -> str:
    """Markup of code whose lines may end at blanks, but not in ``size - 1``; in a long name after a dot or the like;
    never after dashes nor in a short name with hyphens."""
    words = []
    for word in code.split(" "):
        pieces = re.split(r"(?<=[._(,/=])(?=\w)", word) if len(word) > _LONG else [word]
        marked = "<wbr>".join(map(escape, pieces))
        whole = "-" in word[1:] and len(word) <= _SHORT and not word.startswith("--")
        words.append(f"<span>{marked}</span>" if whole else re.sub(r"^--?\w+", r"<span>\g<0></span>", marked))
    return re.sub(r"(?<!\S)[\w.(]{1,12} [-+] (?:\w{1,8}|\d+\.\d+)(?![\w.(\[])", r"<span>\g<0></span>", " ".join(words))


def _text(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: object, environment: object) -> str:
    """Text in which no line ends inside of a name such as GPT-2."""
    return _NAME.sub(r'<span class="whole">\g<0></span>', escapeHtml(tokens[at].content))


def _fence(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: object, environment: object) -> str:
    """Code; in formulas, whose lines stand below each other, wide letters take two columns, whatever their font."""
    if tokens[at].info == "python":
        return f"<pre><code>{escapeHtml(tokens[at].content)}</code></pre>\n"
    runs = ((wide, escapeHtml("".join(letters))) for wide, letters in groupby(tokens[at].content, is_wide))
    marked = (f'<span class="columns">{letters}</span>' if wide else letters for wide, letters in runs)
    return f"<pre><code>{''.join(marked)}</code></pre>\n"


def _code(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: object, environment: object) -> str:
    return f"<code>{breakable(tokens[at].content)}</code>"
