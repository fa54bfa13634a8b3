"""The slips that people make in schedules, each undone: what a wrong schedule is tried with.

A slip is a change to the steps of every rank, and the sentence that says what was wrong. The most specific come first,
since the first that makes the schedule right is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collectives.schedule import Recv, Reduce, Send

from .edits import (
    OWNERS,
    Edit,
    apart,
    around_root,
    at_steps,
    at_the_end,
    by_owner,
    everywhere,
    exchanged,
    from_owner,
    in_one,
    in_pairs,
    in_their_buffers,
    on_ranks,
    one_by_one,
    passed_on,
    peer_of,
    racing,
    receives_first,
    renamed,
    retyped,
    sends_to,
    shifted,
    to_the_other_side,
    where_it_sends,
    without,
    wrapped,
)
from .said import Said


@dataclass(frozen=True)
class Slip:
    """What was wrong, and the change that undoes it."""

    sentence: Said
    edit: Edit


def slips(collective: str, steps: int, chunks: int) -> Iterator[Slip]:
    """All of them, for a schedule of so many ``steps`` at most and so many ``chunks``."""
    yield from _of_order()
    yield from _of_ranks(chunks)
    yield Slip(Said("repair.one_step"), in_one)
    yield Slip(Said("repair.last"), lambda steps, rank, size, chunks: list(steps[:-1]))
    yield Slip(Said("repair.first"), lambda steps, rank, size, chunks: list(steps[1:]))
    if collective == "all_to_all":
        yield Slip(Said("repair.buffers"), everywhere(in_their_buffers))
    yield Slip(Said("repair.exchanged"), exchanged)
    yield Slip(Said("repair.pass_on"), passed_on)
    yield from _of_chunks(steps)


def _of_order() -> Iterator[Slip]:
    """What happens in which step."""
    yield Slip(Said("repair.together"), in_pairs)
    yield Slip(Said("repair.one_by_one"), one_by_one)
    yield Slip(Said("repair.receive_before"), apart(racing, receive_first=True))
    yield Slip(Said("repair.send_before"), apart(racing, receive_first=False))
    yield Slip(Said("repair.root_between"), around_root)
    yield Slip(Said("repair.receive_first"), receives_first)
    yield Slip(Said("repair.root_last"), on_ranks(lambda rank: rank == 0, receives_first))


def _of_ranks(chunks: int) -> Iterator[Slip]:
    """Who sends to whom."""
    yield Slip(
        Said("repair.arguments"), everywhere(lambda one, rank, size, chunks: renamed(one, peer_of(one), one.chunk))
    )
    yield Slip(Said("repair.itself"), without(lambda one, rank, size: peer_of(one) == rank))
    yield Slip(Said("repair.nobody"), without(lambda one, rank, size: not 0 <= peer_of(one) < size))
    yield Slip(Said("repair.no_ring"), without(lambda one, rank, size: rank == size - 1 and sends_to(one, 0)))
    for name, turn in (("peers", (Send, Recv, Reduce)), ("to", (Send,)), ("source", (Recv, Reduce))):
        yield Slip(Said(f"repair.{name}"), everywhere(to_the_other_side(turn)))
    if chunks == 1:
        yield Slip(Said("repair.one_chunk"), everywhere(wrapped(ranks=False, chunks=True)))
    else:
        yield Slip(Said("repair.ranks_modulo"), everywhere(wrapped(ranks=True, chunks=False)))
        yield Slip(Said("repair.chunks_modulo"), everywhere(wrapped(ranks=False, chunks=True)))
        yield Slip(Said("repair.modulo"), everywhere(wrapped(ranks=True, chunks=True)))
    yield Slip(Said("repair.source_owner"), everywhere(from_owner))


def _of_chunks(steps: int) -> Iterator[Slip]:
    """Which chunk, and whether it is replaced or added to."""
    for sent in OWNERS:
        for received in OWNERS:
            if sent != "as_is" or received != "as_is":
                yield Slip(Said(f"repair.owner.{sent}_{received}"), everywhere(by_owner(sent, received)))
    for where, said in _places(steps):
        for by in (1, -1, 2, -2):
            fields = {"where": said, "by": abs(by), "fix": f"{by:+d}".replace("-", "−")}
            yield Slip(Said("repair.sent", fields), at_steps(where, shifted((Send,), by)))
            yield Slip(Said("repair.received", fields), at_steps(where, shifted((Recv, Reduce), by)))
            yield Slip(Said("repair.chunks", fields), at_steps(where, shifted((Send, Recv, Reduce), by)))
        yield Slip(Said("repair.reduce", {"where": said}), at_steps(where, retyped(Recv, Reduce)))
        yield Slip(Said("repair.recv", {"where": said}), at_steps(where, retyped(Reduce, Recv)))
    for name, old, new in (("reduce", Recv, Reduce), ("recv", Reduce, Recv)):
        change = everywhere(retyped(old, new))
        for part, edit in (
            ("root", on_ranks(lambda rank: rank == 0, change)),
            ("others", on_ranks(lambda rank: rank != 0, change)),
            ("exchange", where_it_sends(change)),
            ("last", at_the_end(change)),
        ):
            yield Slip(Said(f"repair.{name}", {"where": Said(f"repair.at.{part}")}), edit)


def _places(steps: int) -> Iterator[tuple[range, Said]]:
    """Everywhere, or from a step on, or at one step."""
    yield range(1 << 20), Said("repair.at.all")
    for step in range(1, steps):
        yield range(step, 1 << 20), Said("repair.at.from", {"step": step})
    for step in range(steps):
        yield range(step, step + 1), Said("repair.at.one", {"step": step})
