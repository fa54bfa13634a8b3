"""Why a program of bare sends and receives went wrong, read off the log of its ranks. Needs no torch."""

from __future__ import annotations

from .log import Log, Operation
from .waits import Wait, find_cycle, in_words


def explain(log: Log) -> str | None:
    """One sentence that says why the program failed, hung, or is wrong although it ended; None if all is well.

    Looks, in this order, for ends of a message that disagree on its size or tag, ranks that wait for each other, a rank
    that failed by itself, a rank that waits for what never comes, and operations that nobody waited for.
    """
    pairs, lonely = _pair(log)
    blocked = _blocked(log, lonely)
    return (
        _sizes(pairs)
        or _other_tag(blocked, lonely)
        or _cycle(blocked)
        or _failed(log, blocked, consequences=False)
        or _partner(log, blocked, lonely)
        or _collective(log)
        or _unwaited(log)
        or _failed(log, blocked, consequences=True)
        or _unfinished(log)
    )


Pair = tuple[Operation, Operation, int]  # a send, its receive, and which of its channel they are, from 1


def _pair(log: Log) -> tuple[list[Pair], list[Operation]]:
    """The k-th send of a pair of ranks meets the k-th receive, per group and tag; and those that meet nobody."""
    channels: dict[tuple[object, ...], tuple[list[Operation], list[Operation]]] = {}
    lonely: list[Operation] = []
    for message in log.messages():
        if message.peer is None:
            lonely.append(message)
            continue
        sends = message.op == "send"
        ends = (message.rank, message.peer) if sends else (message.peer, message.rank)
        channels.setdefault((message.group, message.tag, *ends), ([], []))[0 if sends else 1].append(message)
    pairs = []
    for sent, received in channels.values():
        both = min(len(sent), len(received))
        pairs += [(sent[k], received[k], k + 1) for k in range(both)]
        lonely += sent[both:] + received[both:]
    return pairs, lonely


def _blocked(log: Log, lonely: list[Operation]) -> dict[int, Operation]:
    """Rank → the message that it could not get past because the other end was not there."""
    blocked: dict[int, Operation] = {}
    for operation in lonely:
        ended = log.ends.get(operation.rank)
        if operation.state == "waiting" or (
            operation.state == "failed" and (ended is None or ended.state != "returned")
        ):
            blocked[operation.rank] = operation
    return blocked


def _sizes(pairs: list[Pair]) -> str | None:
    wrong = [pair for pair in pairs if pair[0].bytes != pair[1].bytes]
    if not wrong:
        return None
    send, receive, count = min(wrong, key=lambda pair: max(pair[0].time, pair[1].time))
    tag = f" with tag {send.tag}" if send.tag else ""
    return (
        f"rank {send.rank}'s {_ordinal(count)} send to rank {receive.rank}{tag} carries {send.bytes} bytes"
        f"{_at(send)}, but rank {receive.rank} receives {receive.bytes}{_at(receive)}: "
        "both tensors must have as many elements of the same type"
    )


def _cycle(blocked: dict[int, Operation]) -> str | None:
    verbs = {"send": "send", "recv": "receive"}
    cycle = find_cycle({rank: Wait(rank, o.peer, verbs[o.op]) for rank, o in blocked.items() if o.peer is not None})
    if not cycle:
        return None
    places = [f"rank {wait.rank} at {blocked[wait.rank].where}" for wait in cycle if blocked[wait.rank].where]
    return in_words(cycle) + (f" [{', '.join(places)}]" if places else "")


def _other_tag(blocked: dict[int, Operation], lonely: list[Operation]) -> str | None:
    """A message whose other end is there, under another tag."""
    for rank, operation in sorted(blocked.items()):
        opposite = "recv" if operation.op == "send" else "send"
        for other in lonely:
            if (other.op, other.rank, other.peer) == (opposite, operation.peer, rank) and other.tag != operation.tag:
                verb = "receives" if opposite == "recv" else "sends"
                return (
                    f"rank {rank} waits to {operation}, but rank {other.rank} {verb} with tag {other.tag}{_at(other)}, "
                    f"not {operation.tag}; give both the same tag"
                )
    return None


