"""``collective``: what a collective takes on a machine, why, and what it looks like."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collectives.schedule import Schedule

    from ..collective import Outcome
    from ..faults import Faults
    from ..graph import Network
    from ..machine import Machine

HELP = "simulate a collective on a machine: time, bottleneck, critical path, pictures"
EXAMPLES = """examples:
  python -m sim collective --algorithm ring --ranks 8 --size 1G --topology dgx-h100
  python -m sim collective --compare all --size 64M --machine dgx-a100 --nodes 4
  python -m sim collective --algorithm nccl --size 1G --machine dgx-h100
  python -m sim collective --sweep 1K-1G --machine dgx-h100
  python -m sim collective --algorithm mine.py:ring --ranks 4 --machine ring,bandwidth=25,latency=2us --html ring.html
  python -m sim collective --size 1G --machine dgx-h100 --nodes 2 --slow-link node0.gpu0->rail0=0.5

machines: dgx-1v, dgx-2, dgx-a100, dgx-a800, dgx-h100, dgx-h800, dgx-h20, dgx-h200, dgx-b200, gb200-nvl72, p4d, p5,
p6-b200, mi300x, pcie-4, pcie-8, 2xt4, laptop; topologies: line, ring, full, switch, torus, rails, fat-tree, dragonfly;
or a file (JSON, or what nvidia-smi topo -m prints). After a comma come parameters: dgx-h100,nics=4,nic=25 or
torus,shape=4x4,latency=1us

