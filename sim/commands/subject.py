"""The machine that a command is about: a text with a topology matrix, a machine file, or a name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..matrix import machine_of
from ..presets import find_machine

if TYPE_CHECKING:
    from collectives.readers.topo_matrix import TopoMatrix

    from ..machine import Machine


def find_subject(text: str, gpu: str = "") -> tuple[Machine, TopoMatrix | None, list[str]]:
    """The machine, the matrix that it was read from, and what had to be assumed.

    Raises:
        ValueError: there is no matrix in the text, or no machine of that name (the nearest are listed).
    """
    from collectives.readers.pasted import text_of
    from collectives.readers.topo_matrix import read_topo

    path = Path(text)
    if not path.is_file() or (said := text_of(path)).lstrip().startswith("{"):
        return find_machine(text, gpu), None, []
    try:
        matrix = read_topo(said)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None
    machine, notes = machine_of(matrix, path.stem, gpu)
    return machine, matrix, notes
