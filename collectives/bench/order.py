"""``--order``: in which order our schedules go round the ranks. Needs no torch.

``natural`` is 0, 1, 2, …; a list such as ``0,2,3,1`` is taken as it is, ``0,1,3,2+1,0,2,3`` as two rings; a file holds
the same (numbers between commas or blanks), or is what ``python -m sim rings FILE --emit`` writes; ``auto`` asks that
command about what ``nvidia-smi topo -m`` prints here. Over several hosts that is a ring for each NIC (``over_nodes``);
on gloo a NIC is an interface that some ranks of a host were told to use (``GLOO_SOCKET_IFNAME``).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..combinators import over_nodes
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
    if re.fullmatch(r"[\d\s,+]+", text):
        return _but_natural([checked(where, _numbers(ring), ranks) for ring in text.split("+")])
    try:
        said = Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{where}: it is neither auto, natural, a list like 0,2,1,3 nor a file that can be read ({error})"
        ) from None
    if not said.lstrip().startswith("{"):
        return _but_natural([checked(where, _numbers(ring), ranks) for ring in said.split("+")])
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


@dataclass(frozen=True)
class Seat:
    """Where a rank sits: its host, and the network interface by which it reaches other hosts."""

    host: str
    interface: str


def orders_here(seats: Sequence[Seat]) -> tuple[Orders, str]:
    """What ``auto`` means on GPUs like those of this machine, and a sentence about it; no orders mean natural.

    Args:
        seats: of all ranks; a rank has the GPU of its place among those on its host.
    """
    text = topology_text()
    if text is None:
        return (), "order natural: nvidia-smi topo -m tells nothing here"
    hosts = ranks_by_host(seats)
    local = len(hosts[0])
    try:
        found = _ask_for_rings(text, visible_gpus(local), len(hosts))
        orders = _seated([checked("rings", order, len(seats)) for order in found], hosts)
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        return (), f"order natural: python -m sim rings gives none ({' '.join(str(error).split())})"
    if not orders:
        return (), "order natural, which is what python -m sim rings finds, too"
    return orders, f"{shown(orders)}, from nvidia-smi topo -m"


def orders_over_interfaces(seats: Sequence[Seat]) -> tuple[Orders, str]:
    """What ``auto`` means on gloo: host after host, a ring for each interface that the ranks of a host use."""
    hosts = ranks_by_host(seats)
    names = [seats[rank].interface for rank in hosts[0]]
    count = len(set(names))
    orders = _seated(over_nodes([range(len(names))], len(hosts), count, [names.index(name) for name in names]), hosts)
    if len(hosts) == 1 or not orders:
        return (), ""
    return orders, f"{shown(orders)}: host after host" + (
        f", a ring for each of {count} interfaces" if count > 1 else ""
    )


def ranks_by_host(seats: Sequence[Seat]) -> list[list[int]]:
    """The ranks on each host, hosts in the order of their first rank; all in one where hosts have unequally many."""
    found: dict[str, list[int]] = {}
    for rank, seat in enumerate(seats):
        found.setdefault(seat.host, []).append(rank)
    return list(found.values()) if len(set(map(len, found.values()))) == 1 else [list(range(len(seats)))]


def follow_each_other(hosts: Sequence[Sequence[int]]) -> bool:
    """Whether the ranks are numbered host after host."""
    ranks = [rank for host in hosts for rank in host]
    return ranks == sorted(ranks)


def shown(orders: Orders) -> str:
    """In a heading."""
    return f"order {' and '.join(','.join(map(str, order)) for order in orders)}"


def _seated(orders: Sequence[Sequence[int]], hosts: Sequence[Sequence[int]]) -> Orders:
    """Orders that count host after host, in the ranks that really sit there."""
    ranks = [rank for host in hosts for rank in host]
    return _but_natural([tuple(ranks[place] for place in order) for order in orders])


def _but_natural(orders: Sequence[tuple[int, ...]]) -> Orders:
    """None where the only order is the natural one, which needs no renaming of ranks."""
    return () if len(orders) == 1 and list(orders[0]) == sorted(orders[0]) else tuple(orders)


def visible_gpus(local_ranks: int) -> list[int]:
    """The GPUs of the local ranks, by the numbers that nvidia-smi gives them."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    numbers = _numbers(said) if re.fullmatch(r"[\d\s,]+", said) else []
    return numbers[:local_ranks] if len(numbers) >= local_ranks else list(range(local_ranks))


def _ask_for_rings(topology: str, gpus: Sequence[int], nodes: int) -> list[list[int]]:
    """The orders that ``sim rings`` emits. Another process, as this package knows nothing of ``sim``."""
    with tempfile.TemporaryDirectory() as folder:
        source, answer = Path(folder) / "topo.txt", Path(folder) / "order.json"
        source.write_text(topology, encoding="utf-8")
        command = [sys.executable, "-m", "sim", "rings", str(source), "--emit", str(answer)]
        command += ["--gpus", ",".join(map(str, gpus)), "--nodes", str(nodes)]
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
