"""Pictures of what happened, in lines of text: who sent what to whom, and what is in whose data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from collectives.log import Log, Operation
from collectives.schedule import Chunk, Recv, Reduce, Schedule, Send, Step
from collectives.schedule import Operation as Action

from .catalogue import Catalogue

if TYPE_CHECKING:
    from .checks.marks import Origin
    from .diagnosis import Wrong

WIDTH = 74
_MOST = 10  # operations of a rank, or pieces of its data


def log_lines(log: Log, say: Catalogue) -> Iterator[str]:
    """What every rank sent and received, in its order; a cross where it stood for ever. Nothing if nobody did."""
    rows = {rank: [one for one in operations if one.is_message] for rank, operations in sorted(log.operations.items())}
    cells = {rank: [_did(one) for one in row[-_MOST:]] for rank, row in rows.items()}
    if not any(cells.values()):
        return
    wide = max(_width(cell) for row in cells.values() for cell in row)
    for rank, row in cells.items():
        more = "… " if len(rows[rank]) > _MOST else ""
        stuck = next((one for one in rows[rank] if one.state in ("waiting", "failed") and one.where), None)
        where = f"  ({stuck.where})" if stuck else ""
        yield (
            say("picture.rank", rank=rank) + "  " + more + "  ".join(f"{cell:<{wide}}" for cell in row)
        ).rstrip() + where
    yield say("picture.log")


def _did(operation: Operation) -> str:
    peer = "?" if operation.peer is None else operation.peer
    state = {"waiting": "✗", "failed": "✗", "unwaited": "…"}.get(operation.state, "")
    return ("→" if operation.op == "send" else "←") + f"{peer}{state}"


def program_lines(schedule: Schedule, size: int, rank: int | None, step: int | None, say: Catalogue) -> Iterator[str]:
    """The steps of every rank, as many as fit, with a cross where the prover stopped. Nothing if there are none."""
    rows = [_steps(schedule, one, size) for one in range(size)]
    count = max(len(row) for row in rows)
    if not count:
        return
    table = [[_cell(row[i]) if i < len(row) else "" for i in range(count)] for row in rows]
    if rank is not None and step is not None and step < len(table[rank]):
        table[rank][step] = "✗ " + table[rank][step]
    titles = [say("picture.step", step=i) for i in range(count)]
    widths = [max(_width(text) for text in (titles[i], *(row[i] for row in table))) for i in range(count)]
    names = [say("picture.rank", rank=one) for one in range(size)]
    left = max(_width(name) for name in names)
    first, last = _window(widths, WIDTH - left, step or 0)
    shown = range(first, last)
    head = "… " if first else "  "
    yield (" " * left + head + "  ".join(_padded(titles[i], widths[i]) for i in shown)).rstrip()
    for name, row in list(zip(names, table, strict=True))[:12]:
        yield (_padded(name, left) + "  " + "  ".join(_padded(row[i], widths[i]) for i in shown)).rstrip()
    yield say("picture.program")


def _steps(schedule: Schedule, rank: int, size: int) -> list[Step]:
    """Those that the program yields before it raises, if it does."""
    steps: list[Step] = []
    try:
        for step in schedule.steps(rank, size):
            steps.append(step)
    except Exception:  # the learner's program; its error is told elsewhere
        pass
    return steps


def _cell(step: Step) -> str:
    return " ".join(_action(one) for one in step)


def _action(action: Action) -> str:
    if not isinstance(action, (Send, Recv, Reduce)):
        return (action.__name__ if isinstance(action, type) else repr(action))[:12]
    chunk = f"{action.chunk.buffer[:3]}{action.chunk.index}" if isinstance(action.chunk, Chunk) else str(action.chunk)
    if isinstance(action, Send):
        return f"{chunk}→{action.to}"
    return f"{'+' if isinstance(action, Reduce) else '='}{chunk}←{action.source}"


def _window(widths: Sequence[int], room: int, around: int) -> tuple[int, int]:
    """The columns that fit, with ``around`` among them."""
    first = last = min(around, max(len(widths) - 1, 0))
    used = 0
    while True:
        if last < len(widths) and used + widths[last] + 2 <= room:
            used += widths[last] + 2
            last += 1
        elif first > 0 and used + widths[first - 1] + 2 <= room:
            first -= 1
            used += widths[first] + 2
        else:
            return first, max(last, first + 1) if widths else last


def _width(text: str) -> int:
    """Columns of a terminal."""
    from rich.cells import cell_len  # here, as lists need to be fast

    return cell_len(text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def value_lines(evidence: Wrong) -> Iterator[str]:
    """Whose contributions every rank holds, piece by piece; a cross where others belong. Nothing if none holds any."""
    say, scale = evidence.say, evidence.size if evidence.case.mean else 1
    from .checks.marks import origin

    results = [came.result for came in evidence.came]
    if all(result is None or not result.numel() for result in results):
        return
    for rank, result in enumerate(results):
        if result is None:
            continue
        wanted = evidence.expected(rank)
        pieces = []
        values = list(zip(result.flatten().tolist(), wanted.flatten().tolist(), strict=True))
        looks = [(_content(origin(a * scale, evidence.size), i, a == b), a == b) for i, (a, b) in enumerate(values)]
        at = 0
        for (content, right), run in groupby(looks):
            length = len(list(run))
            place = f"{at}" if length == 1 else f"{at}–{at + length - 1}"
            pieces.append(f"{place}: {content}{'' if right else ' ✗'}")
            at += length
        more = "   …" if len(pieces) > _MOST else ""
        yield say("picture.rank", rank=rank) + "  " + "   ".join(pieces[:_MOST]) + more
    yield say("picture.values")


def _content(found: Origin | None, place: int, right: bool) -> str:
    """``0123``: the ranks whose contributions are in a value; with ``@5`` if they come from the wrong position."""
    if found is None:
        return "?"
    ranks = "".join(str(rank) * count for rank, count in enumerate(found.counts)) or "·"
    return ranks if right or found.position in (None, place) else f"{ranks}@{found.position - place:+d}"
