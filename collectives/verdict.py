"""What the prover can find wrong with a schedule: each fault as the error that says it, with what a picture needs.

``place`` is where the data lie, ``step`` the step of ``rank``, None if that rank does nothing.
"""

from __future__ import annotations

from .contract import Place
from .errors import ScheduleError
from .messages import show
from .sentence import Sentence

# Which data: (from rank, for rank, part), of all_to_all. Elsewhere a chunk that goes astray is an other_chunk at once.
Tag = tuple[int, int, int]


def other_length(source: int, sent_at: int, sent: int, to: int, step: int, received: int) -> ScheduleError:
    """Both ends of a message disagree on how many chunks it has."""
    return ScheduleError(
        Sentence(
            "proof.other_length",
            "the message from rank {source} (step {sent_at}) to rank {rank} (step {step}) does not have as many chunks "
            "where it is sent ({sent}) as where it is received ({received}): list the same chunks on both sides",
            source=source,
            sent_at=sent_at,
            sent=sent,
            rank=to,
            step=step,
            received=received,
        ),
        "order",
    )


def other_chunk(source: int, sent_at: int, place: Place, to: int, step: int, target: Place) -> ScheduleError:
    """Both ends of a message disagree on which chunk it carries."""
    return ScheduleError(
        Sentence(
            "proof.other_chunk",
            "the message from rank {source} (step {sent_at}) to rank {rank} (step {step}) carries {carried} but is "
            "received as {place}: chunks may differ in size and the data would land in the wrong place; name the same "
            "chunk on both sides, in the same order",
            source=source,
            sent_at=sent_at,
            carried=show(place),
            rank=to,
            step=step,
            place=show(target),
        ),
        "order",
    )


def not_held(rank: int, step: int, place: Place, to: int) -> ScheduleError:
    """A rank sends what it does not have."""
    return ScheduleError(
        Sentence(
            "proof.not_held",
            "rank {rank} sends {place} to rank {to} at step {step}, but does not hold it yet: "
            "receive it in an earlier step",
            rank=rank,
            step=step,
            place=show(place),
            to=to,
        ),
        "missing",
    )


def reduces_into_nothing(rank: int, step: int, place: Place, source: int) -> ScheduleError:
    """A rank combines with what it does not have."""
    return ScheduleError(
        Sentence(
            "proof.reduces_into_nothing",
            "rank {rank} reduces into {place} at step {step}, which holds nothing yet: use Recv",
            rank=rank,
            step=step,
            place=show(place),
            source=source,
        ),
        "missing",
    )


def different(rank: int, step: int, place: Place, source: int, found: Tag, wanted: Tag) -> ScheduleError:
    """Rank ``source`` sends ``found``, and the place holds ``wanted``."""
    return ScheduleError(
        Sentence(
            "proof.different",
            "rank {rank} combines two different chunks in {place} at step {step}: what rank {source} sends belongs "
            "elsewhere; check the chunk index",
            rank=rank,
            step=step,
            place=show(place),
            source=source,
            found=found,
            wanted=wanted,
        ),
        "order",
    )


def twice(rank: int, step: int, place: Place, source: int, counted: int) -> ScheduleError:
    """counted: the bit mask of the ranks whose contributions are in both operands."""
    return ScheduleError(
        Sentence(
            "proof.twice",
            "rank {rank} counts the contribution of {ranks} to {place} twice at step {step}, with what rank {source} "
            "sends: it is already in; send a chunk that does not hold it, or use Recv",
            rank=rank,
            step=step,
            place=show(place),
            source=source,
            counted=_members(counted),
            ranks=_ranks(_members(counted)),
        ),
        "duplicate",
    )


def never_received(rank: int, step: int, peer: int) -> ScheduleError:
    """A send without its other end."""
    return ScheduleError(
        Sentence(
            "proof.never_received",
            "rank {rank} sends to rank {peer} at step {step}, but rank {peer} never receives it: "
            "add the matching Recv or Reduce to rank {peer}, or take this one away",
            rank=rank,
            step=step,
            peer=peer,
        ),
        "missing",
    )


def never_sent(rank: int, step: int, peer: int) -> ScheduleError:
    """A receive without its other end."""
    return ScheduleError(
        Sentence(
            "proof.never_sent",
            "rank {rank} receives from rank {peer} at step {step}, but rank {peer} never sends it: "
            "add the matching Send to rank {peer}, or take this one away",
            rank=rank,
            step=step,
            peer=peer,
        ),
        "missing",
    )


def other_partner(rank: int, step: int, peer: int, other: int) -> ScheduleError:
    """Rank ``rank`` exchanges with ``peer``, and that with ``other``."""
    return ScheduleError(
        Sentence(
            "proof.other_partner",
            "rank {rank} exchanges with rank {peer} at step {step}, but rank {peer} exchanges with rank {other}: "
            "the partner must be the same seen from both sides",
            rank=rank,
            step=step,
            peer=peer,
            other=other,
        ),
        "deadlock",
    )


def without(rank: int, step: int | None, place: Place) -> ScheduleError:
    """A place that was promised is empty at the end."""
    return ScheduleError(
        Sentence(
            "proof.without",
            "rank {rank} ends without {place}: no step brings it there; is the last step missing?",
            rank=rank,
            step=step,
            place=show(place),
        ),
        "missing",
    )


def wrong_data(rank: int, step: int | None, place: Place, found: Tag, wanted: Tag) -> ScheduleError:
    """A place holds other data at the end than was promised."""
    return ScheduleError(
        Sentence(
            "proof.wrong_data",
            "rank {rank} ends with the wrong data in {place}: {is_there} where {belongs} belongs; "
            "check the chunk index",
            rank=rank,
            step=step,
            place=show(place),
            found=found,
            wanted=wanted,
            is_there=_data(found),
            belongs=_data(wanted),
        ),
        "order",
    )


def lacking(rank: int, step: int | None, place: Place, missing: int) -> ScheduleError:
    """missing: the bit mask of the ranks whose contributions were promised and are not in."""
    return ScheduleError(
        Sentence(
            "proof.lacking",
            "rank {rank} ends with {place} lacking the contribution of {ranks}: "
            "is a step missing, or does a Recv replace what a Reduce should add to?",
            rank=rank,
            step=step,
            place=show(place),
            missing=_members(missing),
            ranks=_ranks(_members(missing)),
        ),
        "missing",
    )


def _members(mask: int) -> tuple[int, ...]:
    return tuple(rank for rank in range(mask.bit_length()) if mask >> rank & 1)


def _ranks(ranks: tuple[int, ...]) -> Sentence:
    if len(ranks) == 1:
        return Sentence("proof.rank", "rank {rank}", rank=ranks[0])
    return Sentence("proof.ranks", "ranks {ranks}", ranks=ranks)


def _data(tag: Tag) -> Sentence:
    source, to, part = tag
    return Sentence(
        "proof.block", "part {part} of rank {source}'s block for rank {to}", part=part, source=source, to=to
    )
