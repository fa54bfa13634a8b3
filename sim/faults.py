"""What goes wrong on a machine: slow links, lost links, stragglers, jitter."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .graph import Network


@dataclass(frozen=True)
class Faults:
    """slow: link → what is left of its bandwidth; lost: links that are gone (traffic goes another way).

    straggler: rank → how many times slower its links, additions and overheads are; jitter: the mean delay of a message,
    as a share of the time that it takes alone, exponentially distributed; seed: of the jitter and of random routes.
    A link is named ``a->b``, or ``a-b`` for both directions.
    """

    slow: Mapping[str, float] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    straggler: Mapping[int, float] = field(default_factory=dict)
    jitter: float = 0.0
    seed: int = 0

    def __bool__(self) -> bool:
        return bool(self.slow or self.lost or self.straggler or self.jitter)

    def in_words(self) -> str:
        """``link a->b at 0.5, lost c-d, rank 3 2 times slower, jitter 0.1 (seed 0)``; nothing if there are none."""
        words = [f"link {name} at {share:g}" for name, share in self.slow.items()]
        words += [f"lost {name}" for name in self.lost]
        words += [f"rank {rank} {factor:g} times slower" for rank, factor in self.straggler.items()]
        if self.jitter:
            words.append(f"jitter {self.jitter:g} (seed {self.seed})")
        return ", ".join(words)

    def on(self, network: Network) -> Network:
        """The network with these faults.

        Raises:
            ValueError: a link or rank that does not exist (the nearest are listed), a factor that makes no sense.
        """
        if not 0 <= self.jitter < float("inf"):
            raise ValueError(f"jitter={self.jitter}: give a share from 0 on")
        graph = network.graph.copy()
        for rank, factor in self.straggler.items():
            if not 0 <= rank < len(network.devices):
                raise ValueError(f"straggler {rank}: ranks are 0 to {len(network.devices) - 1}")
            if not 1 <= factor < float("inf"):
                raise ValueError(f"straggler {rank}={factor}: give how many times slower it is, from 1 on")
            device = network.devices[rank]
            for a, b in (*graph.out_edges(device), *graph.in_edges(device)):
                graph[a][b]["bandwidth"] /= factor
        for name, share in self.slow.items():
            if not 0 < share <= 1:
                raise ValueError(f"slow link {name}={share}: give the share of its bandwidth that is left, up to 1")
            for a, b in _links(network, name):
                graph[a][b]["bandwidth"] *= share
        for name in self.lost:
            graph.remove_edges_from(_links(network, name))
        return Network(graph, network.devices, network.routing, self.seed or network.seed)

    def delays(self) -> random.Random | None:
        return random.Random(self.seed) if self.jitter else None


def _links(network: Network, name: str) -> Iterable[tuple[str, str]]:
    a, arrow, b = name.partition("->")
    both = not arrow
    if both:
        a, _, b = name.partition("-")
    pairs = [(a, b), (b, a)] if both else [(a, b)]
    if not all(network.graph.has_edge(*pair) for pair in pairs):
        near = difflib.get_close_matches(name if arrow else f"{a}->{b}", network.names, n=3) or network.names[:3]
        raise ValueError(f"link {name!r} does not exist: use {', '.join(near)}")
    return pairs
