"""``quiz``: predict first, questions, something to calculate. Answers cost nothing, and nothing waits for them."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field

from ..guess import is_near
from ..lines import shorten, without_controls
from ..reading import Prediction, Question, Reading
from ..refusal import Refusal
from ..report import print_markdown
from ..workspace import Workspace, add_lesson
from .resume import suggest_next

HELP = "the questions of a lesson"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)
    parser.add_argument(
        "--answers", metavar="A,B,…", help="in order: numbers and letters, as they are asked for; - for one left out"
    )


@dataclass
class Score:
    """answers: what was answered, by the key of its question, and whether it is right."""

    answers: dict[str, tuple[str, bool]] = field(default_factory=dict)

    @property
    def right(self) -> int:
        return sum(right for _, right in self.answers.values())


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    reading = Reading(lesson, workspace.say)
    questions = list(reading.asked.values())
    if not questions:
        raise Refusal("runner.quiz.none", number=lesson.number)
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    answers = None if args.answers is None else [answer.strip() for answer in args.answers.split(",")]
    if answers is not None:
        need_answers(questions, answers)
    score, left = Score(), False
    for number, (key, question) in enumerate(reading.asked.items()):
        if number:
            print()
        workspace.tell("runner.quiz.question", number=number + 1, all=len(questions))
        print_markdown(question.question)
        if isinstance(question, Question):
            for letter, text in question.choices.items():
                print_markdown(text, f"  {letter}  ")
        answer = None
        if answers is not None:
            answer = answers[number]
            workspace.tell("runner.quiz.given", answer=answer)
        elif asks and (answer := ask(workspace, question)) is None:
            left = True
            break
        if not answer or answer == "-":
            continue
        right = bool(judged(question, answer))
        score.answers[key] = answer, right
        workspace.tell("runner.quiz.right" if right else "runner.quiz.wrong", answer=solved(workspace, question))
        print_markdown(question.why)
    if not left:
        print()
    if score.answers:
        close(workspace, lesson.name, score, list(reading.asked), left)
    elif left:
        workspace.tell("runner.quiz.left", command=workspace.command("quiz", lesson.number))
        return 0
    elif answers is None and not asks:
        sample = ",".join("1.5" if isinstance(question, Prediction) else "a" for question in questions)
        workspace.tell("runner.quiz.how")
        print()
        workspace.suggest(("runner.quiz.command", ("quiz", lesson.number, "--answers", sample)))
        return 0
    if not left:
        suggest_next(workspace, lesson)
    return 0


def need_answers(questions: list[Prediction | Question], answers: list[str]) -> None:
    """Refuse answers that do not fit the questions.

    Raises:
        Refusal: too many or too few, or one that is no answer.
    """
    if len(answers) != len(questions):
        raise Refusal("runner.quiz.count", count=len(questions), given=len(answers))
    for answer, question in zip(answers, questions, strict=True):
        if answer not in ("", "-") and judged(question, answer) is None:
            raise Refusal(key_of(question), answer=answer, choices=choices_of(question))


def ask(workspace: Workspace, question: Prediction | Question) -> str | None:
    """An answer that can be read, an empty one for a question left out, or None if there will be no more."""
    say = workspace.say
    if isinstance(question, Prediction):
        unit = say("runner.quiz.prompt_unit", unit=question.unit) if question.unit else ""
        prompt = say("runner.quiz.prompt_number", unit=unit)
    else:
        prompt = say("runner.quiz.prompt_letter", choices=choices_of(question))
    while True:
        try:
            answer = input(f"{prompt} ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return None
        if not answer or judged(question, answer) is not None:
            return answer
        shown = shorten(without_controls(answer), 40)
        workspace.tell(key_of(question), answer=shown, choices=choices_of(question))


def judged(question: Prediction | Question, answer: str) -> bool | None:
    """Whether it is right; None if it is no answer."""
    if isinstance(question, Prediction):
        return is_near(answer, question.unit, question.answer, question.tolerance)
    letter = answer.lower().strip(" .)")
    return letter == question.right if letter in question.choices else None


def choices_of(question: Prediction | Question) -> list[str]:
    return list(question.choices) if isinstance(question, Question) else []


def key_of(question: Prediction | Question) -> str:
    return "runner.quiz.no_letter" if isinstance(question, Question) else "runner.quiz.no_number"


def solved(workspace: Workspace, question: Prediction | Question) -> str:
    """The right answer."""
    if isinstance(question, Question):
        return question.right
    whole = float(question.answer).is_integer()  # in full: 36864, not 3.686e+04
    number = str(int(question.answer)) if whole else f"{question.answer:.4g}"
    return workspace.say("runner.quiz.amount", number=number, unit=question.unit).strip()


def close(workspace: Workspace, name: str, score: Score, asked: list[str], left: bool) -> None:
    """Say and keep the score, also of who has ``left`` before the end: then earlier answers to the rest stay.

    asked: the keys of all questions.
    """
    from ..progress import now

    workspace.tell("runner.quiz.score_left" if left else "runner.quiz.score", right=score.right, all=len(asked))
    workspace.open()
    with workspace.progress.change():
        record = workspace.progress.lesson(name)
        earlier = record.get("quiz", {}).get("answers", {}) if left else {}
        given = {key: {"answer": answer, "right": right} for key, (answer, right) in score.answers.items()}
        answers = {key: answer for key, answer in {**earlier, **given}.items() if key in asked}
        right = sum(bool(answer["right"]) for answer in answers.values())
        record["quiz"] = {"right": right, "of": len(asked), "when": now(), "answers": answers}
