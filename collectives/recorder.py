"""Run bare ``dist.send`` and ``dist.recv`` code on real ranks, and write down what it does: a hang explains itself.

``record`` starts the ranks, ``explain`` says what went wrong in one sentence::

    recording = record(main, 2, "logs", timeout=10)
    print(explain(recording.log) or recording.results)

``rendezvous.replay`` runs the log again as if nothing were buffered: its deadlock, if any, and its rounds.
Under torchrun: call ``register()``, set COLLECTIVES_RECORD to a directory, and use the backend ``recording``.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist

from .explanation import explain
from .launch import RankFailed, RankTimeout, run
from .log import Log, Operation, as_line, read_log
from .recording_group import BACKEND, DIRECTORY, RecordingGroup
from .sentence import Sentence, sentence_of

__all__ = ["Log", "Operation", "Recording", "RecordingGroup", "explain", "read_log", "record", "register"]


@dataclass(frozen=True)
class Recording:
    """What ``record`` brings back: ``results`` in rank order, or the ``failure``; and the ``log`` in either case."""

    results: list[Any] | None
    failure: RankFailed | RankTimeout | None
    log: Log


def record(
    function: Callable[..., Any],
    ranks: int,
    directory: str | Path,
    *args: Any,
    timeout: float = 10.0,
    grace: float = 1.0,
    **kwargs: Any,
) -> Recording:
    """Run ``function(*args, **kwargs)`` on ``ranks`` processes whose every send and receive is logged in ``directory``.

    A rank that fails, hangs or dies is no error here: it is what the recording is for. Ranks that wait for each
    other are ended within a second.

    Args:
        directory: made if need be; an older record in it is deleted.
        timeout, grace: as for :func:`launch.run`. Once a rank has returned, the ranks that still wait for it fail after
            ``grace`` seconds.

    Raises:
        ValueError: a number of ranks that makes no sense.
    """
    directory = Path(directory).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("rank*.jsonl"):
        old.unlink()
    prepare = functools.partial(_prepare, str(directory))
    results, failure = None, None
    try:
        results = run(
            _play,
            ranks,
            function,
            args,
            kwargs,
            backend=BACKEND,
            timeout=timeout,
            grace=grace,
            prepare=prepare,
            hopeless=_Watch(directory, ranks).hopeless,
        )
    except (RankFailed, RankTimeout) as error:
        failure = error
        _note_ends(directory, ranks, error)
    return Recording(results, failure, read_log(directory))


def register() -> None:
    """Make the backend ``recording`` known to torch.distributed in this process; more than once is fine."""
    if BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, RecordingGroup.of, extended_api=True, devices=["cpu"])


def _prepare(directory: str) -> None:
    os.environ[DIRECTORY] = directory
    register()


def _play(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In a rank: the function, and a note of how it ended."""
    group = dist.group.WORLD
    state, error = "returned", ""
    try:
        return function(*args, **kwargs)
    except BaseException as caught:
        message = sentence_of(caught) or str(caught)
        error = Sentence("recorder.raised", "{type}: {message}", type=type(caught).__name__, message=message)
        state = "raised"
        raise
    finally:
        if isinstance(group, RecordingGroup):
            group.finish(state, error)


class _Watch:
    """In the parent: looks into the record while the ranks run."""

    def __init__(self, directory: Path, ranks: int) -> None:
        self._directory, self._ranks = directory, ranks
        self._seen = False

    def hopeless(self) -> bool:
        """Whether no rank can go on, at two looks in a row: what is between two lines for a moment is no hang."""
        before, self._seen = self._seen, self._stands()
        return before and self._seen

    def _stands(self) -> bool:
        """Whether every rank that has not ended waits for what does not come.

        Who waits for one that has ended fails by itself; but not in making a group, while others have made theirs.
        """
        try:
            log = read_log(self._directory)
        except FileNotFoundError:
            return False
        left = set(range(self._ranks)) - set(log.ends)
        return bool(left) and left <= log.stuck() and (not log.ends or log.misnamed() is not None)


def _note_ends(directory: Path, ranks: int, failure: RankFailed | RankTimeout) -> None:
    """In the parent: how the ranks ended that could not say so themselves."""
    for rank in range(ranks):
        path = directory / f"rank{rank}.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if '"op": "end"' in text:
            continue
        if isinstance(failure, RankFailed) and failure.rank == rank:
            state, reason = "died", failure.reason
        else:
            state, reason = "stopped", Sentence("recorder.still_running", "it was still running at the end")
        entry = Operation(rank, 1 << 30, "end", state, time=time.time(), error=reason)
        with path.open("a", encoding="utf-8") as file:  # a line that was cut short stays alone
            file.write(("\n" if text and not text.endswith("\n") else "") + as_line(entry))
