"""``links``: latency and bandwidth between every two ranks, and which links are not like the others."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from statistics import median
from typing import TYPE_CHECKING, Any

from ..bench.settings import parse_size
from ..launch_line import LAUNCHERS

if TYPE_CHECKING:
    from ..links.link_map import Links
    from ..links.outliers import Link

HELP = "measure latency and bandwidth between every two ranks; name the links that are not like the others"
EXAMPLES = """every pair is measured once, in rounds of pairs that share no rank (n - 1 of them; n for an odd n), all
pairs of a round at once. Odd is a bandwidth that is more than 5 x 1.4826 x MAD below the median of its kind, and
below 0.9 of it; a latency as far above, and above 1.25 of it. Pairs within a host and between hosts are two kinds.

JSON: environment (as bench has it), bytes, messages, latency_us and bandwidth_gbs (rows: from, columns: to, null on the
diagonal; GB/s of 10^9 bytes), kinds ({"within a host" or "between hosts": {links, median_latency_us,
median_bandwidth_gbs, min_of_median}}), outliers ([{from, to, kind, what, value, median, of_median}])

exit status: 0 (also with outliers), 1 if a rank failed, 2 for a wrong argument, or if a bandwidth is below
--min-of-median of its kind

examples:
  python -m collectives links --ranks 4
  torchrun --nproc-per-node 8 -m collectives links --min-of-median 0.8 --json links.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--ranks", type=int, metavar="N", help="processes to start (default 4, or a rank a GPU); else those launched")
    add("--backend", choices=("gloo", "nccl"), help="default: nccl where every rank has a GPU of its own, else gloo")
    add("--size", type=parse_size, metavar="SIZE", help="bytes of a message (default 4M; 64M on NCCL)")
    add("-n", "--messages", type=int, default=8, metavar="N", help="messages in a burst (default 8)")
    add("--min-of-median", type=float, metavar="X", help="exit with 2 if a bandwidth is below X of its kind's median")
    add("--plot", metavar="FILE", help="draw both matrices: .png, .svg or .pdf (needs matplotlib)")
    add("--json", metavar="FILE", help="write everything")
    add("--print-launch", choices=LAUNCHERS, help="print the line that starts this on --nodes nodes, and stop")
    add("--nodes", type=int, default=1, metavar="N", help="for --print-launch: they share --ranks (default 1)")
    add("--timeout", type=float, default=600.0, metavar="SECONDS", help="for the whole run (default 600)")


def main(args: argparse.Namespace) -> int:
    from ..launcher import place_of
    from ..start import NotStarted, backend_for, on_ranks, print_launch

    first = True
    try:
        if args.print_launch is not None:
            print_launch(args.print_launch, ["collectives", "links"], args.nodes, args.ranks)
            return 0
        place = place_of(os.environ)
        first = place is None or place.rank == 0
        ranks = _checked(args, place.size if place else None, first)
        backend = backend_for(args.backend, place.local_size if place else ranks, place)
        nbytes = args.size if args.size is not None else 64 << 20 if backend == "nccl" else 4 << 20
        work = nbytes, args.messages, backend
        found = on_ranks(_measure, *work, ranks=ranks, backend=backend, place=place, timeout=args.timeout)
    except (ValueError, NotStarted) as error:
        if first:
            print(f"python -m collectives links: error: {error}", file=sys.stderr)
        return error.status if isinstance(error, NotStarted) else 2
    if not first:
        return 0
    environment, hosts, links = found
    content = _content(environment, hosts, links, nbytes, args.messages)
    with contextlib.suppress(BrokenPipeError):
        _say(content, links, ranks)
    _write(args, content, links, ranks)
    worst = min(kind["min_of_median"] for kind in content["kinds"].values())
    if args.min_of_median is not None and worst < args.min_of_median:
        print(f"# FAILED: a link has {worst:.2f} of its median, --min-of-median {args.min_of_median:g} was asked for")
        return 2
    return 0


def _checked(args: argparse.Namespace, launched: int | None, first: bool) -> int:
    """How many ranks there are to be.

    Raises:
        ValueError: arguments that make no sense.
    """
    from ..atomic import check_writable
    from ..bench.plot import check_plot
    from ..start import usual_ranks

    ranks = args.ranks if args.ranks is not None else launched or usual_ranks()
    if launched not in (None, ranks):
        raise ValueError(f"--ranks {ranks}: but {launched} ranks have been launched; leave --ranks out")
    if ranks < 2:
        raise ValueError(f"--ranks {ranks}: a link has two ends; use at least 2")
    if args.messages < 1:
        raise ValueError(f"-n/--messages {args.messages}: use at least 1")
    if args.size is not None and args.size < 1:
        raise ValueError(f"--size {args.size}: use at least 1 byte")
    if args.min_of_median is not None and not 0 < args.min_of_median <= 1:
        raise ValueError(f"--min-of-median {args.min_of_median:g}: use a part of 1, for instance 0.8")
    if not args.timeout > 0:
        raise ValueError(f"--timeout {args.timeout:g}: use a number of seconds above 0")
    for flag in ("json", "plot"):
        if first and getattr(args, flag) is not None:
            check_writable(f"--{flag}", getattr(args, flag))
    if first and args.plot is not None:
        check_plot(args.plot)
    return int(ranks)