exit status: 0, 1 if a schedule is wrong, 2 for a wrong argument"""
LARGEST = 2_000_000  # messages of an algorithm that is compared without being asked for by name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ..draw import pictures

    parser.add_argument("--collective", "--op", default="all_reduce", metavar="NAME", help="default all_reduce")
    parser.add_argument("--algorithm", metavar="NAME", help="NAME[:option=value,…], FILE.py:name (ring)")
    parser.add_argument("--ranks", type=int, metavar="N", help="of all nodes together (default: every GPU)")
    parser.add_argument("--nodes", type=int, metavar="N", help="default 1, or as many as --ranks need")
    parser.add_argument(
        "--size", default="1G", metavar="S", help="bytes of the whole buffer, like 64K or 1G (default 1G)"
    )
    add_machine(parser)
    parser.add_argument(
        "--order", metavar="LIST", help="device of each rank: 0,4,1,5,… (default: as they are numbered)"
    )
    parser.add_argument("--compare", metavar="LIST|all", help="rank these algorithms instead")
    parser.add_argument("--sweep", nargs="?", const="1K-1G", metavar="A-B", help="sizes at which the best one changes")
    parser.add_argument(
        "--slow-link", action="append", default=[], metavar="LINK=SHARE", help="a->b, or a-b for both ways"
    )
    parser.add_argument("--lost-link", action="append", default=[], metavar="LINK", help="traffic takes another way")
    parser.add_argument("--straggler", action="append", default=[], metavar="RANK=FACTOR", help="so many times slower")
    parser.add_argument("--jitter", type=float, default=0.0, metavar="SHARE", help="mean random delay of a message (0)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of jitter and random routes (0)")
    parser.add_argument("--events", action="store_true", help="event by event, even where all ranks do the same")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write everything (without FILE: to stdout)"
    )
    parser.add_argument("--smpi", metavar="FILE", help="a trace that SimGrid replays, to confirm the time")
    pictures.add_arguments(parser)


def add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--machine", metavar="NAME|FILE[,key=value…]", help="where it runs (default dgx-h100)")
    parser.add_argument("--topology", metavar="NAME|FILE[,…]", help="its links alone: takes the place of --machine's")
    parser.add_argument("--gpu", default="", metavar="NAME", help="the GPUs of a machine whose file does not name them")


def machine_of(args: argparse.Namespace) -> Machine:
    """The machine that the arguments name.

    Raises:
        ValueError: see :func:`sim.presets.find_machine`.
    """
    from dataclasses import replace

    from ..presets import find_machine

    if not (args.machine and args.topology):
        return find_machine(args.machine or args.topology or "dgx-h100", args.gpu)
    machine, topology = find_machine(args.machine, args.gpu), find_machine(args.topology, args.gpu)
    return replace(topology, name=f"{machine.name} with {topology.name}", costs=machine.costs, gpu=machine.gpu)


def main(args: argparse.Namespace) -> int:
    from collectives.atomic import check_writable
    from collectives.errors import ScheduleError
    from collectives.registry import find

    from ..draw import pictures
    from .outcome import as_dict, facts, report
    from .output import write_json

    try:
        if args.json and args.json != "-":
            check_writable("--json", args.json)
        if args.smpi:
            from .. import smpi

            smpi.check(args.smpi)
            if args.compare or args.sweep:
                raise ValueError("--smpi writes one algorithm: leave out --compare and --sweep")
        pictures.check(args)
        drawn = bool(args.trace or args.svg or args.html)
        machine, faults = machine_of(args), faults_of(args)
        order = _order(args.order)
        network = faults.on(machine.network(args.nodes, args.ranks, order, args.seed))
        if args.compare is not None or args.sweep:
            from .comparison import compare, sweep

            if drawn:
                raise ValueError("pictures show one algorithm: leave out --compare and --sweep")

            return (sweep if args.sweep else compare)(args, machine, network, faults)
        nbytes = _size(args.size)
        args.algorithm = args.algorithm or default_algorithm(args.collective)
        if args.algorithm == "nccl" or args.algorithm.startswith("nccl:"):
            from . import nccl

            if drawn:
                raise ValueError("--algorithm nccl is an estimate without a timeline: take a schedule for pictures")
            numbers = nccl.estimate(args, machine, network, nbytes)
            if args.json != "-":
                print(nccl.report(numbers))
            write_json(args.json, numbers)
            return 0
        schedule = find(args.collective, args.algorithm)
        outcome = run(schedule, network, nbytes, machine, faults, args.events or drawn)
        if drawn:
            from ..collective_replay import replay

            pictures.draw(args, replay(outcome, facts(outcome, machine)))
        if args.smpi:
            print(smpi.export(args.smpi, outcome, faults), file=sys.stderr)
    except ScheduleError as error:
        print(f"{args.algorithm} is wrong ({error.kind}): {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.json != "-":
        print(report(outcome, machine))
    write_json(args.json, as_dict(outcome, machine))
    return 0


def run(
    schedule: Schedule, network: Network, nbytes: float, machine: Machine, faults: Faults, events: bool = False
) -> Outcome:
    """Prove (up to the size to which schedules are proved before they run) and simulate."""
    from collectives.proof import PROVED_UP_TO, prove

    from ..collective import check_messages, simulate

    check_messages(schedule, len(network.devices))
    if len(network.devices) <= PROVED_UP_TO:
        prove(schedule, len(network.devices))
    return simulate(schedule, network, nbytes, machine.costs, faults, events)


def default_algorithm(collective: str) -> str:
    """The ring, or the first algorithm of a collective that has none."""
    from collectives.contract import contract_of
    from collectives.registry import algorithms

    contract_of(collective)
    names = [schedule.name for schedule in algorithms(collective)]
    return "ring" if "ring" in names else names[0]


def faults_of(args: argparse.Namespace) -> Faults:
    from ..faults import Faults

    def pairs(option: str, texts: Sequence[str]) -> list[tuple[str, float]]:
        found = []
        for text in texts:
            name, equals, value = text.rpartition("=")
            try:
                found.append((name, float(value)))
            except ValueError:
                equals = ""
            if not equals or not name:
                raise ValueError(
                    f"{option} {text!r}: write {'RANK=FACTOR' if option == '--straggler' else 'LINK=SHARE'}"
                )
        return found

    stragglers = {}
    for name, factor in pairs("--straggler", args.straggler):
        if not (name.isascii() and name.isdigit()):
            raise ValueError(f"--straggler {name!r}: write RANK=FACTOR, like 3=2")
        stragglers[int(name)] = factor
    return Faults(dict(pairs("--slow-link", args.slow_link)), tuple(args.lost_link), stragglers, args.jitter, args.seed)


def _size(text: str) -> int:
    from ..units import parse_size

    return parse_size(text, "--size")


def _order(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not (text.isascii() and all(part.strip().isdigit() for part in text.split(","))):
        raise ValueError(f"--order {text!r}: write the device of each rank, like 0,2,1,3")
    return [int(part) for part in text.split(",")]
