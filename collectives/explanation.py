"""Why a program of bare sends and receives went wrong, read off the log of its ranks. Needs no torch."""

from __future__ import annotations

from .log import VERBS, Log, Operation, Pair
from .overlap import overlap
from .sentence import Sentence
from .waits import Wait, find_cycle, in_words


def explain(log: Log) -> Sentence | None:
    """One sentence that says why the program failed, hung, or is wrong although it ended; None if all is well.

    Looks, in this order, for ends of a message that disagree on its size or tag, groups that ranks do not make in one
    order, ranks that wait for each other, a rank that failed by itself, a rank that waits for what never comes, memory
    that is used while a receive or send still needs it, and operations that nobody waited for.
    """
    pairs, lonely = log.pairs()
    blocked = _blocked(log, lonely)
    return (
        _sizes(pairs)
        or _groups(log)
        or _other_tag(blocked, lonely)
        or _cycle(blocked)
        or _failed(log, blocked, consequences=False)
        or _partner(log, blocked, lonely)
        or _collective(log)
        or overlap(log)
        or _unwaited(log)
        or _failed(log, blocked, consequences=True)
        or _unfinished(log)
    )


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


def _sizes(pairs: list[Pair]) -> Sentence | None:
    wrong = [pair for pair in pairs if pair[0].bytes != pair[1].bytes]
    if not wrong:
        return None
    send, receive, count = min(wrong, key=lambda pair: max(pair[0].time, pair[1].time))
    return Sentence(
        "log.sizes",
        "rank {rank}'s {ordinal} send to rank {peer}{tagged} carries {sent} bytes{sent_at}, but rank {peer} receives "
        "{received}{received_at}: both tensors must have as many elements of the same type",
        rank=send.rank,
        ordinal=_ordinal(count),
        peer=receive.rank,
        tagged=send.tagged,
        sent=send.bytes,
        sent_at=send.at,
        received=receive.bytes,
        received_at=receive.at,
        count=count,
    )


def _groups(log: Log) -> Sentence | None:
    misnamed = log.misnamed()
    if misnamed is None:
        return None
    one, other = misnamed
    return Sentence(
        "log.groups",
        "rank {rank} makes a group of ranks {members}{at} while rank {peer} makes one of ranks {others}{others_at}: "
        "every rank must call new_group for every group, in the same order, also for those that it is not in",
        rank=one.rank,
        members=one.members,
        at=one.at,
        peer=other.rank,
        others=other.members,
        others_at=other.at,
    )


def _cycle(blocked: dict[int, Operation]) -> Sentence | None:
    cycle = find_cycle(
        {
            rank: Wait(rank, operation.peer, VERBS[operation.op], where=operation.where)
            for rank, operation in blocked.items()
            if operation.peer is not None
        }
    )
    return in_words(cycle) if cycle else None


def _other_tag(blocked: dict[int, Operation], lonely: list[Operation]) -> Sentence | None:
    """A message whose other end is there, under another tag."""
    for rank, operation in sorted(blocked.items()):
        opposite = "recv" if operation.op == "send" else "send"
        for other in lonely:
            if (other.op, other.rank, other.peer) != (opposite, operation.peer, rank) or other.tag == operation.tag:
                continue
            if opposite == "recv":
                return Sentence(
                    "log.received_with_other_tag",
                    "rank {rank} waits to {operation}, but rank {peer} receives with tag {other_tag}{at}, not {tag}; "
                    "give both the same tag",
                    rank=rank,
                    operation=operation.sentence,
                    peer=other.rank,
                    other_tag=other.tag,
                    at=other.at,
                    tag=operation.tag,
                )
            return Sentence(
                "log.sent_with_other_tag",
                "rank {rank} waits to {operation}, but rank {peer} sends with tag {other_tag}{at}, not {tag}; "
                "give both the same tag",
                rank=rank,
                operation=operation.sentence,
                peer=other.rank,
                other_tag=other.tag,
                at=other.at,
                tag=operation.tag,
            )
    return None


def _failed(log: Log, blocked: dict[int, Operation], consequences: bool) -> Sentence | None:
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
    if not last:
        return Sentence(
            "log.failed_at_once",
            "rank {rank} failed by itself: {error}; it had not sent or received anything",
            rank=first.rank,
            error=first.error,
        )
    return Sentence(
        "log.failed",
        "rank {rank} failed by itself: {error}; its last operation was: {last}",
        rank=first.rank,
        error=first.error,
        last=last[0].sentence,
    )


def _partner(log: Log, blocked: dict[int, Operation], lonely: list[Operation]) -> Sentence | None:
    coming = {operation.peer for operation in lonely if operation.op == "send"}
    for rank, operation in sorted(blocked.items()):
        peer = operation.peer
        if peer is None and rank in coming:
            continue
        if peer is None:
            return Sentence(
                "log.nobody_sends",
                "rank {rank} waits: {operation}, but no rank sends to it any more",
                rank=rank,
                operation=operation.sentence,
            )
        if peer not in blocked:
            return _absent(log, operation, peer)
    return None