def _measure(nbytes: int, messages: int, backend: str) -> tuple[dict[str, Any], list[str], Links]:
    """On a rank: the environment, the host of each rank, and the links. Rank 0 prints what it is measured on."""
    import torch
    import torch.distributed as dist

    from ..bench.environment import describe, hosts_of_ranks, machine_lines
    from ..links.link_map import measure

    environment, names = describe(backend)
    hosts = hosts_of_ranks(names)
    if dist.get_rank() == 0:
        for line in machine_lines(environment, names):
            print(f"# {line}")
        if backend == "gloo" and len(names) == 1:
            print("# gloo on one host: a link is loopback TCP, which the CPU copies; pairs of a round share the cores")
        sys.stdout.flush()
    device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")
    return environment, hosts, measure(nbytes, messages, device)


def _content(environment: dict[str, Any], hosts: list[str], links: Links, nbytes: int, messages: int) -> dict[str, Any]:
    """What ``--json`` writes."""
    from ..links.outliers import outliers

    ranks = range(len(hosts))
    kinds: dict[str, list[Link]] = {}
    for link in sorted(links.bandwidth):
        within = hosts[link[0]] == hosts[link[1]]
        kinds.setdefault("within a host" if within else "between hosts", []).append(link)
    content: dict[str, Any] = {"environment": environment, "bytes": nbytes, "messages": messages}
    scaled = (("latency_us", links.latency, 1e6), ("bandwidth_gbs", links.bandwidth, 1e-9))
    for name, values, unit in scaled:
        content[name] = [[None if i == j else values[i, j] * unit for j in ranks] for i in ranks]
    content["kinds"], content["outliers"] = {}, []
    for kind, members in kinds.items():
        middle = median(links.bandwidth[link] for link in members)
        content["kinds"][kind] = {
            "links": len(members),
            "median_latency_us": median(links.latency[link] for link in members) * 1e6,
            "median_bandwidth_gbs": middle / 1e9,
            "min_of_median": min(links.bandwidth[link] for link in members) / middle,
        }
        for name, values, unit in scaled:
            for odd in outliers({link: values[link] for link in members}, low=name == "bandwidth_gbs"):
                content["outliers"].append(
                    {"from": odd.link[0], "to": odd.link[1], "kind": kind, "what": name, "value": odd.value * unit,
                     "median": odd.median * unit, "of_median": odd.of_median}
                )  # fmt: skip
    return content


def _say(content: dict[str, Any], links: Links, ranks: int) -> None:
    from ..links.heat_map import heat_lines

    for name, title, values, unit in (
        ("latency_us", "latency (us)", links.latency, 1e6),
        ("bandwidth_gbs", "bandwidth (GB/s)", links.bandwidth, 1e-9),
    ):
        print(f"\n{title}")
        marked = [(odd["from"], odd["to"]) for odd in content["outliers"] if odd["what"] == name]
        for line in heat_lines({link: value * unit for link, value in values.items()}, ranks, marked):
            print(line)
    print()
    for kind, found in content["kinds"].items():
        print(
            f"# {kind}: {found['links']} links, median {found['median_latency_us']:.3g} us and "
            f"{found['median_bandwidth_gbs']:.3g} GB/s, the least {found['min_of_median']:.2f} of that"
        )
    for odd in content["outliers"]:
        what, measure = ("bandwidth", "GB/s") if odd["what"] == "bandwidth_gbs" else ("latency", "us")
        print(
            f"# odd: {what} from rank {odd['from']} to rank {odd['to']}: {odd['value']:.3g} {measure}, "
            f"{odd['of_median']:.2f} of the median {odd['kind']}"
        )
    if not content["outliers"]:
        print("# no link is unlike the others")


def _write(args: argparse.Namespace, content: dict[str, Any], links: Links, ranks: int) -> None:
    from ..atomic import write_text
    from ..links.heat_map import write_heat_map

    if args.json is not None:
        write_text(args.json, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    if args.plot is not None:
        panels = {
            "latency (us)": {link: value * 1e6 for link, value in links.latency.items()},
            "bandwidth (GB/s)": {link: value / 1e9 for link, value in links.bandwidth.items()},
        }
        write_heat_map(args.plot, panels, ranks)
