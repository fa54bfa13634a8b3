"""Memory that is used again while a send or receive that is not over yet still needs it. Needs no torch."""

from __future__ import annotations

from .log import Log, Operation
from .sentence import Sentence


def overlap(log: Log) -> Sentence | None:
    """The first message that a rank posted onto the memory of an earlier one before it had waited for that.

    Two sends may read the same memory; as soon as one of the two is a receive, the result depends on timing.
    O(messages × messages pending on a rank).
    """
    for rank, events in sorted(log.events.items()):
        messages = {operation.seq: operation for operation in log.operations[rank] if operation.is_message}
        pending: dict[int, Operation] = {}
        for seq, state in events:
            if seq not in messages:
                continue
            if state == "posted":
                later = messages[seq]
                for earlier in pending.values():
                    if _collide(earlier, later):
                        return _in_words(earlier, later)
                pending[seq] = later
            elif state in ("done", "failed"):
                pending.pop(seq)
    return None


def _collide(earlier: Operation, later: Operation) -> bool:
    shared = min(earlier.memory[1], later.memory[1]) - max(earlier.memory[0], later.memory[0])
    return shared > 0 and "recv" in (earlier.op, later.op)


def _in_words(earlier: Operation, later: Operation) -> Sentence:
    rank, one, other = earlier.rank, earlier.sentence, later.sentence
    if earlier.op == "send":
        return Sentence(
            "overlap.receive_over_send",
            "rank {rank}'s {later} writes into memory that its {earlier} may still be reading: "
            "receive into a fresh buffer, or wait for the send first",
            rank=rank,
            later=other,
            earlier=one,
        )
    if later.op == "send":
        return Sentence(
            "overlap.send_over_receive",
            "rank {rank}'s {later} reads memory that its {earlier} may still be writing: "
            "wait for the receive before you send what it brings",
            rank=rank,
            later=other,
            earlier=one,
        )
    return Sentence(
        "overlap.receive_over_receive",
        "rank {rank}'s {later} writes into memory that its {earlier} may still be writing: "
        "give each receive a buffer of its own, or wait for the first before you post the second",
        rank=rank,
        later=other,
        earlier=one,
    )
