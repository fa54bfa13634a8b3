"""``rings``: which rings a machine's links have room for, and what they reach."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph import Network
    from ..machine import Machine
    from ..rings import Arc, Load, Order

HELP = "the rings that a machine's NVLinks have room for, and the best order over PCIe"
EXAMPLES = """examples:
  nvidia-smi topo -m > topo.txt && python -m sim rings topo.txt
  python -m sim rings topo.txt --gpus 0,1,2,3 --emit order.json
  python -m sim rings dgx-1v --gpus 0,1,2,3,4
  python -m sim rings dgx-h100 --nodes 4
  python -m sim rings topo.txt --nodes 2 --size 1G --emit order.json

The file that --emit writes is for  python -m collectives bench --order order.json
--json: gpus, rings (orders over NVLink, or over the nodes; empty where there is none), fallback (one ring over whatever
joins the GPUs), chain (over NVLink, where no ring closes), busbw in GB/s (of the first of these that there is),
bottleneck, time_s (with --size: of an all-reduce along the rings, else the fallback; simulated), notes. Over several
nodes, GPUs are numbered node by node. --emit writes machine, gpus and orders: the rings, or the fallback alone.

exit status: 0 also where there is no ring over NVLink, 2 for a wrong argument"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE|NAME", help="what nvidia-smi topo -m prints, a machine file, or a name")
    parser.add_argument("--gpus", metavar="LIST", help="through these only: 0,1,2,3 (default: all)")
    parser.add_argument("--gpu", default="", metavar="NAME", help="which GPUs they are: speed of NVLink and PCIe")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="rings over so many of them (default 1)")
    parser.add_argument(
        "--size", metavar="S", help="simulate an all-reduce of so many bytes along them, like 64K or 1G"
    )
    parser.add_argument("--emit", metavar="FILE", help="write the orders, for bench --order")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write everything (without FILE: to stdout)"
    )


def main(args: argparse.Namespace) -> int:
    from collectives.atomic import check_writable

    from ..units import parse_size
    from .output import write_json
    from .subject import find_subject

    try:
        for option in ("emit", "json"):
            if getattr(args, option) not in (None, "-"):
                check_writable(f"--{option}", getattr(args, option))
        machine, matrix, notes = find_subject(args.file, args.gpu)
        nbytes = parse_size(args.size, "--size") if args.size else 0
        content = _over_nodes(machine, args, nbytes) if args.nodes != 1 else _inside(machine, args, nbytes)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    content["notes"] = [*(matrix.doubts if matrix else ()), *notes, *content["notes"]]
    if args.emit:
        orders = content["rings"] or [content["fallback"]]
        write_json(args.emit, {"machine": machine.name, "gpus": content["gpus"], "orders": orders})
    if args.json != "-":
        print(_report(machine, content))
        if args.emit:
            print(f"\nwrote {args.emit}; use it with  python -m collectives bench --order {args.emit}")
    write_json(args.json, content)
    return 0


def _inside(machine: Machine, args: argparse.Namespace, nbytes: int) -> dict[str, Any]:
    """Rings through GPUs of one node."""
    from ..rings import arcs_of, best_order, chain, load, pack

    network = machine.network(nodes=1) if machine.kind == "cluster" else machine.network()
    among = _chosen(args.gpus, len(network.devices))
    node = machine.parameters.get("node") if machine.kind == "cluster" else None
    arcs = arcs_of(machine.parameters["links"], among) if node == "linked" else {}
    rings = [tuple(among)] if node == "nvswitch" and len(among) > 1 else pack(arcs, among)
    fallback = best_order(network, among, [groups for _, groups, _ in machine.parameters.get("levels", ())])
    if len(among) < 2:
        return _content(among, [], fallback, 0.0, "", notes=["one GPU has nobody to send to"])
    limit = load(network, rings or [fallback])
    bottleneck = _bottleneck(limit, arcs, among, rings)
    content = _content(among, rings, fallback, limit.busbw, bottleneck)
    if nbytes:
        content["time_s"] = _all_reduce(machine, network, among, rings or [fallback], nbytes)
    if arcs and not rings and (way := chain(arcs, among)):
        along = 2 * (len(among) - 1) / len(among) * machine.parameters["nvlink"]  # all of the data passes every link
        ring, tree = limit.busbw / 1e9, along / 1e9
        note = f"the ring over PCIe reaches {ring:.3g} GB/s; a tree along the chain, as NCCL takes, {tree:.3g}"
        content |= {"busbw": max(tree, ring), "chain": list(way), "notes": [note]}
    return content


