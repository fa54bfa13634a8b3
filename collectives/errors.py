"""The errors of this package; none of them needs torch."""

from __future__ import annotations

from typing import Literal

from .sentence import Sentence

Kind = Literal["deadlock", "race", "order", "missing", "duplicate"]


class ScheduleError(ValueError):
    """A schedule that must not run. ``sentence`` says what is wrong, where, and how to mend it.

    A plain string becomes the field ``sentence`` of a sentence without words of its own.

    kind: ``deadlock`` (ranks wait for each other), ``race`` (two operations of one step touch a chunk),
        ``order`` (both ends of a message disagree on what it carries, or data lands in the wrong place),
        ``missing`` (a message without its other end, a chunk sent before it is held, a contribution absent at the
        end) or ``duplicate`` (a contribution combined twice).
    rank, step: where it shows, as the sentence's fields say unless given; None where it has no single place.
    """

    def __init__(self, sentence: str, kind: Kind, rank: int | None = None, step: int | None = None) -> None:
        said = (
            sentence if isinstance(sentence, Sentence) else Sentence("schedule.plain", "{sentence}", sentence=sentence)
        )
        super().__init__(said)
        self.sentence, self.kind = said, kind
        self.rank: int | None = said.fields.get("rank") if rank is None else rank
        self.step: int | None = said.fields.get("step") if step is None else step

    def __reduce__(self) -> tuple[type[ScheduleError], tuple[Sentence, Kind, int | None, int | None]]:
        return type(self), (self.sentence, self.kind, self.rank, self.step)


class CollectiveError(RuntimeError):
    """A collective that failed on real ranks: a peer died, stalled or disagreed. The group is broken afterwards.

    operation, algorithm: what ran; step: its step; peer: the rank (of the group) that this one waited for;
    waited: for how many seconds. None where it does not apply. cause: ``timeout``, ``closed`` (the connection to the
    peer), ``silent`` (on NCCL: the peer gives no sign of life), ``others`` (some rank elsewhere gave up) or ``error``.
    """

    def __init__(
        self,
        sentence: str,
        *,
        operation: str = "",
        algorithm: str = "",
        step: int | None = None,
        peer: int | None = None,
        waited: float | None = None,
        cause: str = "",
    ) -> None:
        super().__init__(sentence)
        self.cause = cause
        self.operation, self.algorithm, self.step, self.peer, self.waited = operation, algorithm, step, peer, waited


class MismatchError(CollectiveError):
    """The ranks called different things; no data was sent, and the group can still be used."""
