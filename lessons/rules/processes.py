"""What is wrong with ranks that raised, died or hung."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from collectives.explanation import explain
from collectives.launch import RankFailed, RankTimeout
from collectives.sentence import Sentence

from ..diagnosis import Broken, Rule
from ..picture import log_lines
from ..said import Finding, Said, Speech

_OWN = ("log.failed", "log.failed_at_once")  # a rank that failed by itself: its traceback tells more


def _sizes(evidence: Broken) -> Finding | None:
    """Ends of a message that disagree on its size: gloo ends the process then, which tells nothing."""
    sentence = explain(evidence.log)
    return _finding(evidence, sentence) if sentence is not None and sentence.id == "log.sizes" else None


def _killed(evidence: Broken) -> Finding | None:
    """A rank that did not raise but was gone."""
    failure = evidence.failure
    if not isinstance(failure, RankFailed):
        return None
    if match := re.match(r"killed by signal (\w+) ", failure.reason):
        said = Said("process.killed", {"rank": failure.rank, "signal": match[1]})
        return _finding(evidence, said, _stood(evidence, failure))
    if match := re.match(r"exited with code (\d+)", failure.reason):
        said = Said("process.exited", {"rank": failure.rank, "code": match[1]})
        return _finding(evidence, said, _stood(evidence, failure))
    return None


def _stood(evidence: Broken, failure: RankFailed) -> tuple[Said, ...]:
    """Where a rank was that is gone: the line where it crashed, or else its last message."""
    for file, line, function in re.findall(r'File "(.+?)", line (\d+) in (.+)', failure.traceback):
        if file == str(evidence.path):
            return (Said("process.stood", {"file": evidence.path.name, "line": line, "function": function}),)
    last = evidence.log.operations.get(failure.rank, [])[-1:]
    return tuple(Said("process.last", {"operation": operation.called}) for operation in last)


def _same_neighbour(evidence: Broken) -> Finding | None:
    """Everybody sends to the rank from which it also wants to receive, and nobody sends the other way."""
    _, lonely = evidence.log.pairs()
    waits = {o.rank: o.peer for o in lonely if o.op == "recv"}
    sends = {o.rank: o.peer for o in lonely if o.op == "send"}
    if evidence.size < 3 or len(waits) < evidence.size or waits != sends:
        return None
    return _finding(evidence, Said("process.same_neighbour", {"rank": 0, "peer": waits[0]}))


def _explained(evidence: Broken) -> Finding | None:
    """The record tells why: ranks that wait for each other, messages that never come, sizes that disagree."""
    sentence = explain(evidence.log)
    if sentence is None or sentence.id in _OWN:
        return None
    if sentence.id == "log.unfinished" and isinstance(evidence.failure, RankTimeout):
        return None
    return _finding(evidence, sentence)


def _raised(evidence: Broken) -> Finding | None:
    """A rank that raised, all or one: the others only waited for it."""
    failure = evidence.failure
    if not isinstance(failure, RankFailed):
        return None
    details = (_own_frames(failure.traceback, str(evidence.path)),) if failure.traceback else ()
    fields = {"rank": failure.rank, "error": _ours(evidence, failure.rank) or failure.reason.splitlines()[0][:300]}
    alike = sum(
        reason.splitlines()[0][:60] == failure.reason.splitlines()[0][:60] for reason in failure.others.values()
    )
    everybody = alike == evidence.size - 1
    return _finding(evidence, Said("process.all_raised" if everybody else "process.raised", fields), details)


def _ours(evidence: Broken, rank: int) -> Sentence | None:
    """What the recorder refused, if that is what was raised: it can be said in every language."""
    end = evidence.log.ends.get(rank)
    error = end.error if end is not None else ""
    return error if isinstance(error, Sentence) and isinstance(error.fields.get("message"), Sentence) else None


def _busy(evidence: Broken) -> Finding | None:
    """Ranks that computed without end."""
    failure = evidence.failure
    if not isinstance(failure, RankTimeout):
        return None
    for rank, stack in failure.tracebacks.items():
        frames = re.findall(r'File "(.+?)", line (\d+)', stack)
        # innermost first, without what torch does for it; one that stands in a send or receive, so in our code, waits
        own = [frame for frame in frames if f"{os.sep}torch{os.sep}" not in frame[0]]
        if own and own[0][0] == str(evidence.path):
            fields = {"rank": rank, "line": own[0][1], "seconds": f"{failure.timeout:g}"}
            return _finding(evidence, Said("process.busy", fields))
    return None


def _lost(evidence: Broken) -> Finding:
    return _finding(evidence, Said("process.failed", {"error": str(evidence.failure).splitlines()[0]}))


def _finding(evidence: Broken, sentence: Said | Sentence, details: tuple[Speech, ...] = ()) -> Finding:
    picture = tuple(log_lines(evidence.log, evidence.say))
    if len(evidence.variants) > 1:
        details = (*details, Said("values.other_calls"))
    return Finding(sentence, evidence.function, evidence.size, picture, details)


def _own_frames(text: str, path: str) -> str:
    """The traceback from the first frame of the learner's file to the last; all of it if there is none."""
    frames = re.split(r'^(?=  File ")', text, flags=re.MULTILINE)
    own = [i for i, frame in enumerate(frames) if frame.startswith(f'  File "{path}"')]
    if not own:
        return text.rstrip()
    error = text.rstrip().splitlines()[-1]
    shown = "".join(frames[own[0] : own[-1] + 1]).rstrip()
    return shown if shown.endswith(error) else f"{shown}\n{error}"


RULES: Sequence[Rule] = (_sizes, _killed, _same_neighbour, _busy, _explained, _raised, _lost)
