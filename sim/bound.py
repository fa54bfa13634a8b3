"""The least time that any algorithm takes on a machine: what must leave and reach ranks and nodes, over their links.

For each collective of S bytes on n ranks, in units of S: what one rank gets and gives, and all that moves in total::

    collective       a rank gets       a rank gives      all ranks together
    all_reduce       1                 1                 2(n−1)
    reduce           root: 1           others: 1         n−1
    broadcast        others: 1         root: 1           n−1
    all_gather       (n−1)/n           1/n               n−1
    reduce_scatter   1/n               (n−1)/n           n−1
    gather           root: (n−1)/n     others: 1/n       (n−1)/n
    scatter          others: 1/n       root: (n−1)/n     (n−1)/n
    all_to_all       (n−1)/n           (n−1)/n           n−1        (S is one rank's buffer)

The same holds for nodes taken as ranks. Data are added up in ranks, not in switches. Source for the totals: Chan,
Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice, and experience", 2007.
"""

from __future__ import annotations

from collections.abc import Sequence

from .graph import Network, node_of


def lower_bound(collective: str, network: Network, nbytes: float) -> float:
    """Seconds; only bandwidths count, latency and additions are free."""
    ranks = [[rank] for rank in range(len(network.devices))]
    nodes: dict[str, list[int]] = {}
    for rank, device in enumerate(network.devices):
        nodes.setdefault(node_of(device), []).append(rank)
    groups = [ranks] if len(nodes) in (1, len(ranks)) else [ranks, list(nodes.values())]
    return max((_bound(collective, network, nbytes, group) for group in groups), default=0.0)


def _bound(collective: str, network: Network, nbytes: float, groups: Sequence[Sequence[int]]) -> float:
    n = sum(map(len, groups))
    if len(groups) < 2 or collective == "barrier":
        return 0.0
    ports = [network.port(group) for group in groups]
    shares = [len(group) / n for group in groups]
    total = len(groups) - 1.0
    needs: list[tuple[float, float]] = []  # of each group: what leaves, what comes
    for share in shares:
        root = not needs
        needs.append(
            {
                "all_reduce": (1.0, 1.0),
                "reduce": (0.0, 1.0) if root else (1.0, 0.0),
                "broadcast": (1.0, 0.0) if root else (0.0, 1.0),
                "all_gather": (share, 1 - share),
                "reduce_scatter": (1 - share, share),
                "gather": (0.0, 1 - share) if root else (share, 0.0),
                "scatter": (1 - share, 0.0) if root else (0.0, share),
                "all_to_all": (share * n * (1 - share), share * n * (1 - share)),
            }[collective]
        )
    if collective == "all_reduce":
        total *= 2
    elif collective in ("gather", "scatter"):
        total = 1 - shares[0]
    elif collective == "all_to_all":
        total = sum(out for out, _ in needs)
    alone = max(max(out / port[0], into / port[1]) for (out, into), port in zip(needs, ports, strict=True))
    together = max(total / sum(port[0] for port in ports), total / sum(port[1] for port in ports))
    return nbytes * max(alone, together)