def _absent(log: Log, operation: Operation, peer: int) -> Sentence:
    """Why the other end of a message is not there, though its rank does not wait for a message."""
    rank, what, end = operation.rank, operation.sentence, log.ends.get(peer)
    theirs = log.operations.get(peer, [])
    if busy := [other for other in theirs if other.state == "waiting"]:
        return Sentence(
            "log.peer_elsewhere",
            "rank {rank} waits to {operation}, but rank {peer} stands in another operation: {other}",
            rank=rank,
            operation=what,
            peer=peer,
            other=busy[-1].sentence,
        )
    if end is None:
        return Sentence(
            "log.record_ends",
            "rank {rank} waits to {operation}, but the record of rank {peer} ends before that",
            rank=rank,
            operation=what,
            peer=peer,
        )
    if end.state == "stopped":
        return Sentence(
            "log.peer_busy",
            "rank {rank} waits to {operation}, but rank {peer} was still busy with something else when it was stopped",
            rank=rank,
            operation=what,
            peer=peer,
        )
    opposite = "recv" if operation.op == "send" else "send"
    wanted = (opposite, rank, operation.tag, operation.group)
    done = sum(o.is_message and (o.op, o.peer, o.tag, o.group) == wanted for o in theirs)
    if opposite == "recv":
        return Sentence(
            "log.never_received",
            "rank {rank} waits to {operation}, which never receives it: it has ended, with {receives} from rank "
            "{rank}; add the missing receive, or take this one away",
            rank=rank,
            operation=what,
            peer=peer,
            receives=_receives(done),
            done=done,
        )
    return Sentence(
        "log.never_sent",
        "rank {rank} waits to {operation}, which never sends it: it has ended, with {sends} to rank {rank}; "
        "add the missing send, or take this one away",
        rank=rank,
        operation=what,
        peer=peer,
        sends=_sends(done),
        done=done,
    )


def _collective(log: Log) -> Sentence | None:
    """A rank in a collective that another one has not entered; who makes a group has got further than the others."""
    every = [o for operations in log.operations.values() for o in operations if o.is_collective]
    for operation in sorted(every, key=lambda operation: operation.op == "new_group"):
        if operation.state not in ("waiting", "failed"):
            continue
        for other in log.missing(operation):
            last = log.operations.get(other, [])[-1:]
            if not last:
                return Sentence(
                    "log.not_entered_at_all",
                    "rank {rank} waits in {operation}, which rank {peer} never enters",
                    rank=operation.rank,
                    operation=operation.sentence,
                    peer=other,
                )
            return Sentence(
                "log.not_entered",
                "rank {rank} waits in {operation}, which rank {peer} never enters; its last operation was: {last}",
                rank=operation.rank,
                operation=operation.sentence,
                peer=other,
                last=last[0].sentence,
            )
    return None


def _unwaited(log: Log) -> Sentence | None:
    for rank, operations in sorted(log.operations.items()):
        for operation in operations:
            if operation.state == "unwaited":
                return Sentence(
                    "log.unwaited",
                    "rank {rank} never waited for its {called}: keep what dist.{call} returns, and call wait() on it "
                    "before the tensor is used again",
                    rank=rank,
                    called=operation.called,
                    call=operation.call or operation.op,
                )
    return None


def _unfinished(log: Log) -> Sentence | None:
    for rank, end in sorted(log.ends.items()):
        if end.state != "stopped":
            continue
        if not log.operations[rank]:
            return Sentence(
                "log.unfinished_at_once",
                "rank {rank} did not end ({error}); it was busy before it sent or received",
                rank=rank,
                error=end.error,
            )
        return Sentence(
            "log.unfinished",
            "rank {rank} did not end ({error}); it was busy after: {last}",
            rank=rank,
            error=end.error,
            last=log.operations[rank][-1].sentence,
        )
    return None


def _ordinal(count: int) -> Sentence:
    last = 0 if count % 100 in (11, 12, 13) else count % 10
    if last == 1:
        return Sentence("ordinal.st", "{number}st", number=count)
    if last == 2:
        return Sentence("ordinal.nd", "{number}nd", number=count)
    if last == 3:
        return Sentence("ordinal.rd", "{number}rd", number=count)
    return Sentence("ordinal.th", "{number}th", number=count)


def _sends(count: int) -> Sentence:
    if count == 0:
        return Sentence("count.no_sends", "no sends")
    if count == 1:
        return Sentence("count.one_send", "1 send")
    return Sentence("count.sends", "{count} sends", count=count)


def _receives(count: int) -> Sentence:
    if count == 0:
        return Sentence("count.no_receives", "no receives")
    if count == 1:
        return Sentence("count.one_receive", "1 receive")
    return Sentence("count.receives", "{count} receives", count=count)