def _failed(log: Log, blocked: dict[int, Operation], consequences: bool) -> str | None:
    """The first rank that failed; a failure of communication is a consequence, its cause lies with another rank."""
    ends = [end for end in log.ends.values() if end.state == "died"]
    for end in log.ends.values():
        broken = end.rank in blocked or any(operation.state == "failed" for operation in log.operations[end.rank])
        if end.state == "raised" and broken == consequences:
            ends.append(end)
    if not ends:
        return None
    first = min(ends, key=lambda end: end.time)
    last = log.operations[first.rank][-1:]
    after = f"its last operation was: {last[0]}" if last else "it had not sent or received anything"
    return f"rank {first.rank} failed by itself: {first.error}; {after}"


def _partner(log: Log, blocked: dict[int, Operation], lonely: list[Operation]) -> str | None:
    for rank, operation in sorted(blocked.items()):
        peer = operation.peer
        if peer is None:
            return f"rank {rank} waits: {operation}, but no rank sends to it any more"
        if peer in blocked:
            continue
        sends = operation.op == "send"
        waits = f"rank {rank} waits to {operation}"
        end = log.ends.get(peer)
        if busy := [o for o in log.operations.get(peer, []) if o.state == "waiting"]:
            return f"{waits}, but rank {peer} stands in another operation: {busy[-1]}"
        if end is None:
            return f"{waits}, but the record of rank {peer} ends before that"
        if end.state == "stopped":
            return f"{waits}, but rank {peer} was still busy with something else when it was stopped"
        verb = "receives" if sends else "sends"
        opposite = "recv" if sends else "send"
        done = sum(
            1
            for o in log.operations.get(peer, [])
            if o.is_message and (o.op, o.peer, o.tag, o.group) == (opposite, rank, operation.tag, operation.group)
        )
        noun = "receive" if sends else "send"
        toward = "from" if sends else "to"
        count = f"{done or 'no'} {noun}{'s' if done != 1 else ''}"
        why = f"it has ended after {count} {toward} rank {rank}; add the missing {noun}, or take this one away"
        return f"{waits}, which never {verb} it: {why}"
    return None


def _collective(log: Log) -> str | None:
    """A rank in a collective that another one has not entered."""

    def entered(rank: int, group: str) -> list[Operation]:
        return [o for o in log.operations[rank] if o.op not in ("send", "recv") and o.group == group]

    for rank in log.operations:
        for operation in log.operations[rank]:
            if operation.op in ("send", "recv") or operation.state not in ("waiting", "failed"):
                continue
            count = len(entered(rank, operation.group))
            for other, operations in log.operations.items():
                if len(entered(other, operation.group)) < count:
                    last = f"; its last operation was: {operations[-1]}" if operations else ""
                    return f"rank {rank} waits in {operation}, which rank {other} never enters{last}"
    return None


def _unwaited(log: Log) -> str | None:
    for rank, operations in sorted(log.operations.items()):
        for operation in operations:
            if operation.state == "unwaited":
                call = operation.call or operation.op
                name = "send" if operation.op == "send" else "receive"
                what = str(operation).replace(name, call, 1)
                return (
                    f"rank {rank} never waited for its {what}: keep what dist.{call} returns, and call wait() on it "
                    "before the tensor is used again"
                )
    return None


def _unfinished(log: Log) -> str | None:
    for rank, end in sorted(log.ends.items()):
        if end.state == "stopped":
            last = f"after: {log.operations[rank][-1]}" if log.operations[rank] else "before it sent or received"
            return f"rank {rank} did not end ({end.error}); it was busy {last}"
    return None


def _at(operation: Operation) -> str:
    return f" ({operation.where})" if operation.where else ""


def _ordinal(count: int) -> str:
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"
