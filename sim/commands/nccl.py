"""``collective --algorithm nccl``: the time that NCCL itself would take, beside that of our schedules."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph import Network
    from ..machine import Machine


def estimate(args: argparse.Namespace, machine: Machine, network: Network, nbytes: float) -> dict[str, Any]:
    """The numbers of NCCL's fastest way, and the times of all its ways. Seconds and GB/s.

    Raises:
        ValueError: the machine has no protocols, or faults were asked for, which this estimate does not know.
    """
    from collectives.contract import contract_of

    from ..bound import lower_bound
    from ..nccl import Nccl

    if args.slow_link or args.lost_link or args.straggler or args.jitter or args.order:
        raise ValueError("--algorithm nccl is an estimate without faults or orders: leave them out")
    contract = contract_of(args.collective)
    wanted = (args.algorithm or "").removeprefix("nccl") if (args.algorithm or "").startswith("nccl") else ""
    nccl = Nccl(machine, args.nodes, args.ranks)
    best = nccl.best(args.collective, nbytes, wanted.lstrip(":"))
    ranks = len(network.devices)
    algbw = nbytes / best.time_s / 1e9 if best.time_s else 0.0
    return {
        "collective": args.collective,
        "algorithm": "nccl",
        "chosen": best.name,
        "machine": machine.name,
        "ranks": ranks,
        "size": nbytes,
        "time_s": best.time_s,
        "lower_bound_s": lower_bound(args.collective, network, nbytes),
        "algbw": algbw,
        "busbw": algbw * contract.factor(ranks),
        "breakdown_s": {"latency": best.latency_s, "transfer": best.transfer_s},
        "estimates": {way.name: way.time_s for way in nccl.estimates(args.collective, nbytes)},
    }


def report(numbers: dict[str, Any]) -> str:
    """The numbers, for people."""
    from ..units import show_bytes, show_time

    lines = [
        f"{numbers['collective']} · NCCL's own, {numbers['chosen']} · {show_bytes(numbers['size'])} on "
        f"{numbers['ranks']} ranks of {numbers['machine']}",
        "",
        f"  time         {show_time(numbers['time_s'])}",
        f"  bandwidth    {numbers['algbw']:.4g} GB/s algbw, {numbers['busbw']:.4g} GB/s busbw",
        "",
        "  its ways",
    ]
    lines += [f"    {name:<22}{show_time(seconds):>10}" for name, seconds in numbers["estimates"].items()]
    lines += ["", "  an estimate (see sim/nccl.py); NVLS adds up in the switch, which no bound for ranks counts"]
    return "\n".join(lines)
