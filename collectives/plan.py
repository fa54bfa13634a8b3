"""One rank's part of a schedule, compiled: a flat list of what to post, copy, send, wait for and combine."""

from __future__ import annotations

from dataclasses import dataclass, field

from .layout import Region


@dataclass(slots=True)
class Turn:
    """One step of one channel, and what else is due before it. Numbers are regions of ``Plan.regions``.

    index, channel: the step's number in the schedule, and whose it is.

    Due first, for this and other turns: posts (slot, region, source, channel) to receive; copies (to, from); sends
    (slot, region, to, channel). Then the step ends: awaits (slot, source) of its receives; early (out, left, right) to
    combine; leaves (slot, to) of its sends; late, to combine when the sends have left; unpack (to, from).
    """

    index: int
    channel: int
    posts: list[tuple[int, int, int, int]] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    sends: list[tuple[int, int, int, int]] = field(default_factory=list)
    awaits: list[tuple[int, int]] = field(default_factory=list)
    early: list[tuple[int, int, int]] = field(default_factory=list)
    leaves: list[tuple[int, int]] = field(default_factory=list)
    late: list[tuple[int, int, int]] = field(default_factory=list)
    unpack: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """A rank's part of a schedule on a given layout.

    teams: channels that take turns in one thread, as the list of their turns; teams run side by side.
    finish: (to, from) copies when all teams are done.
    regions: what the numbers mean; own: (number, region) of those in the caller's tensors.
    scratch: elements of scratch memory; longest: elements of the longest message.
    """

    channels: int
    teams: list[list[Turn]]
    finish: list[tuple[int, int]]
    regions: list[Region]
    own: list[tuple[int, Region]]
    scratch: int
    longest: int
