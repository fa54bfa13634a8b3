"""``topology``: what a topology matrix or a machine file says, and the machine that it makes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

HELP = "read what nvidia-smi topo -m prints (or a machine file) and show the machine that it describes"
EXAMPLES = """examples:
  nvidia-smi topo -m > topo.txt && python -m sim topology topo.txt
  python -m sim topology topo.txt --gpu a100 --out box.json && python -m sim collective --machine box.json
  python -m sim topology dgx-1v

exit status: 0 also where parts of the matrix are unsure (they are named), 2 if there is none"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE|NAME", help="a text, a machine file, or a machine by name")
    parser.add_argument("--gpu", default="", metavar="NAME", help="which GPUs they are: speed of NVLink and PCIe")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="so many of them (default 1)")
    parser.add_argument("--out", metavar="FILE", help="write the machine file, which every command takes")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write everything (without FILE: to stdout)"
    )


def main(args: argparse.Namespace) -> int:
    import json

    from collectives.atomic import check_writable, write_text

    from ..machine_file import to_dict
    from .output import write_json
    from .subject import find_subject

    try:
        for option in ("out", "json"):
            if getattr(args, option) not in (None, "-"):
                check_writable(f"--{option}", getattr(args, option))
        machine, matrix, notes = find_subject(args.file, args.gpu)
        network = machine.network(nodes=args.nodes) if machine.kind == "cluster" else machine.network()
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from ..graph import describe

    counts = describe(network.graph)
    links = list({frozenset(edge): edge for edge in reversed(list(network.graph.edges))}.values())[::-1]
    content: dict[str, Any] = {"machine": to_dict(machine), "counts": counts, "notes": notes}
    if matrix is not None:
        cells = [[a, b, cell] for (a, b), cell in matrix.cells.items() if a < b]
        content |= {"gpus": list(matrix.gpus), "nics": list(matrix.nics), "cells": cells}
        content |= {"numa": matrix.numa, "cpu_affinity": matrix.cpu_affinity}
        content |= {"doubts": list(matrix.doubts), "notes": [*matrix.notes, *notes]}
    content["links"] = [{"name": f"{a}-{b}", "bandwidth": network.graph[a][b]["bandwidth"] / 1e9} for a, b in links]
    if args.out:
        write_text(args.out, json.dumps(to_dict(machine), indent=1) + "\n")
    if args.json != "-":
        print(_report(args.file, content))
        if args.out:
            print(f"\nwrote {args.out}; use it with --machine {args.out}")
    write_json(args.json, content)
    return 0


def _report(name: str, content: dict[str, Any]) -> str:
    counts = dict(content["counts"])
    words = {"device": "GPU", "switch": "switch", "nic": "NIC", "cpu": "host bridge or socket", "links": "link"}
    what = ", ".join(f"{number} × {words[kind]}" for kind, number in counts.items() if number)
    lines = [f"{name}: {what} (GB/s per direction)"]
    if content.get("nics"):
        lines.append(f"NICs: {', '.join(content['nics'])}")
    groups: dict[float, list[str]] = {}
    for link in content["links"]:
        groups.setdefault(link["bandwidth"], []).append(link["name"])
    for bandwidth, names in sorted(groups.items(), reverse=True):
        shown = ", ".join(names[:6]) + (f", … {len(names) - 6} more" if len(names) > 6 else "")
        lines.append(f"  {bandwidth:>7.4g}  {shown}")
    for title, sentences in (("unsure", content.get("doubts", [])), ("note", content["notes"])):
        lines += [f"{title}: {sentence}" for sentence in sentences]
    return "\n".join(lines)
