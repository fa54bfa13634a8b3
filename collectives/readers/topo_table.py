"""The rows of a pasted topology matrix, put under the columns of its header. Needs no torch.

A row is trusted if it has as many cells as the header has columns and its X stands in its own; a row that was cut is
trusted up to there. Every other pair of devices stands in two rows, which must agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .pasted import Line, listed

_CELL = r"(?:X(?!B)|SYS|NODE|PHB|PXB|PIX|SOC|NV\d{1,3})"
_CELLS = re.compile(rf"{_CELL}+", re.ASCII)
_ONE_CELL = re.compile(_CELL, re.ASCII)
_TAIL = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*,?|N/A", re.ASCII)
_GPU = re.compile(r"GPU\d{1,4}", re.ASCII)
_MOST_GLUED = 6


def is_gpu(name: str) -> bool:
    return _GPU.fullmatch(name) is not None


def split_cells(token: str) -> list[str]:
    """The cells of a token, more than one if it is glued (``PXBNODE``); [] if it is none."""
    return _ONE_CELL.findall(token) if _CELLS.fullmatch(token) else []


def split_row(text: str, names: Sequence[str]) -> tuple[str | None, list[str]]:
    """The device that a row is of and the tokens after it; the name may be glued to the first cell."""
    tokens = re.sub(r",\s+(?=\d)", ",", text).split()
    if not tokens or tokens[0] in names:
        return (tokens[0] if tokens else None), tokens[1:]
    for name in sorted(names, key=len, reverse=True):
        if tokens[0].startswith(name) and _CELLS.fullmatch(tokens[0], len(name)):
            return name, [tokens[0][len(name) :], *tokens[1:]]
    return None, tokens


class TopoTable:
    """The rows of one matrix, as they come in.

    Args:
        names: whom the header names, in order.
        tail: how many columns it has after the cells.

    affinity: of each GPU, CPU and NUMA as printed; doubts: what is missing or does not fit.
    """

    def __init__(self, names: tuple[str, ...], tail: int) -> None:
        self.names, self.tail = names, tail
        self.affinity: dict[str, tuple[str | None, str | None]] = dict.fromkeys(filter(is_gpu, names), (None, None))
        self.doubts: list[str] = []
        self._rows: dict[str, dict[str, tuple[str, int]]] = {}  # row → column → cell, line
        self._glued: list[str] = []

    def add(self, line: Line, last: bool) -> None:
        """Take one line, the last of the text or not; what is no row is passed over, and said if it looks like one."""
        name, tokens = split_row(line.text, self.names)
        if name is None:
            if sum(bool(split_cells(token)) for token in tokens) > 1:
                self._doubt(line, f"cells, but {tokens[0]} is no device of the header; the line is left out")
            return
        cells, tail, glued = _cells_and_tail(tokens)
        self._glued += [f"line {line.number}, {name}, {token}" for token in glued]
        row = self._placed(line, name, cells, bool(tail), last)
        if name in self._rows:
            if row != self._rows[name]:
                self._doubt(line, f"a second row of {name}; it is left out")
            return
        self._rows[name] = row
        if name in self.affinity and tail:
            self.affinity[name] = self._affinity(line, name, tail)

    def pairs(self) -> dict[tuple[str, str], str]:
        """What joins each pair, in the header's order of names, where the rows are sure; call it once, at the end."""
        if self._glued:
            shown = "; ".join(self._glued[:_MOST_GLUED])
            more = f"; and {len(self._glued) - _MOST_GLUED} more" if len(self._glued) > _MOST_GLUED else ""
            self.doubts.append(f"glued cells were split: {shown}{more}")
        pairs: dict[tuple[str, str], str] = {}
        unknown = []
        single = False
        for at, a in enumerate(self.names):
            for b in self.names[at + 1 :]:
                there, back = self._rows.get(a, {}).get(b), self._rows.get(b, {}).get(a)
                if there and back and there[0] != back[0]:
                    self.doubts.append(
                        f"line {there[1]} says {there[0]} between {a} and {b}, line {back[1]} says {back[0]}; left out"
                    )
                elif known := there or back:
                    pairs[a, b] = known[0]
                    single = single or not (there and back)
                else:
                    unknown.append((a, b))
        self._say_missing(single, unknown)
        return pairs

    def _placed(
        self, line: Line, name: str, cells: list[str | None], tail: bool, last: bool
    ) -> dict[str, tuple[str, int]]:
        """Cells under their columns; {} if a row's length or the place of its X says that they have moved."""
        own, have, want = self.names.index(name), len(cells), len(self.names)
        crosses = [at for at, cell in enumerate(cells) if cell == "X"]
        moved = crosses != [own] if crosses else have > own and cells[own] is not None
        if have > want or moved or (have < want and tail):
            where = f" and X in column {crosses[0] + 1}" if len(crosses) == 1 else ""
            self._doubt(line, f"{name} has {have} cells{where} under {want} columns, its own the {own + 1}.; left out")
            return {}
        if have < want:
            self._doubt(line, f"{name} ends after {have} of {want} cells; {listed(self.names[have:])} are missing")
        ends_here = have < want or (last and not tail)
        if ends_here and cells and (cells[-1] or "").startswith("NV"):
            self._doubt(line, f"{name} ends in {cells[-1]}, which may be cut; left out")
            cells = cells[:-1]
        if unread := [column for column, cell in zip(self.names, cells, strict=False) if cell is None]:
            self._doubt(line, f"{name}: the cell under {listed(unread)} cannot be read; left out")
            if have < want:  # one cell broken in two would have moved the others, and nothing tells
                cells = cells[: cells.index(None)]
        placed = zip(self.names, cells, strict=False)
        return {column: (cell, line.number) for column, cell in placed if cell and column != name}

    def _affinity(self, line: Line, name: str, tail: list[str]) -> tuple[str | None, str | None]:
        """CPU and NUMA affinity. Blank columns leave no token: then only a list (0-31) is surely one of CPUs."""
        known = [None if token == "N/A" else token for token in tail]
        if self.tail and len(tail) >= self.tail:
            return known[0], known[1] if self.tail > 1 and len(known) > 1 else None
        cpu = known[0] if known[0] and re.search("[-,]", known[0]) else None
        if unsure := [token for token in known[0 if cpu is None else 1 :] if token]:
            self._doubt(line, f"{name}: {' '.join(unsure)} may be its CPU, NUMA or GPU NUMA column; left out")
        return cpu, None

    def _say_missing(self, single: bool, unknown: list[tuple[str, str]]) -> None:
        missing = [name for name in self.names if name not in self._rows]
        among = [pair for pair in unknown if set(pair) <= set(missing)]
        if missing:
            row = "the row of {} is" if len(missing) == 1 else "the rows of {} are"
            self.doubts.append(
                f"{row.format(listed(missing))} missing: pairs with the others are read from the others' rows alone"
                + (f"; the {len(among)} among them are unknown" if among else "")
            )
        elif single:
            self.doubts.append("some pairs are read from one of their two rows alone")
        if others := len(unknown) - len(among):
            first = next(pair for pair in unknown if pair not in among)
            self.doubts.append(f"unknown pairs of rows that are there: {others}, the first {listed(first)}")

    def _doubt(self, line: Line, sentence: str) -> None:
        self.doubts.append(f"line {line.number}: {sentence}")


def _cells_and_tail(tokens: Sequence[str]) -> tuple[list[str | None], list[str], list[str]]:
    """Cells (None: unreadable), tail, and the tokens that were glued."""
    end = len(tokens)
    while end and _TAIL.fullmatch(tokens[end - 1]):
        end -= 1
    split = [split_cells(token) for token in tokens[:end]]
    cells: list[str | None] = []
    for parts in split:
        cells += parts or [None]
    return cells, list(tokens[end:]), [token for token, parts in zip(tokens, split, strict=False) if len(parts) > 1]
