"""Signs of life through the group's store, for a transport on which a dead peer shows in nothing else (NCCL).

rank   0 ◀────── 1 ◀────── 2 ◀────── 3        each beats, and listens to the next one that has not left
                 └ hears nothing from 2: leaves a word, and all read that 2 is silent

A beat costs a rank a few requests, whatever the number of ranks. A silent rank has died, is stopped, or is in a single
call into C that keeps the interpreter's lock for that long. It may come back; giving up is for ever.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BEAT = 0.4  # seconds between two beats
MISSED = 6  # beats in a row without which a rank is silent
_LEFT = "left"


@dataclass(frozen=True)
class Sign:
    """That something is wrong. rank: with whom it began, None if that is not known; words: what is known of it."""

    rank: int | None
    words: str
    cause: str = "silent"


class Heartbeat:
    """One rank's beat, and its ear; a thread that ends with ``stop``, or when nobody is there any more.

    Args:
        store: the group's. Its own connection is left alone: a rank may wait in that for minutes.
        label: of the communicator, the same on all ranks.
        keeper: the rank that keeps the store, None if it is not known to be in the group.
        alive: asked at every beat; once it says no, the rank leaves.

    issued: how many operations this rank has issued; the others read it with the beat.
    """

    def __init__(
        self, store: Any, rank: int, size: int, label: str, keeper: int | None, alive: Callable[[], bool]
    ) -> None:
        self.issued = 0
        self._store = store.clone() if hasattr(store, "clone") else store
        self._key, self._rank, self._size, self._keeper = f"collectives/beat/{label}", rank, size, keeper
        self._alive = alive
        self._peer, self._last, self._missed = (
            rank,
            "",
            0,
        )  # who is listened to, its last beat, how often it was the same
        self._sign: Sign | None = None
        self._answered = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name="collectives-heartbeat", daemon=True)
        self._thread.start()

    def sign(self) -> Sign | None:
        """What is wrong, as far as this rank has heard; it asks nobody, and so never waits."""
        quiet = time.monotonic() - self._answered
        if quiet < BEAT * MISSED:
            return self._sign
        who = "" if self._keeper is None else f" (rank {self._keeper}, unless a launcher keeps it)"
        return Sign(
            self._keeper,
            f"the store where the ranks meet has not answered for {quiet:.1f} s: the process that keeps it{who} died, "
            "or is stopped",
        )

    def give_up(self, peer: int | None, why: str) -> None:
        """Tell all that this rank has given up, waiting for ``peer``; the first to do so is believed."""
        word = json.dumps({"rank": self._rank, "peer": peer, "why": why})
        with contextlib.suppress(RuntimeError):  # without a store each finds out by itself
            self._store.compare_set(f"{self._key}/gave-up", "", word)

    def behind(self) -> list[tuple[int, int]]:
        """Ranks that have issued the fewest operations, and how many; empty if all have issued as many."""
        counts = [int(beat.split()[1]) if (beat := self._read(rank)) else 0 for rank in range(self._size)]
        least = min(counts)
        return [] if least == max(counts) else [(rank, count) for rank, count in enumerate(counts) if count == least]

    def stop(self) -> None:
        """Leave: nobody listens to this rank any more."""
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(1.0)

    def _live(self) -> None:
        with contextlib.suppress(RuntimeError):  # no store: its connection does not come back, and ``sign`` says so
            number = 0
            while self._alive():
                self._store.set(self._of(self._rank), f"{number} {self.issued}")
                self._listen()
                self._sign = self._hear()
                self._answered = time.monotonic()
                number += 1
                if self._stopping.wait(BEAT):
                    break
            self._store.set(self._of(self._rank), f"{_LEFT} {self.issued}")

    def _listen(self) -> None:
        """Hear the next rank. Missed beats are counted, not timed: this one may have been stopped itself."""
        others = ((self._rank + step) % self._size for step in range(1, self._size))
        beats = ((r, beat) for r in others if not (beat := self._read(r)).startswith(_LEFT))
        peer, beat = next(beats, (self._rank, ""))
        heard = not beat or (peer, beat) != (self._peer, self._last)  # who has not come yet is not silent
        if heard and self._missed >= MISSED:
            self._store.delete_key(f"{self._key}/silent")
        self._missed = 0 if heard else self._missed + 1
        self._peer, self._last = peer, beat
        if self._missed >= MISSED:
            self._store.set(f"{self._key}/silent", str(peer))

    def _hear(self) -> Sign | None:
        """What anybody has found out."""
        if text := self._get(f"{self._key}/gave-up"):
            word = json.loads(text)
            peer = word["rank"] if word["peer"] is None else word["peer"]
            return Sign(peer, f"rank {word['rank']} gave up: {word['why']}", "others")
        if (silent := self._get(f"{self._key}/silent")) and int(silent) != self._rank:
            return Sign(
                int(silent),
                f"rank {silent} has not been heard from for {BEAT * MISSED:.1f} s: it died, or is stopped",
            )
        return None

    def _of(self, rank: int) -> str:
        return f"{self._key}/{rank}"

    def _read(self, rank: int) -> str:
        return self._get(self._of(rank))

    def _get(self, key: str) -> str:
        """What is there; empty if nothing is. (``get`` alone would wait for it.)"""
        return self._store.get(key).decode() if self._store.check([key]) else ""
