"""The outcome of a simulated collective, as numbers and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graph import node_of

if TYPE_CHECKING:
    from ..collective import Outcome
    from ..machine import Machine


def facts(outcome: Outcome, machine: Machine) -> dict[str, float | str]:
    """The numbers of an outcome that stand for themselves."""
    busiest = outcome.links()[:1]
    return {
        "collective": outcome.schedule.collective,
        "algorithm": str(outcome.schedule),
        "machine": machine.name,
        "ranks": len(outcome.network.devices),
        "nodes": len({node_of(device) for device in outcome.network.devices}),
        "size": outcome.nbytes,
        "time_s": outcome.time_s,
        "lower_bound_s": outcome.lower_bound_s,
        "algbw": outcome.algbw,
        "busbw": outcome.busbw,
        "bottleneck": busiest[0][0] if busiest else "",
        "bottleneck_utilisation": busiest[0][2] if busiest else 0.0,
        "messages": outcome.messages,
        "faults": outcome.faults.in_words(),
    }


def as_dict(outcome: Outcome, machine: Machine) -> dict[str, Any]:
    """Everything, in seconds, bytes and GB/s."""
    devices, capacity = outcome.network.devices, dict(zip(outcome.network.names, outcome.network.capacity, strict=True))
    return {
        **facts(outcome, machine),
        "breakdown_s": outcome.breakdown(),
        "phases": [{"phase": name, "seconds": seconds} for name, seconds in outcome.phases()],
        "links": [
            {"name": name, "bytes": nbytes, "bandwidth": capacity[name] / 1e9, "utilisation": share}
            for name, nbytes, share in outcome.links()
        ],
        "critical_path": [
            {
                "from": devices[leg.source],
                "to": devices[leg.to],
                "channel": leg.channel,
                "link": leg.link,
                "times": leg.times,
                "seconds": leg.seconds,
                "latency": leg.latency * leg.times,
                "transfer": leg.transfer * leg.times,
                "sharing": leg.sharing * leg.times,
                "reduction": leg.reduction * leg.times,
            }
            for leg in outcome.critical_path
        ],
        "path": outcome.path,
        "devices": devices,
        "certificate": {
            "alone": outcome.alone,
            "fillings": outcome.fillings,
            "certified": outcome.certified,
            "holds": True,
        },
        "simulated_s": outcome.simulated_s,
    }


def report(outcome: Outcome, machine: Machine) -> str:
    """The numbers, for people."""
    from ..units import show_bytes, show_time

    schedule, ranks = outcome.schedule, len(outcome.network.devices)
    bound = outcome.lower_bound_s
    size = f" · {show_bytes(outcome.nbytes)}" if outcome.nbytes else ""
    on = f"{ranks} rank{'s' if ranks != 1 else ''} of {machine.name}"
    lines = [
        f"{schedule.collective} · {schedule}{size} on {on}",
        *([f"  faults       {outcome.faults.in_words()}"] if outcome.faults else []),
        "",
        f"  time         {show_time(outcome.time_s)}"
        + (f"   ({outcome.time_s / bound:.2f} × the lower bound of this machine, {show_time(bound)})" if bound else ""),
    ]
    if outcome.busbw:
        lines.append(f"  bandwidth    {outcome.algbw:.4g} GB/s algbw, {outcome.busbw:.4g} GB/s busbw")
    parts = [("where it goes", outcome.breakdown().items()), ("phases", outcome.phases())]
    for title, pairs in parts:
        lines += ["", f"  {title}"]
        shown = list(pairs)
        for name, seconds in shown[:8]:
            share = seconds / outcome.time_s if outcome.time_s else 0.0
            lines.append(f"    {name:<22}{show_time(seconds):>10}  {share:>6.1%}  {'█' * round(30 * share)}")
        if len(shown) > 8:
            rest = sum(seconds for _, seconds in shown[8:])
            lines.append(f"    {f'… {len(shown) - 8} more':<22}{show_time(rest):>10}")
    busy = outcome.links()
    if busy:
        lines += ["", f"  links         busiest of {len(busy)}; the bottleneck is {busy[0][0]}"]
        width = max(len(name) for name, _, _ in busy[:5])
        lines += [f"    {name:<{width}}  {show_bytes(nbytes):>10}  {share:>6.1%}" for name, nbytes, share in busy[:5]]
    idle, ways = outcome.idle_ways()
    if idle and bound and outcome.time_s > 2 * bound:
        lines.append(f"    {idle} of {ways} ways out of the nodes carry nothing: try hierarchical, or another --order")
    lines += ["", f"  simulated in {show_time(outcome.simulated_s)} ({outcome.messages} messages, {_how(outcome)})"]
    return "\n".join(lines)


def _how(outcome: Outcome) -> str:
    if outcome.path == "lockstep":
        return "all ranks alike, so each kind of step once"
    return "event by event"
