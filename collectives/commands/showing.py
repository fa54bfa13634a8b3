"""``show``: draw, step by step, which rank holds which contributions of which chunk."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

from ..contract import Content, Place
from ..schedule import Schedule

HELP = "draw an algorithm step by step: which rank holds which contributions of which chunk"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
WORDS: Mapping[str, str] = {
    "show.title": "{name} (ranks: {size}), chunks: {chunks}, steps: {steps}, messages: {messages}; "
    "a rank sends at most {most} of the buffer",
    "show.channel": "channel {channel}",
    "show.share": "{channel}, on its share of the buffer",
    "show.chunk": "chunk",
    "show.start": "start",
    "show.local": "local",
    "show.step": "step {step}",
    "show.rank": "rank {rank}",
    "show.from": "{chunks} from rank {rank}",
    "show.input": "in{index}",
    "show.output": "out{index}",
    "show.scratch": "scr{index}",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("algorithm", help="NAME[:option=value,…], FILE.py:name or module:name")
    parser.add_argument("--ranks", type=int, default=4, metavar="N", help="number of ranks (default 4)")
    parser.add_argument("--collective", "--op", metavar="NAME", help="which of its collectives (default: its largest)")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """a cell lists the ranks whose contributions the chunk holds (above 8 ranks: how many);
+ combined and = received in this step

examples:
  python -m collectives show ring --ranks 4
  python -m collectives show binomial --collective broadcast --ranks 8
  python -m collectives show my_ring.py:all_reduce"""


def main(args: argparse.Namespace) -> int:
    from rich.console import Console

    from ..registry import find_all

    try:
        if args.ranks < 1:
            raise ValueError(f"--ranks {args.ranks}: use a number from 1 on")
        found = find_all(args.algorithm, args.collective)
        schedule = next((s for s in found if s.collective == "all_reduce"), found[0])
        console = Console(highlight=False, soft_wrap=True)
        for line in draw(schedule, args.ranks):
            console.print(line)
        others = [s.collective for s in found if s is not schedule]
        if others:
            console.print(f"\n# {schedule.name} also does {', '.join(others)}: --collective NAME")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1 if hasattr(error, "kind") else 2
    return 0


def draw(schedule: Schedule, size: int, words: Mapping[str, str] = WORDS) -> Iterator[str]:
    """The lines, with rich's markup for what changed; every channel in turn.

    words: those of another language, by the ids of ``WORDS``; what it lacks is English.

    Raises:
        ScheduleError: the schedule is wrong.
    """
    from ..contract import CONTRACTS
    from ..messages import chunks_of
    from ..proof import moves, prove

    words = {**WORDS, **words}
    proof, chunks = prove(schedule, size), chunks_of(schedule, size)
    yield words["show.title"].format(
        name=f"[bold]{schedule} {schedule.collective}[/bold]",
        size=size,
        chunks=chunks * schedule.channels,
        steps=proof.steps,
        messages=proof.messages,
        most=max(proof.sent.values()),
    )
    for channel in range(schedule.channels):
        if schedule.channels > 1:
            name = words["show.channel"].format(channel=channel)
            yield "\n" + words["show.share"].format(channel=f"[bold]{name}[/bold]")
        contract = CONTRACTS[schedule.collective]
        held = [dict(contract.starts(rank, size, chunks)) for rank in range(size)]
        steps = moves(schedule, size, channel)
        ends = [dict(contract.ends(rank, size, chunks)) for rank in range(size)]
        columns = _columns(held, [m.target for m in steps], schedule.collective)
        yield from _grid(words, words["show.start"], held, ends, columns, size, {}, [])
        for number in sorted({move.round for move in steps}):
            now = [move for move in steps if move.round == number]
            for move in now:
                held[move.to][move.target] = move.content
            signs = {(m.to, m.target): "+" if m.reduces else "=" for m in now}
            arrows = [(m.to, m.source, _name(m.place, words)) for m in now]
            title = words["show.step"].format(step=number - 1) if number else words["show.local"]
            yield from _grid(words, title, held, ends, columns, size, signs, arrows)


def _columns(held: list[dict[Place, Content]], targets: list[Place], collective: str) -> list[Place]:
    order = {"work": 0, "output": 1, "scratch": 2}
    places = set(targets) | {place for rank in held for place in rank if place[0] != "input"}
    if collective == "all_to_all":
        places |= {("output", i) for i in range(len(held))}
    return sorted(places, key=lambda place: (order[place[0]], place[1]))


def _name(place: Place, words: Mapping[str, str]) -> str:
    space, index = place
    return str(index) if space == "work" else words[f"show.{space}"].format(index=index)


def _content(content: Content, size: int) -> str:
    tag, ranks = content
    if isinstance(tag, tuple):
        return f"{tag[0]}→{tag[1]}"
    members = [rank for rank in range(size) if ranks >> rank & 1]
    return "".join(DIGITS[rank] for rank in members) if size <= 8 else str(len(members))


def _grid(
    words: Mapping[str, str],
    title: str,
    held: list[dict[Place, Content]],
    ends: list[dict[Place, Content]],
    columns: list[Place],
    size: int,
    signs: dict[tuple[int, Place], str],
    arrows: list[tuple[int, int, str]],
) -> Iterator[str]:
    from rich.cells import cell_len, set_cell_size

    cells = {(r, c): _content(held[r][c], size) for r in range(size) for c in columns if c in held[r]}
    names, heading = [_name(c, words) for c in columns], words["show.chunk"]
    ranks = [words["show.rank"].format(rank=rank) for rank in range(size)]
    width = 1 + max([*map(cell_len, [*cells.values(), *names]), 2])
    left = max([*map(cell_len, [title + heading, *ranks]), 14])
    title = set_cell_size(title, left - cell_len(heading))
    yield (f"\n[bold]{title}[/bold]{heading} " + "".join(" " + set_cell_size(name, width) for name in names)).rstrip()
    for rank in range(size):
        line = " " * (left - cell_len(ranks[rank])) + ranks[rank] + " "
        for column in columns:
            sign = signs.get((rank, column), " ")
            text = sign + f"{cells.get((rank, column), '·'):<{width}}"
            style = "green" if column in held[rank] and ends[rank].get(column) == held[rank][column] else ""
            style += " bold" if sign != " " else ""
            line += f"[{style.strip()}]{text}[/]" if style.strip() else text
        came: dict[int, list[str]] = {}
        for to, source, chunk in arrows:
            if to == rank:
                came.setdefault(source, []).append(chunk)
        said = "; ".join(words["show.from"].format(chunks=", ".join(c), rank=source) for source, c in came.items())
        yield (line + (" ← " + said if said else "")).rstrip()