def _over_nodes(machine: Machine, args: argparse.Namespace, nbytes: int) -> dict[str, Any]:
    """Rings over several nodes: as many as the NICs, or the links inside, make worth while."""
    from collectives.combinators import over_nodes

    from ..matrix import FROM_MATRIX
    from ..rings import load

    if machine.kind != "cluster":
        raise ValueError(f"--nodes {args.nodes}: {machine.name} is one machine; name a cluster like dgx-h100")
    network = machine.network(nodes=args.nodes)
    each = len(network.devices) // args.nodes
    chosen = _chosen(args.gpus, each)
    alone = _inside(machine, args, 0)
    inside = [[chosen.index(gpu) for gpu in order] for order in alone["rings"] or [alone["fallback"]]]
    among = [node * each + gpu for node in range(args.nodes) for gpu in chosen]
    nics = min(machine.parameters.get("nics") or each, each)
    nic = [gpu * nics // each for gpu in chosen]  # neighbours share one
    packed = [
        [tuple(among[rank] for rank in order) for order in over_nodes(inside, args.nodes, count, nic)]
        for count in range(1, max(len(inside), len(set(nic))) + 1)
    ]
    rings = max(packed, key=lambda orders: (round(load(network, orders).busbw), -len(orders)))
    limit = load(network, rings)
    bottleneck = f"{limit.link} carries {limit.hops} hop{'s' * (limit.hops > 1)}"
    count = len(set(nic))
    shared = ", each with as many rings as the others, or nearly" if count > 1 else ", by which all rings go"
    notes = [f"{count} NIC{'s' * (count > 1)} a node{shared}"]
    if "nics" not in machine.parameters and machine.source == FROM_MATRIX:
        notes.append("the matrix names no NICs: one a GPU is assumed; FILE,nics=… says it")
    content = _content(among, rings, rings[0], limit.busbw, bottleneck, notes)
    if nbytes:
        content["time_s"] = _all_reduce(machine, network, among, rings, nbytes)
    return content


def _all_reduce(
    machine: Machine, network: Network, among: Sequence[int], orders: Sequence[Order], nbytes: int
) -> float:
    """Seconds of an all-reduce along the orders, simulated."""
    from collectives.combinators import rings

    from ..collective import simulate
    from ..graph import Network

    devices = Network(network.graph, [network.devices[gpu] for gpu in among], network.routing, network.seed)
    schedule = rings([[among.index(gpu) for gpu in order] for order in orders])
    return simulate(schedule, devices, nbytes, machine.costs).time_s


def _content(
    gpus: Sequence[int],
    rings: Sequence[Order],
    fallback: Order,
    busbw: float,
    bottleneck: str,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "gpus": list(gpus),
        "rings": [list(order) for order in rings],
        "fallback": list(fallback),
        "busbw": busbw / 1e9,
        "bottleneck": bottleneck,
        "chain": None,
        "time_s": None,
        "notes": list(notes),
    }


def _chosen(text: str | None, count: int) -> list[int]:
    if text is None:
        return list(range(count))
    try:
        among = [int(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--gpus {text!r}: write numbers of GPUs like 0,1,2,3") from None
    if len(set(among)) < len(among) or not all(0 <= gpu < count for gpu in among):
        raise ValueError(f"--gpus {text}: name each once, from 0 to {count - 1}")
    return among


def _bottleneck(limit: Load, arcs: dict[Arc, int], among: list[int], rings: list[Order]) -> str:
    """What keeps the bus bandwidth from being higher, in words."""
    from ..rings import EXACT, narrowest

    if not arcs or len(among) > EXACT:
        more = f", which carries {limit.hops} hops" if limit.hops > 1 else ""
        return f"{limit.link}{more}"
    group, links = narrowest(arcs, among)
    who = f"GPU {group[0]} is" if len(group) == 1 else f"GPUs {', '.join(map(str, group))} are"
    there = f"{who} joined to the others by {links} NVLink{'s' * (links != 1)}"
    if len(group) == 1 and links > len(rings):
        near = [b for a, b in arcs if a == group[0]]
        there += f", all to GPU {near[0]}" if len(near) == 1 else ", of which no more close a ring"
    return there if rings else f"{there}: no ring over NVLink; over PCIe it is {limit.link}"


def _arrows(order: Order) -> str:
    return "-".join(map(str, order))


def _report(machine: Machine, content: dict[str, Any]) -> str:
    rings, gpus = content["rings"], content["gpus"]
    lines = [
        f"{machine.name}, {len(gpus)} GPU{'s' * (len(gpus) != 1)}: {len(rings) or 'no'} ring{'s' * (len(rings) != 1)}"
    ]
    alike = Counter(map(tuple, rings))
    for order, times in list(alike.items())[:16]:
        way = f"{_arrows(order)}-{order[0]}" if len(order) <= 16 else f"{_arrows(order[:16])}-…"
        lines.append(f"  {way}{f'   {times} times' if times > 1 else ''}")
    if len(alike) > 16:
        lines.append(f"  … {len(alike) - 16} more")
    if content["chain"]:
        lines.append(f"  over NVLink, a chain: {_arrows(content['chain'])}")
    if not rings and len(gpus) > 1:
        lines.append(f"  over PCIe: {_arrows(content['fallback'])}-{content['fallback'][0]}")
    if len(gpus) > 1:
        lines.append(f"bus bandwidth  {content['busbw']:.4g} GB/s")
        lines.append(f"bottleneck     {content['bottleneck']}")
    if content["time_s"]:
        lines.append(f"all-reduce     {content['time_s'] * 1e3:.5g} ms, simulated")
    return "\n".join([*lines, *(f"note: {note}" for note in content["notes"])])
