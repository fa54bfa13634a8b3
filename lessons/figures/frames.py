"""Who holds what after each step of a schedule, as tables: a row a rank, a column a chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectives.commands.showing import DIGITS
from collectives.contract import Content, Place, contract_of
from collectives.messages import chunks_of
from collectives.proof import Move, moves
from collectives.schedule import Schedule
from sim.draw.palette import scale

Held = list[dict[Place, Content]]


@dataclass(frozen=True)
class Cell:
    """text: whose contributions. share: of those that it will have, 0 to 1. done: as it must be at the end. sign: ``+``
    added or ``=`` received in this step, or nothing.
    """

    text: str
    share: float
    done: bool = False
    sign: str = ""


@dataclass(frozen=True)
class Frame:
    """title: of the step. heads: of the columns. rows: of each rank its cells, None where it holds nothing. came: from
    whom each rank received in this step, in words.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell | None]]
    came: Sequence[str]

    def colour(self, column: int) -> str:
        return scale(column, len(self.heads))


def frames(schedule: Schedule, size: int, words: Mapping[str, str]) -> Iterator[Frame]:
    """The start and every step of every channel; ``words``: those of ``showing``.

    Raises:
        ScheduleError: the schedule is wrong.
    """
    contract, chunks = contract_of(schedule.collective), chunks_of(schedule, size)
    for channel in range(schedule.channels):
        steps = moves(schedule, size, channel)
        held: Held = [dict(contract.starts(rank, size, chunks)) for rank in range(size)]
        ends: Held = [dict(contract.ends(rank, size, chunks)) for rank in range(size)]
        places = _columns({place for row in [*held, *ends] for place in row} | {move.target for move in steps})
        yield frame(words["show.start"], held, ends, places, words)
        for number in sorted({move.round for move in steps}):
            now = [move for move in steps if move.round == number]
            for move in now:
                held[move.to][move.target] = move.content
            title = words["show.step"].format(step=number - 1) if number else words["show.local"]
            yield frame(title, held, ends, places, words, now)


def frame(
    title: str,
    held: Held,
    ends: Held,
    places: Sequence[Place],
    words: Mapping[str, str],
    now: Sequence[Move] = (),
) -> Frame:
    signs = {(move.to, move.target): "+" if move.reduces else "=" for move in now}
    whole = {place: row[place][1].bit_count() for row in ends for place in row}

    def cell(rank: int, place: Place) -> Cell | None:
        content = held[rank].get(place)
        if content is None:
            return None
        share = min(1.0, content[1].bit_count() / whole.get(place, 1))
        return Cell(_text(content, len(held)), share, ends[rank].get(place) == content, signs.get((rank, place), ""))

    rows = [[cell(rank, place) for place in places] for rank in range(len(held))]
    came = [_came([move for move in now if move.to == rank], words) for rank in range(len(held))]
    return Frame(title, [_name(place, words) for place in places], rows, came)


def _columns(places: set[Place]) -> list[Place]:
    order = {"work": 0, "output": 1, "scratch": 2}
    return sorted((place for place in places if place[0] in order), key=lambda place: (order[place[0]], place[1]))


def _came(arrived: Sequence[Move], words: Mapping[str, str]) -> str:
    chunks: dict[int, list[str]] = {}
    for move in arrived:
        chunks.setdefault(move.source, []).append(_name(move.place, words))
    return "; ".join(words["show.from"].format(chunks=", ".join(names), rank=rank) for rank, names in chunks.items())


def _name(place: Place, words: Mapping[str, str]) -> str:
    space, index = place
    return str(index) if space == "work" else words[f"show.{space}"].format(index=index)


def _text(content: Content, size: int) -> str:
    tag, ranks = content
    if isinstance(tag, tuple):
        return f"{tag[0]}→{tag[1]}"
    members = [rank for rank in range(size) if ranks >> rank & 1]
    return "".join(DIGITS[rank] for rank in members) if size <= 8 else str(len(members))
