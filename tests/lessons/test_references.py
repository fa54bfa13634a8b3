"""What formulas are compared with: told apart, said, and right."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import pytest

from lessons.answer import Answer, load_answer
from lessons.catalogue import Catalogue
from lessons.checks.deadline import Overdue, deadline
from lessons.checks.formula import Formula
from lessons.checks.orders import crossings
from lessons.checks.reference import Reference
from lessons.checks.references import REFERENCES
from lessons.said import Finding, Said

EVERY = pytest.mark.parametrize("name", REFERENCES)


def agrees(reference: Reference, one: object, other: object) -> bool:
    """Whether two formulas give the same for every example."""
    assert callable(one)
    assert callable(other)
    for example in reference.examples:
        try:
            if not reference.same(one(*example), other(*example), example):
                return False
        except ZeroDivisionError:
            return False
    return True


@EVERY
def test_no_two_formulas_agree_on_all_examples(name: str) -> None:
    reference = REFERENCES[name]
    formulas = {"right": reference.answer, **reference.mistakes}
    alike = [pair for pair in itertools.permutations(formulas, 2) if agrees(reference, *map(formulas.get, pair))]
    good = {"formula.ring_order.unchanged", "formula.ring_order.backwards"}  # each other, as rings
    assert [pair for pair in alike if set(pair) != good] == []


@EVERY
def test_every_mistake_has_its_sentence(name: str) -> None:
    reference, say = REFERENCES[name], Catalogue()
    assert all(f".{name}." in mistake and say(mistake) for mistake in reference.mistakes)
    assert set(say.table("formula")) >= {"none", "raised", "value"}


@EVERY
@pytest.mark.parametrize("nonsense", [None, "x", [], [1], float("nan"), {}, (1, 2, 3), object, [[]], -1])
def test_whatever_comes_is_compared(name: str, nonsense: object) -> None:
    reference = REFERENCES[name]
    assert not all(reference.same(nonsense, reference.answer(*one), one) for one in reference.examples)


@pytest.mark.parametrize("body", ["yield 1.0; yield 2.0", "yield from points", "return (yield)"])
def test_a_generator_is_no_pair_of_numbers(body: str, tmp_path: Path) -> None:
    """Not even one whose values would be right: a caller gets the generator."""
    answer = load_answer(tmp_path / "answer.py", f"def fit(points):\n    {body}\n")
    assert isinstance(answer, Answer)
    (finding,) = Formula("fit").cheap(answer, Catalogue())
    assert isinstance(finding, Finding)
    assert isinstance(finding.sentence, Said)
    assert finding.sentence.id == "formula.generator"


def test_ring_orders_cross_as_rarely_as_any() -> None:
    answer = REFERENCES["ring_order"].answer
    for count in range(1, 7):
        for hosts in itertools.product(range(3), repeat=count):
            least = min(crossings(order, hosts) for order in itertools.permutations(range(count)))
            assert crossings(answer(hosts), hosts) == least


def test_the_line_of_least_squares_may_be_computed_carelessly() -> None:
    reference = REFERENCES["fit"]

    def textbook(points: list[tuple[float, float]]) -> tuple[float, float]:
        n, b, t = len(points), sum(b for b, _ in points), sum(t for _, t in points)
        beta = (n * sum(b * t for b, t in points) - b * t) / (n * sum(b * b for b, _ in points) - b * b)
        return (t - beta * b) / n, beta

    assert agrees(reference, reference.answer, textbook)


def first_said(name: str, body: str, folder: Path) -> list[str]:
    """The ids of what is said of a formula, details too."""
    path = folder / "answer.py"
    path.write_text(body, encoding="utf-8")
    answer = load_answer(path, path.read_text(encoding="utf-8"))
    assert isinstance(answer, Answer)
    event = next(Formula(name).cheap(answer, Catalogue()))
    details = event.details if isinstance(event, Finding) else ()
    return [one.id for one in (event.sentence, *details) if isinstance(one, Said)]


@pytest.mark.parametrize(
    ("name", "body", "ids"),
    [
        ("fit", "def fit(points):\n points.sort()\n b, t = zip(*points)\n return line(b, t)[::-1]", ["check.formula"]),
        ("ring_time", "def ring_time(n, s, a, b): return f32(2 * (n - 1) * (a + s / n * b))", ["check.formula"]),
        ("ring_time", "def ring_time(n, s): return 0", ["formula.signature"]),
        ("ring_time", "def ring_time(n, s, a, b): return s / n / b", ["formula.raised"]),
        (
            "ring_time",
            "def ring_time(n, s, a, b): return 2 * (n - 1) * (a + s / n / b)",
            ["formula.ring_time.divided", "formula.raised"],
        ),
        (
            "ring_time",
            "def ring_time(n, s, a, b): return 2 * (n - 1) * (a + s / (n - 1) * b)",
            ["formula.ring_time.one_less", "formula.raised"],
        ),
        ("ring_order", "def ring_order(hosts): return 3", ["formula.order_kind"]),
        ("ring_order", "def ring_order(hosts): return [0, 0] + list(range(2, len(hosts)))", ["formula.order_both"]),
        ("ring_order", "def ring_order(hosts): return [99]", ["formula.order_foreign"]),
        ("fit", "def fit(points): return 1, 2, 3", ["formula.pair_two"]),
        ("fit", "def fit(points): return [1000 * x for x in line(*zip(*points))][::-1]", ["formula.times_prefix"]),
        ("root_bytes", "def root_bytes(n, s): return -2 * (n - 1) * s", ["formula.times_minus"]),
        ("root_bytes", "def root_bytes(n, s): return 5 * (n - 1) * s", ["formula.times"]),
        ("root_bytes", "def root_bytes(n, s): return 2048 * (n - 1) * s", ["formula.times_binary"]),
        ("root_bytes", "def root_bytes(n, s): return {1: 2}", ["formula.one_number"]),
        ("root_bytes", "def root_bytes(n, s): return n", ["formula.value"]),
        ("rows_of", "def rows_of(c, r, n): return tuple(range(r, c, n))", ["check.formula"]),
        ("rows_of", "def rows_of(c, r, n): return len(range(r, c, n))", ["formula.list_kind"]),
        ("rows_of", "def rows_of(c, r, n): return list(range(r, c, n))[::-1]", ["formula.list_order"]),
        ("rows_of", "def rows_of(c, r, n): return list(range(r, c, n))[1:]", ["formula.list_missing"]),
        ("rows_of", "def rows_of(c, r, n): return list(range(r, c, n)) + ['x', None]", ["formula.list_foreign"]),
        ("buckets", "def buckets(sizes, cap): return [range(len(sizes))]", ["formula.list_order"]),
        ("coordinates", "def coordinates(rank, dp, tp): return rank", ["formula.list_kind"]),
        ("coordinates", "def coordinates(rank, dp, tp): return 77, 77", ["formula.list_length"]),
        ("coordinates", "def coordinates(rank, dp, tp): return 77, 77, 77", ["formula.value"]),
    ],
)
def test_what_wrong_values_show(name: str, body: str, ids: list[str], tmp_path: Path) -> None:
    head = "import struct\nfrom statistics import linear_regression as line\n"
    head += "def f32(x): return struct.unpack('f', struct.pack('f', x))[0]\n"
    assert first_said(name, head + body + "\n", tmp_path) == ids


def loop_that_catches(times: int) -> None:
    """An endless loop that catches all that comes, so many times."""
    while True:
        try:
            while True:
                pass
        except BaseException:
            times -= 1
            if times < 0:
                raise


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_deadline_ends_a_loop_that_catches_everything_and_leaves_the_timer_as_it_was() -> None:
    before, (_, interval) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    with pytest.raises(Overdue), deadline(0.1):
        loop_that_catches(1)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[1] == interval
