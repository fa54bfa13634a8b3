"""Where things run: the one noun behind ``--machine NAME|FILE[,key=value…]``, with ``--nodes``.

A machine is a *kind* (which function builds its graph), the parameters of that function, and the constants of the cost
model. Presets are kinds with parameters; a file says the same in JSON::

    {"name": "two boxes", "kind": "cluster", "parameters": {"local": 4, "nvlink": 300, "nic": 25, "latency": "1us/5us"},
     "costs": {"base": "8us", "gamma": 1200}, "gpu": "a100"}

or lists its own links: ``{"kind": "graph", "devices": ["a", "b"], "links": [["a", "b", 50, "1us"]]}`` (GB/s, latency).
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .graph import ROUTINGS, Network
from .kinds import FABRICS, KINDS, MORE, NODES
from .topology import empty
from .units import parse_bandwidth, parse_time

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Costs:
    """What is not in the graph, as in ``collectives.cost.Machine``: seconds, and seconds a byte.

    base: once a collective; overhead: once a message; gamma: a byte combined; cores: that the ranks of a host share (0:
    each has its own).
    """

    base: float = 0.0
    overhead: float = 0.0
    gamma: float = 0.0
    cores: int = 0


@dataclass(frozen=True)
class Protocol:
    """One way in which NCCL carries a collective, with its constants; see :mod:`sim.nccl`.

    name: ``ALGORITHM/PROTOCOL``, like ``ring/LL``; base: seconds, once; inside, between: seconds a hop inside a node
    and from node to node; share: of the links' bandwidth; fill: seconds that one more piece of the data costs; least,
    below: bytes, the sizes for which it is there.
    """

    name: str
    base: float = 0.0
    inside: float = 0.0
    between: float = 0.0
    share: float = 1.0
    fill: float = 0.0
    least: float = 0.0
    below: float = math.inf

    @property
    def algorithm(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Machine:
    """See above. ``parameters`` are in SI units; ``source`` says where the numbers come from."""

    name: str
    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    costs: Costs = Costs()
    gpu: str = ""
    source: str = ""
    protocols: tuple[Protocol, ...] = ()

    def network(
        self, nodes: int | None = None, ranks: int | None = None, order: list[int] | None = None, seed: int = 0
    ) -> Network:
        """The graph for so many nodes, and the devices of so many ranks.

        Args:
            nodes: 1 by default, or as many as ``ranks`` need.
            ranks: every device by default; fewer are spread evenly over the nodes, first devices first.
            order: ``order[i]`` is the device of rank i, numbered as they are by default.

        Raises:
            ValueError: more ranks than devices, an order that is no permutation, or parameters that make no sense.
        """
        if nodes is not None and nodes < 1:
            raise ValueError(f"nodes={nodes}: give at least 1")
        if ranks is not None and ranks < 1:
            raise ValueError(f"ranks={ranks}: give at least 1")
        graph = empty()
        parameters = dict(self.parameters)
        routing = parameters.pop("routing", "fixed")
        devices = KINDS[self.kind](graph, nodes, ranks, **parameters)
        ranks = sum(map(len, devices)) if ranks is None else ranks
        if ranks > sum(map(len, devices)):
            hint = MORE.get(self.kind, "give more --nodes")
            raise ValueError(f"ranks={ranks} are more than the {sum(map(len, devices))} devices of {self.name}: {hint}")
        each, more = divmod(ranks, len(devices))
        shares = [each + (number < more) for number in range(len(devices))]
        chosen = [device for node, share in zip(devices, shares, strict=True) for device in node[:share]]
        if order is not None:
            if sorted(order) != list(range(ranks)):
                raise ValueError(f"order={order} is not a permutation of ranks 0 to {ranks - 1}")
            chosen = [chosen[i] for i in order]
        return Network(graph, chosen, routing, seed)


def parse_parameter(kind: str, name: str, text: Any) -> Any:
    """A parameter of a kind, from what people write.

    Raises:
        ValueError: an unknown name (the valid ones are listed), or a value that is not of its form.
    """
    known = [p for p in inspect.signature(KINDS[kind]).parameters if p not in ("graph", "nodes", "ranks")]
    known = ["routing", *known]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3) or known
        raise ValueError(f"{name!r} is no parameter of a {kind}: use {', '.join(near)}")
    if name in ("links", "levels"):
        return _structure(name, text)
    text = str(text)
    if name in ("bandwidth", "nvlink", "nic", "pcie", "socket"):
        return parse_bandwidth(text, name)
    if name == "latency":
        inside, _, outside = text.partition("/")
        return parse_time(inside, name), parse_time(outside or inside, name)
    if name == "shape":
        lengths = text.lower().split("x")
        if (
            not all(length.isascii() and length.isdigit() and int(length) for length in lengths)
            or not 1 <= len(lengths) <= 3
        ):
            raise ValueError(f"shape={text!r}: write lengths from 1 on like 4x4 or 4x4x4")
        return tuple(map(int, lengths))
    choices = {"routing": ROUTINGS, "node": NODES, "fabric": FABRICS}
    if name in choices:
        if text not in choices[name]:
            raise ValueError(f"{name}={text!r} is unknown: use one of {', '.join(choices[name])}")
        return text
    try:
        number = float(text) if name == "oversubscription" else int(text)
    except ValueError:
        number = -1
    if not number >= (0 if name in ("nics", "spines", "k", "leaf", "devices") else 1) or number > 1 << 20:
        raise ValueError(f"{name}={text!r}: give a number from 1 on (and at most {1 << 20})")
    return number


def _structure(name: str, said: Any) -> Any:
    """What only a file can say: ``links`` as ``{"0-1": 2}``, ``levels`` as ``[[name, [[0, 1], [2, 3]], GB/s]]``."""
    try:
        if name == "links":
            pairs = {tuple(map(int, pair.split("-"))): int(number) for pair, number in said.items()}
            if any(len(pair) != 2 or number < 1 for pair, number in pairs.items()):
                raise ValueError
            return pairs
        if name == "levels":
            return tuple(
                (str(level), tuple(tuple(map(int, group)) for group in groups), parse_bandwidth(str(width)))
                for level, groups, width in said
            )
    except (AttributeError, OverflowError, TypeError, ValueError):
        pass
    raise ValueError(f'{name}={said!r}: write links as {{"0-1": 2}}, levels as [["pix", [[0, 1]], 24]]')


def changed(machine: Machine, values: Mapping[str, Any]) -> Machine:
    """The machine with other parameters or costs, as people write them.

    Raises:
        ValueError: see :func:`parse_parameter`.
    """
    parameters, costs = dict(machine.parameters), machine.costs
    for key, value in values.items():
        if key == "base":
            costs = replace(costs, base=parse_time(str(value), key))
        elif key == "overhead":
            costs = replace(costs, overhead=parse_time(str(value), key))
        elif key == "gamma":
            costs = replace(costs, gamma=0.0 if str(value) == "0" else 1 / parse_bandwidth(str(value), key))
        else:
            parameters[key] = parse_parameter(machine.kind, key, value)
            if key == "cores":
                costs = replace(costs, cores=parameters[key])
    if machine.kind == "cluster":
        _check_indices(parameters)
    return replace(machine, parameters=parameters, costs=costs)


def _check_indices(parameters: Mapping[str, Any]) -> None:
    """The GPUs that ``links`` and ``levels`` name are those of a node."""
    local = parameters.get("local", 8)
    linked = parameters.get("node") == "linked"
    named = [gpu for pair in parameters.get("links") or () for gpu in pair] if linked else []
    if linked and (not named or local != 1 + max(named) or min(named) < 0):
        raise ValueError(f"local={local}: the links of this machine are those of {1 + max(named, default=-1)} GPUs")
    grouped = [gpu for _, groups, _ in parameters.get("levels", ()) for group in groups for gpu in group]
    if grouped and not (min(grouped) >= 0 and max(grouped) < local):
        raise ValueError(f"levels name GPUs {min(grouped)} to {max(grouped)}: there are {local}, from 0 on")
