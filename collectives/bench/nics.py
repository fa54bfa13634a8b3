"""What each NIC has to carry in a collective over several hosts. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..cost import Machine
from ..messages import chunks_of, unroll
from ..schedule import Schedule
from .order import Seat, follow_each_other, ranks_by_host


def with_nics(machine: Machine, seats: Sequence[Seat], far_alpha: float, far_beta: float) -> Machine:
    """The machine with these ranks' hosts, and NICs between them; as it is where there is nothing between, or
    a host's ranks do not follow each other, which the model does not know.

    Args:
        seats: of all ranks; those of a host use its interfaces equally, neighbours the same.
        far_alpha, far_beta: of a message from NIC to NIC.
    """
    hosts = ranks_by_host(seats)
    if len(hosts) == 1 or not follow_each_other(hosts):
        return machine
    nics = len({seats[rank].interface for rank in hosts[0]})
    return replace(machine, local=len(hosts[0]), nics=nics, far_alpha=far_alpha, far_beta=far_beta)


def sent_by_nics(schedule: Schedule, size: int, nbytes: float, machine: Machine) -> dict[int, float]:
    """Bytes that each NIC sends to other hosts; O(operations).

    Args:
        nbytes: the whole buffer, as for ``cost.predict``.
    """
    share = nbytes / schedule.channels / chunks_of(schedule, size)
    sent = {machine.nic(rank): 0.0 for rank in range(size)} if machine.local else {}
    for rank in range(size):
        for channel in range(schedule.channels):
            for step in unroll(schedule, rank, size, channel):
                away = sum(len(places) for to, places in step.sends.items() if machine.is_far(rank, to))
                if away:
                    sent[machine.nic(rank)] += away * share
    return sent


def said_of_nics(schedule: Schedule, size: int, nbytes: float, machine: Machine, seconds: float) -> str:
    """What the busiest NIC sends, and how much of the expected ``seconds`` that takes; empty on one host."""
    sent = sent_by_nics(schedule, size, nbytes, machine)
    if not sent:
        return ""
    most = max(sent.values())
    share = 100 * most * machine.far_beta / seconds
    return f"; the busiest of {len(sent)} NICs sends {most:.0f} bytes, {share:.0f} % of that time"
