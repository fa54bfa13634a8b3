"""What a simulated or measured run looked like, for every picture of it.

The spans are the record that real runs write too (``collectives.span``). The rest is what a drawing needs beside them:
which chunks moved when, what links carried, what ranks held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectives.span import Span

from .words import IN_ENGLISH, Words


@dataclass(frozen=True, slots=True)
class Moved:
    """Chunk ``chunk`` (numbered through all channels) was under way from rank to rank, ``start`` to ``end`` seconds.

    holds: how many ranks' contributions the receiver's chunk holds afterwards; reduces: it was added, not replaced.
    """

    chunk: int
    source: int
    to: int
    start: float
    end: float
    reduces: bool
    holds: int


@dataclass(frozen=True, slots=True)
class Curve:
    """A value that changes in steps: ``values[i]`` from ``times[i]`` on (seconds); ``limit`` is what is possible."""

    name: str
    unit: str
    times: Sequence[float]
    values: Sequence[float]
    limit: float = 0.0


@dataclass(frozen=True)
class Replay:
    """One run.

    title: a line above the picture; facts: the numbers of the run, under the keys of the command's JSON; names: how
    the ranks are called, in the order in which they are drawn (rank 0 on top); spans: the Gantt chart; moves, chunks:
    the ring and the grid (``chunks`` 0: there is none), and ``starts[rank][chunk]``: contributions held at first;
    links: what each link carried; memory: what each rank held; unit: seconds, or slots of a schedule without a clock;
    words: those that pictures add. Names of spans and streams, and units, are the same in every language: pictures
    translate them.
    """

    title: str
    facts: Mapping[str, float | str]
    names: Sequence[str]
    spans: Sequence[Span]
    chunks: int = 0
    starts: Sequence[Sequence[int]] = field(default_factory=list)
    moves: Sequence[Moved] = field(default_factory=list)
    links: Sequence[Curve] = field(default_factory=list)
    memory: Sequence[Curve] = field(default_factory=list)
    unit: str = "s"
    words: Words = IN_ENGLISH
