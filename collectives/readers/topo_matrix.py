"""Reads what ``nvidia-smi topo -m`` prints: which path joins each pair of GPUs and NICs. Needs no torch.

            GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity      the header: who stands in which column
    GPU0     X      NV12    PXB     0-31            0                  a row: the cells, then the tail
    GPU1    NV12     X      SYS     32-63           1
    NIC0    PXB     SYS      X                                         NICs have no tail

Pasted tables are cut, glued and edited. What stays unsure is left out and said, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .pasted import Line, lines_of, listed, shortened
from .topo_table import TopoTable, is_gpu, split_cells, split_row

_NAME = re.compile(r"[A-Za-z][\w.:-]{0,62}", re.ASCII)
_GLUED_NAMES = re.compile(r"(?:(?:GPU|NIC)\d{1,4}){2,}", re.ASCII)
_DEVICE = re.compile(r"(?:GPU|NIC|mlx)\w{1,30}", re.ASCII)
_TAIL_TITLE = re.compile(r"\b(?:GPU\s+NUMA|CPU|NUMA)\b(?:\s*(?:Affinity|ID))?|\bAffinity")
_NIC_LEGEND = re.compile(r"\s*(NIC\d{1,4})\s*:\s*(\S+)", re.ASCII)
_PCIE_ONLY = re.compile(r"topo\s+(?:-mp|--matrix_pci)\b")
_FIX = "paste all that nvidia-smi topo -m prints"
_MOST_DOUBTS = 12


@dataclass(frozen=True, slots=True)
class TopoMatrix:
    """What is known of a box.

    cells: (a, b) and (b, a) → ``NV12``, ``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS`` or ``SOC``; pairs that are unsure
    are not in it. cpu_affinity, numa: of each GPU, as printed (``0-31,64-95``); None where blank or N/A. notes: how
    the text was read; doubts: what in it is missing or does not fit, with its line.
    """

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    cells: dict[tuple[str, str], str]
    cpu_affinity: dict[str, str | None]
    numa: dict[str, str | None]
    notes: tuple[str, ...]
    doubts: tuple[str, ...]

    def links(self, a: str, b: str) -> int | None:
        """NVLinks between two devices, 0 if another path joins them; None if that is not known.

        Raises:
            ValueError: no such device.
        """
        for name in (a, b):
            if name not in self.gpus and name not in self.nics:
                raise ValueError(f"{name!r} is not in the matrix: use one of {listed((*self.gpus, *self.nics))}")
        cell = self.cells.get((a, b))
        return None if cell is None else int(cell[2:]) if cell.startswith("NV") else 0


@dataclass(frozen=True, slots=True)
class _Header:
    """names: the devices, in order; tail: how many columns follow theirs."""

    names: tuple[str, ...]
    tail: int


def read_topo(text: str) -> TopoMatrix:
    """Read the first matrix in a text, whatever stands around it; O(devices² + length of the text).

    Raises:
        ValueError: there is no matrix, or it hides NVLink (``topo -mp``); names the line and the fix.
    """
    lines = lines_of(text)
    at, header = _find_header(lines)
    table = TopoTable(header.names, header.tail)
    last = max(line.number for line in lines if line.text)
    below = [line for line in lines[at + 1 :] if line.label == lines[at].label]
    for line in below:
        if _is_legend(line):
            break
        if _header(line):
            table.doubts.append(f"line {line.number}: another matrix begins; only the first is read")
            break
        if _goes_on(line, header.names):
            table.doubts.append(
                f"line {line.number}: the header was wrapped, and its other columns are left out; {_FIX}"
            )
            continue
        table.add(line, last=line.number == last)
    others = [line.number for line in lines if line.label != lines[at].label and _header(line)]
    if others:
        table.doubts.append(f"line {others[0]}: the matrix of another process; only that from line {at + 1} on is read")
    pairs = table.pairs()
    if not any(cell.startswith("NV") for cell in pairs.values()):
        _refuse_pcie_only(lines[:at])
    real = _real_names(below, header.names)
    notes, doubts = _legend(below, lines[at].number)
    named = [(real.get(a, a), real.get(b, b), cell) for (a, b), cell in pairs.items()]
    return TopoMatrix(
        gpus=tuple(filter(is_gpu, header.names)),
        nics=tuple(real.get(name, name) for name in header.names if not is_gpu(name)),
        cells={pair: cell for a, b, cell in named for pair in ((a, b), (b, a))},
        cpu_affinity={gpu: cpu for gpu, (cpu, _) in table.affinity.items()},
        numa={gpu: numa for gpu, (_, numa) in table.affinity.items()},
        notes=tuple(notes),
        doubts=tuple(shortened([*table.doubts, *doubts], _MOST_DOUBTS, "doubts")),
    )


def _header(line: Line) -> _Header | None:
    """What a header says; None if the line is none."""
    title = _TAIL_TITLE.search(line.text)
    names: list[str] = []
    for token in line.text[: title.start() if title else None].split():
        names += re.findall(r"[A-Z]+\d+", token) if _GLUED_NAMES.fullmatch(token) else [token]
    if not names or not is_gpu(names[0]) or not all(_NAME.fullmatch(name) for name in names):
        return None
    if any(split_cells(name) for name in names):
        return None
    return _Header(tuple(names), len(_TAIL_TITLE.findall(line.text, title.start())) if title else 0)


def _goes_on(line: Line, names: Sequence[str]) -> bool:
    """Whether a line is the rest of a header that was wrapped."""
    words = _TAIL_TITLE.sub(" ", line.text).split()
    return bool(line.text) and not (words and words[0] in names) and all(map(_DEVICE.fullmatch, words))


def _find_header(lines: Sequence[Line]) -> tuple[int, _Header]:
    """The first header that is followed by a row with a path in it, or by the one row of a single GPU."""
    barren = None
    for at, line in enumerate(lines):
        if header := _header(line):
            for below in lines[at + 1 :]:
                if _header(below):
                    break
                name, rest = split_row(below.text, header.names)
                cells = {cell for token in rest for cell in split_cells(token)}
                if name and (cells - {"X"} or (cells and len(header.names) == 1)):
                    _check_names(line, header.names)
                    return at, header
            barren = barren or line.number
    if barren:
        raise ValueError(f"line {barren}: no row with a path such as NV12, PIX or SYS follows this header; {_FIX}")
    for line in lines:
        tokens = line.text.split()
        if tokens and is_gpu(tokens[0]) and "X" in tokens:
            raise ValueError(f"line {line.number}: a row, but no header (GPU0 GPU1 …) stands above it; {_FIX}")
    raise ValueError(f"line 1 to {len(lines)}: no header of a topology matrix (GPU0 GPU1 …); {_FIX}")


def _check_names(line: Line, names: Sequence[str]) -> None:
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(f"line {line.number}: the header names {listed(twice)} twice, so columns are unsure; {_FIX}")


def _refuse_pcie_only(above: Sequence[Line]) -> None:
    """``topo -mp`` prints the same matrix with PCIe paths in the place of NVLinks."""
    commands = [line for line in above if "nvidia-smi" in line.text or _PCIE_ONLY.search(line.text)]
    if commands and _PCIE_ONLY.search(commands[-1].text):
        raise ValueError(
            f"line {commands[-1].number}: topo -mp shows PCIe paths only and hides NVLink; paste nvidia-smi topo -m"
        )


def _is_legend(line: Line) -> bool:
    return line.text.split()[:1] == ["Legend:"]


def _real_names(below: Sequence[Line], names: Sequence[str]) -> dict[str, str]:
    """``NIC0`` → ``mlx5_0``, from the NIC legend."""
    legend = {match[1]: match[2] for line in below if (match := _NIC_LEGEND.match(line.text))}
    told = list(legend.values())
    return {nic: name for nic, name in legend.items() if nic in names and told.count(name) == 1 and name not in names}


def _legend(below: Sequence[Line], header: int) -> tuple[list[str], list[str]]:
    """What a legend's absence or content leaves open, as notes and as doubts."""
    start = next((line.number for line in below if _is_legend(line)), None)
    if start is None:
        return [f"line {header}: the matrix has no legend; its cells are read in their usual meaning"], []
    keys = {line.text.split()[0] for line in below if line.number > start and line.text}
    if "PIX" in keys and "NV#" not in keys and "SOC" not in keys:  # SOC: drivers from before NVLink
        return [], [f"line {start}: the legend has no NV#, as topo -mp has it, which hides NVLink; check with topo -m"]
    return [], []
