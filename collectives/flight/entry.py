"""One operation of this rank, as the flight record keeps it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import CollectiveError
from ..executor import Progress
from ..log import VERBS

if TYPE_CHECKING:
    from ..call import Description


class Entry:
    """One operation of this rank, as it stands. Of a bare message ``peer`` is the other end, a rank of the group.

    group, seq: whose it is, and its number there, the same on all ranks; None until it runs, for what a callback issues
    overtakes what is queued. said: what the ranks must agree on.
    state: ``queued`` → ``started`` → ``done`` or ``failed``; ``refused`` if nothing was sent for a wrong argument.
    teams: where each of its threads is (ranks of the group), kept up to date by the executor.
    over: asks a device whether it is done, where the host only enqueues. Times are seconds since 1970, 0 if not yet.
    """

    __slots__ = (
        "algorithm", "bytes", "cause", "ended", "error", "group", "over", "peer", "queued", "said", "seq", "started",
        "state", "teams",
    )  # fmt: skip

    def __init__(self, group: str, said: Description, nbytes: int, peer: int | None = None) -> None:
        self.group, self.said, self.bytes, self.peer = group, said, nbytes, peer
        self.seq: int | None = None
        self.state, self.algorithm, self.error, self.cause = "queued", "", "", ""
        self.queued, self.started, self.ended = time.time(), 0.0, 0.0
        self.teams: Sequence[Progress] = ()
        self.over: Callable[[], bool] | None = None
        if peer is not None:  # a message is under way as soon as it is issued
            self.state, self.started = "started", self.queued
            self.teams = [Progress(0.0, 0, VERBS[said.collective], peer)]

    def finish(self) -> None:
        """It went well."""
        self.state, self.ended = "done", time.time()

    def fail(self, error: BaseException, state: str = "failed") -> None:
        """It failed, or was ``refused`` before anything was sent."""
        self.state, self.error, self.ended = state, f"{type(error).__name__}: {error}", time.time()
        if isinstance(error, CollectiveError):
            self.error, self.cause = str(error), error.cause
            if self.started and error.waited is not None:  # to hear who began it took some time more
                self.ended = min(self.ended, self.started + error.waited)
            if not self.teams and error.peer is not None:  # it had not come as far as its first step
                self.teams = [Progress(0.0, error.step or 0, "hear from", error.peer)]

    def as_json(self, seq: int, members: Sequence[int]) -> dict[str, Any]:
        """As in the file, with the number that it has or will have; ``members``: the global ranks of the group."""
        state, ended = self.state, self.ended
        if state == "done" and self.over is not None and not _asked(self.over):
            state, ended = "started", 0.0
        waits = [(team.step, team.verb, members[team.peer]) for team in self.teams if state in ("started", "failed")]
        return {
            "group": self.group,
            "seq": seq,
            "op": self.said.collective,
            "said": self.said(),
            "shape": None if self.said.shape is None else list(self.said.shape),
            "dtype": self.said.dtype_name,
            "peer": None if self.peer is None else members[self.peer],
            "bytes": self.bytes,
            "algorithm": self.algorithm,
            "state": state,
            "queued": self.queued,
            "started": self.started,
            "ended": ended,
            "error": self.error,
            "cause": self.cause,
            "waits": [{"step": step, "verb": verb, "peer": peer} for step, verb, peer in waits],
        }


def _asked(over: Callable[[], bool]) -> bool:
    try:
        return over()
    except RuntimeError:  # a device that has failed knows of nothing that is over
        return False
