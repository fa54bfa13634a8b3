"""``--order``: in which order our schedules go round the ranks. Needs no torch.

``natural`` is 0, 1, 2, …; a list such as ``0,2,3,1`` is taken as it is; a file holds one (numbers between commas or
blanks), or is what ``python -m sim rings FILE --emit`` writes, with an order a ring; ``auto`` asks that command about
what ``nvidia-smi topo -m`` prints here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from .machine_text import topology_text

AUTO, NATURAL = "auto", "natural"

Orders: TypeAlias = tuple[tuple[int, ...], ...]


def parse_order(text: str, ranks: int) -> Orders:
    """The orders, one a ring; none for ``natural``, and for ``auto``, which is known on the machine only.

    Raises:
        ValueError: no permutation of the ranks, or a file that cannot be read.
    """
    if text in (AUTO, NATURAL):
        return ()
    where = f"--order {text}"
    if re.fullmatch(r"[\d\s,]+", text):
        return _but_natural([checked(where, _numbers(text), ranks)])
    try:
        said = Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{where}: it is neither auto, natural, a list like 0,2,1,3 nor a file that can be read ({error})"
        ) from None
    if not said.lstrip().startswith("{"):
        return _but_natural([checked(where, _numbers(said), ranks)])
    return _but_natural([checked(where, order, ranks) for order in _of_json(where, said)])


def checked(where: str, order: Sequence[int], ranks: int) -> tuple[int, ...]:
    """The order, if it is one of these ranks.

    Raises:
        ValueError: it is none.
    """
    if sorted(order) == list(range(ranks)):
        return tuple(order)
    missing = sorted(set(range(ranks)) - set(order))
    foreign = sorted(set(order) - set(range(ranks)))
    twice = sorted({rank for rank in order if list(order).count(rank) > 1})
    wrong = [f"{word} {', '.join(map(str, found[:8]))}" for word, found in
             (("it lacks", missing), ("it names", foreign), ("it repeats", twice)) if found]  # fmt: skip
    raise ValueError(
        f"{where}: no order of ranks 0 to {ranks - 1}: {'; '.join(wrong)}; each must stand in it once "
        "(an order is for one machine and number of ranks: make it again here)"
    )


def orders_here(local_ranks: int, ranks: int) -> tuple[Orders, str]:
    """What ``auto`` means on this machine, and a sentence about it; no orders mean natural.

    Over several nodes every node has the same order, one node after the other.
    """
    text = topology_text()
    if text is None:
        return (), "order natural: nvidia-smi topo -m tells nothing here"
    try:
        inside = [checked("rings", order, local_ranks) for order in _ask_for_rings(text, visible_gpus(local_ranks))]
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        return (), f"order natural: python -m sim rings gives none ({' '.join(str(error).split())})"
    nodes = range(ranks // local_ranks)
    orders = _but_natural([tuple(node * local_ranks + place for node in nodes for place in order) for order in inside])
    if not orders:
        return (), "order natural, which is what python -m sim rings finds, too"
    shown = " and ".join(",".join(map(str, order)) for order in orders)
    return orders, f"order {shown}, from nvidia-smi topo -m"


def _but_natural(orders: Sequence[tuple[int, ...]]) -> Orders:
    """None where the only order is the natural one, which needs no renaming of ranks."""
    return () if len(orders) == 1 and list(orders[0]) == sorted(orders[0]) else tuple(orders)


def visible_gpus(local_ranks: int) -> list[int]:
    """The GPUs of the local ranks, by the numbers that nvidia-smi gives them."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    numbers = _numbers(said) if re.fullmatch(r"[\d\s,]+", said) else []
    return numbers[:local_ranks] if len(numbers) >= local_ranks else list(range(local_ranks))


def _ask_for_rings(topology: str, gpus: Sequence[int]) -> list[list[int]]:
    """The orders that ``sim rings`` emits. Another process, as this package knows nothing of ``sim``."""
    with tempfile.TemporaryDirectory() as folder:
        source, answer = Path(folder) / "topo.txt", Path(folder) / "order.json"
        source.write_text(topology, encoding="utf-8")
        command = [sys.executable, "-m", "sim", "rings", str(source), "--emit", str(answer)]
        command += ["--gpus", ",".join(map(str, gpus))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        return _of_json("python -m sim rings", answer.read_text(encoding="utf-8"))


def _numbers(text: str) -> list[int]:
    words = re.split(r"[\s,]+", text.strip(" \t\r\n,"))
    if not all(re.fullmatch(r"\d{1,9}", word) for word in words):
        raise ValueError(f"--order: {text[:60]!r} is no list of ranks; write numbers between commas, like 0,2,1,3")
    return [int(word) for word in words]


def _of_json(where: str, text: str) -> list[list[int]]:
    """What ``sim rings --emit`` writes, ``{"gpus": [4, 5, …], "orders": [[4, 5, …], …]}``: rank i has GPU gpus[i]."""
    try:
        found = json.loads(text)
        gpus = found["gpus"]
        orders = [[gpus.index(gpu) for gpu in order] for order in found["orders"]]
    except (ValueError, TypeError, KeyError, AttributeError):
        orders = []
    if not orders:
        raise ValueError(
            f"{where}: this JSON has no orders of its gpus; give what python -m sim rings FILE --emit writes"
        )
    return orders
