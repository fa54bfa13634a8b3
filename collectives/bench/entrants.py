"""Who takes part in a benchmark run: algorithms and baselines, from what the command line says. Needs no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..proof import PROVED_UP_TO, prove
from ..registry import algorithms, find

if TYPE_CHECKING:
    from .settings import Settings

BASELINES = ("wire", "gloo-2", "nccl-ring", "nccl-ring-simple")


def split_algorithms(text: str) -> list[str]:
    """``ring:channels=2,chunks=8,auto`` is two algorithms: a piece ``option=value`` belongs to the one before."""
    found: list[str] = []
    for piece in text.split(","):
        if found and re.match(r"[A-Za-z_]\w*=", piece):
            if ":" not in found[-1]:
                raise ValueError(f"--algorithm {text!r}: options follow a colon: write {found[-1]}:{piece}")
            found[-1] += "," + piece
        elif piece.strip():
            found.append(piece.strip())
    return list(dict.fromkeys(found))


def choose_algorithms(collective: str, text: str | None, ranks: int) -> tuple[list[str], list[str]]:
    """What ``--algorithm`` means, each found and proved for this number of ranks; and what was left out of ``all``.

    By default: ring and auto; without a ring, auto and all that there are but ``naive``.

    Raises:
        ValueError: an algorithm that does not exist, or is wrong.
    """
    built_in = [schedule.name for schedule in algorithms(collective)]
    if text is None:
        names = ["ring", "auto"] if "ring" in built_in else [*(n for n in built_in if n != "naive"), "auto"]
    else:
        names = split_algorithms(text)
    if not names:
        raise ValueError(f"--algorithm {text!r} names none: use one of {', '.join(built_in)}, auto or all")
    asked = {name for name in names if name != "all"} if text is not None else set()
    if "all" in names:
        names = [*(name for name in names if name != "all"), *built_in, "auto"]
    chosen, skipped = [], []
    for name in dict.fromkeys(names):
        try:
            if name != "auto":
                schedule = find(collective, name)
                if ranks <= PROVED_UP_TO:
                    prove(schedule, ranks)
        except ValueError as error:
            if name in asked:
                raise ValueError(f"--algorithm {name}: {error}") from error
            skipped.append(f"{name}: {error}")
        else:
            chosen.append(name)
    return chosen, skipped


def in_channels(name: str, collective: str, channels: int | None, backend: str, orders: int) -> str:
    """An algorithm's name with the number of its channels, where it says none itself; ``auto`` chooses its own.

    Args:
        channels: of all algorithms; None for two of a ring on NCCL, where one is reduced while the other travels.
        orders: in how many orders the ring goes round, each in a channel already.
    """
    if channels is None:
        channels = 2 if (backend, name.partition(":")[0]) == ("nccl", "ring") and orders < 2 else 1
    if name == "auto" or channels == 1 or find(collective, name).channels > 1:
        return name
    has_options = "=" in name.rpartition(":")[2]
    return f"{name}{',' if has_options else ':'}channels={channels}"


def with_channels(settings: Settings, backend: str, orders: Sequence[Sequence[int]]) -> Settings:
    """The settings with every algorithm in its channels, see ``in_channels``."""
    how = settings.collective, settings.channels, backend, len(orders)
    return replace(settings, algorithms=tuple(dict.fromkeys(in_channels(name, *how) for name in settings.algorithms)))


def with_graph(asked: bool | None, backend: str) -> tuple[bool, list[str]]:
    """Whether ours are replayed from CUDA graphs, and what is to be said of it: that what was asked for cannot be."""
    if backend == "nccl":
        return asked is not False, []
    return False, [f"--graph: {backend} has nothing to capture, the host itself sends; going on without"] * bool(asked)


def parse_baselines(text: str) -> tuple[str, ...] | None:
    """``auto`` (None: what the backend has), ``none``, or names between commas.

    Raises:
        ValueError: a name that is none.
    """
    if text == "auto":
        return None
    names = tuple(name for name in text.split(",") if name and name != "none")
    wrong = [name for name in names if name not in BASELINES]
    if wrong:
        raise ValueError(f"--baselines {text}: {wrong[0]!r} is none; use auto, none, or some of {', '.join(BASELINES)}")
    return names
