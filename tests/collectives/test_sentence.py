"""Sentences: they read as before, know what they are made of, and can be said in another language."""

import ast
import copy
import json
import pickle
import re
import string
from pathlib import Path

import pytest

import collectives
from collectives import Buffer, Recv, Reduce, Schedule, ScheduleError, Send, prove
from collectives.explanation import explain
from collectives.log import Log, Operation
from collectives.sentence import Sentence, sentence_of, to_json

SOURCES = sorted(Path(collectives.__file__).parent.rglob("*.py"))


def calls(name):
    """Every call of a class in the package."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield f"{path.name}:{node.lineno}", node


def templates():
    texts = [[arg.value for arg in node.args if isinstance(arg, ast.Constant)] for _, node in calls("Sentence")]
    return dict(pair for pair in texts if len(pair) == 2)


def counts():
    """One sentence, with sentences in a sentence."""
    who = tuple(Sentence("who.rank", "rank {rank}", rank=rank) for rank in (0, 2))
    what = Sentence("what.chunk", "chunk {index}", index=3)
    return Sentence("does.count", "{who} count {what} at {steps}", who=who, what=what, steps=[1, 4], left=(5,))


def ring_too_short(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 2):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)


def refused(program, size=3, collective="all_reduce", **options):
    with pytest.raises(ScheduleError) as caught:
        prove(Schedule(collective, program, **options), size)
    return caught.value


def test_a_tool_can_collect_all_sentences():
    seen = {}
    for where, node in calls("Sentence"):
        assert len(node.args) == 2, where
        assert all(isinstance(arg, ast.Constant) and isinstance(arg.value, str) for arg in node.args), where
        assert all(keyword.arg for keyword in node.keywords), f"{where}: fields by ** cannot be collected"
        id, template = (arg.value for arg in node.args)
        assert re.fullmatch(r"[a-z]+(\.[a-z_]+)+", id), where
        assert id not in seen, f"{where} and {seen[id]} are both {id}"
        seen[id] = where
        for _, name, spec, conversion in string.Formatter().parse(template):
            assert name is None or name in {keyword.arg for keyword in node.keywords}, f"{where}: {{{name}}}"
            assert not spec, f"{where}: a translation could not show {{{name}:{spec}}} alike"
            assert not conversion, f"{where}: a translation could not show {{{name}!{conversion}}} alike"
    assert {"proof.twice", "waits.cycle", "log.sizes", "log.unwaited", "recorder.no_such_rank"} <= seen.keys()


def test_nothing_that_a_learner_writes_is_refused_with_a_bare_string():
    files = ("proof", "messages", "contract", "schedule", "combinators", "recording_group")
    refusals = [*calls("ScheduleError"), *calls("ValueError"), *calls("RuntimeError")]
    refusals = [(where, node) for where, node in refusals if where.partition(".")[0] in (*files, "verdict", "symmetry")]
    assert len(refusals) > 30
    for where, node in refusals:
        assert not isinstance(node.args[0], (ast.Constant, ast.JoinedStr)), where


def test_reads_like_the_string_it_is():
    sentence = counts()
    assert sentence == "rank 0, rank 2 count chunk 3 at 1, 4"
    assert f"{sentence}!" == "rank 0, rank 2 count chunk 3 at 1, 4!"
    assert sentence.fields["what"].fields == {"index": 3}
    assert type(str(sentence)) is str
    assert Sentence("with.braces", "{text}", text="{x} {}") == "{x} {}"


def test_is_said_in_another_language_with_all_that_is_in_it():
    words = {"does.count": "在第 {steps} 步，{who} 计入 {what}", "who.rank": "{rank} 号", "what.chunk": "块 {index}"}
    assert counts().said_with(words, "、") == "在第 1、4 步，0 号、2 号 计入 块 3"
    del words["what.chunk"]
    assert counts().said_with(words, "、") == "在第 1、4 步，0 号、2 号 计入 chunk 3"
    assert counts().said_with({}) == counts()


@pytest.mark.parametrize("copied", [lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy])
def test_survives_a_copy(copied):
    for original in (counts(), copied(counts())):
        twin = copied(original)
        assert (twin, twin.id, twin.template, twin.fields) == (
            str(counts()),
            "does.count",
            original.template,
            original.fields,
        )
        assert twin.fields["who"][1].fields == {"rank": 2}
        assert twin.said_with({"who.rank": "r{rank}"}).startswith("r0, r2 count")
    error = copied(refused(ring_too_short))
    assert str(error) == str(refused(ring_too_short))
    assert (error.kind, error.rank, error.step) == ("missing", 0, 0)
    assert error.sentence is sentence_of(error)
    assert error.sentence.fields["missing"] == (1, 2)
    assert sentence_of(copied(ValueError(counts()))).id == "does.count"


def test_goes_through_a_file():
    read = json.loads(json.dumps({"error": to_json(counts())}), object_hook=Sentence.from_json)["error"]
    assert (read, read.id, read.fields["left"]) == (counts(), "does.count", (5,))
    assert read.fields["who"][0].id == "who.rank"


def test_a_plain_string_is_a_sentence_too():
    error = ScheduleError("a pipeline of {0} stages", "order", 3, 1)
    assert str(error) == error.sentence == "a pipeline of {0} stages"
    assert (error.rank, error.step) == (3, 1)
    assert sentence_of(ValueError("a plain one")) is None


def hung_log():
    return Log(
        {0: [Operation(0, 1, "recv", "waiting", 1, tag=3, where="x.py:1")], 1: []},
        {1: Operation(1, 2, "end", "returned")},
    )


@pytest.mark.parametrize(
    "sentence",
    [
        lambda: refused(lambda r, n: [(Send(0, to=n),)]).sentence,
        lambda: refused(lambda r, n: [(Send(n, to=0),)]).sentence,
        lambda: refused(lambda r, n: [(Recv(0, source=1 - r), Recv(0, source=1 - r))], 2).sentence,
        lambda: refused(lambda r, n: [Reduce(0, source=1 - r), Send(0, to=1 - r)], 2, chunks=1).sentence,
        lambda: refused(lambda r, n: [Send(r, (r + 1) % n), Recv((r - 1) % n, (r - 1) % n)], 8, "all_gather").sentence,
        lambda: refused(lambda r, n: [(Send(Buffer("scratch")[r], to=r), Recv(0, source=r))]).sentence,
        lambda: refused(ring_too_short, 5).sentence,
        lambda: explain(hung_log()),
    ],
)
def test_nothing_english_is_left_in_a_translation(sentence):
    """Every template as its bare fields, so that a piece of English that is no sentence shows."""
    bare = {
        id: "".join(f"<{{{name}}}>" for _, name, *_ in string.Formatter().parse(text) if name)
        for id, text in templates().items()
    }
    left = re.sub(r"Send\(.*?\)|Recv|Reduce|Send|scratch|x\.py", "", sentence().said_with(bare))
    assert not re.search(r"[A-Za-z]{2}", left), left
