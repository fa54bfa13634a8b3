"""A collective as a trace for SimGrid, so that anyone can confirm its time with a simulator that is not this one.

SMPI, the MPI of SimGrid, replays *time-independent traces*, which say what a rank does and not when. A step becomes::

    0 irecv 3 0 250 6      from rank 3, tag 0, 250 elements of type 6, which is MPI_BYTE
    0 isend 1 0 250 6
    0 waitall              the step is over
    0 compute 312500       additions (γ); a flop takes 1 ns

The k-th message from a to b has tag k. Beside the trace go the platform (hosts are ranks, every link one-way, a route
for each pair that sends), the hosts and the list of traces. O(messages).

SimGrid differs in two things. SMPI adds an envelope of 16 bytes to every message. And flows with different latencies
that share a link get shares by 1/latency, while here shares are equal.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

from collectives.atomic import check_writable, write_text
from collectives.messages import chunks_of

from .collective import Outcome
from .faults import Faults
from .graph import Network
from .reading import Step, read

BYTE = 6  # SMPI's number of MPI_BYTE
ENVELOPE = 16  # bytes that SMPI adds to a message
LARGEST = 2**31 - 1  # bytes: SMPI counts them in an int
SPEED = 1e9  # flop/s of a host, so that a flop is a nanosecond
FILES = ("", ".xml", ".hosts", ".list")  # what is added to the name of the trace
SETTINGS = (
    "network/model:CM02",  # no correction factors
    "network/crosstraffic:0",
    "network/TCP-gamma:0",  # no TCP window
    "network/optim:Full",  # the lazy solver lets more through a link than it can carry
    "smpi/async-small-thresh:0",  # rendezvous for all sizes
    "smpi/send-is-detached-thresh:0",
    "smpi/os:0:0:0",
    "smpi/or:0:0:0",
    "smpi/ois:0:0:0",
    "smpi/host-speed:1Gf",
    "smpi/display-timing:yes",
)


def check(path: str) -> None:
    """Refuse a place for the files before any work is done.

    Raises:
        ValueError: a file cannot be written, or smpirun could not read its name.
    """
    if any(letter.isspace() for letter in path):
        raise ValueError(f"--smpi {path!r}: smpirun takes no spaces in names; choose another")
    for suffix in FILES:
        check_writable("--smpi", path + suffix)


def export(path: str | os.PathLike[str], outcome: Outcome, faults: Faults | None = None) -> str:
    """Write the trace to ``path``, the rest beside it, and say how SimGrid replays it and what to expect.

    Raises:
        ValueError: what a trace cannot say: several channels, parts of bytes, a message of 2 GiB, overheads, jitter.
    """
    faults = faults or Faults()
    name, network = os.fspath(path), outcome.network
    size = len(network.devices)
    share = _share(outcome, faults)
    programs = read(outcome.schedule, size, 0)
    texts = ("\n".join(trace(programs, share, outcome, faults)), "\n".join(platform(network, programs)))
    hosts = "\n".join(f"rank{rank}" for rank in range(size))
    for suffix, text in zip(FILES, (*texts, hosts, name), strict=True):
        write_text(name + suffix, text + "\n")
    settings = " ".join(f"--cfg={setting}" for setting in SETTINGS)
    xml, listed, traced = (shlex.quote(name + suffix) for suffix in FILES[1:])
    note = [
        f"# wrote {name}, and beside it {', '.join(FILES[1:])}; to replay it with SimGrid, in this folder:",
        f"smpirun -platform {xml} -hostfile {listed} -np {size} -replay {traced} {settings}",
        f"# it should say {outcome.time_s:.6g} s (base and γ are in the trace), or a little more: SMPI lengthens every "
        f"message by {ENVELOPE} bytes",
    ]
    if meeting := _meeting(network, programs):
        note.append(
            f"# its time may differ more: routes with different latencies share {meeting}, where it favours the shorter"
        )
    return "\n".join(note)


def _share(outcome: Outcome, faults: Faults) -> int:
    """Bytes of a chunk.

    Raises:
        ValueError: as :func:`export`, but for a message of 2 GiB.
    """
    schedule, costs = outcome.schedule, outcome.costs
    if schedule.channels > 1:
        raise ValueError(
            f"--smpi: {schedule} has {schedule.channels} channels side by side, but a trace is one sequence a rank; "
            "use one channel"
        )
    if faults.jitter:
        raise ValueError("--smpi: a trace has no jitter; leave out --jitter")
    if costs.overhead or (costs.cores and costs.gamma):
        raise ValueError(
            "--smpi: a trace has no overhead and no additions on shared cores; add overhead=0,gamma=0 to the machine"
        )
    if schedule.collective == "barrier":
        return 0
    chunks = chunks_of(schedule, len(outcome.network.devices))
    if outcome.nbytes % chunks:
        raise ValueError(
            f"--smpi: {outcome.nbytes} bytes in {chunks} chunks are no whole bytes a chunk; give a multiple, like "
            f"--size {max(1, int(outcome.nbytes // chunks)) * chunks}"
        )
    return int(outcome.nbytes // chunks)


def trace(programs: list[list[Step]], share: int, outcome: Outcome, faults: Faults) -> Iterator[str]:
    """The lines of the trace, rank by rank.

    Raises:
        ValueError: a message of 2 GiB or more.
    """
    sizes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rank, steps in enumerate(programs):
        for step in steps:
            for to, chunks in step.sends:
                sizes[rank, to].append(chunks * share)
    longest = max((max(of_pair) for of_pair in sizes.values()), default=0)
    if longest > LARGEST:
        raise ValueError(f"--smpi: a message of {longest} bytes is longer than SMPI's {LARGEST}; give a smaller --size")
    costs = outcome.costs
    for rank, steps in enumerate(programs):
        sent: Counter[int] = Counter()
        received: Counter[int] = Counter()
        second = share * costs.gamma * faults.straggler.get(rank, 1.0)  # of adding a chunk
        yield f"{rank} init"
        if costs.base:
            yield f"{rank} compute {costs.base * SPEED!r}"
        for step in steps:
            for source in step.receives:
                tag = received[source]
                yield f"{rank} irecv {source} {tag} {sizes[source, rank][tag]} {BYTE}"
                received[source] += 1
            for to, chunks in step.sends:
                yield f"{rank} isend {to} {sent[to]} {chunks * share} {BYTE}"
                sent[to] += 1
            yield f"{rank} waitall"
            if step.reduced and second:
                yield f"{rank} compute {step.reduced * second * SPEED!r}"
        yield f"{rank} finalize"


def platform(network: Network, programs: list[list[Step]]) -> Iterator[str]:
    """The lines of the XML: a host a rank, a link a direction, a route for each pair that sends."""
    yield '<?xml version="1.0"?>'
    yield '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    yield '<platform version="4.1">'
    yield '<zone id="machine" routing="Full">'
    for rank, device in enumerate(network.devices):
        yield f'<host id="rank{rank}" speed="{SPEED}f"><prop id="device" value={quoteattr(device)}/></host>'
    names = [quoteattr(name) for name in network.names]
    for name, bandwidth, latency in zip(names, network.capacity, network.latency, strict=True):
        yield f'<link id={name} bandwidth="{bandwidth!r}Bps" latency="{latency!r}s"/>'
    for source, to in _pairs(programs):
        links = "".join(f"<link_ctn id={names[link]}/>" for link in network.route(source, to))
        yield f'<route src="rank{source}" dst="rank{to}" symmetrical="NO">{links}</route>'
    yield "</zone>"
    yield "</platform>"


def _pairs(programs: list[list[Step]]) -> list[tuple[int, int]]:
    """Who sends to whom."""
    return sorted({(rank, to) for rank, steps in enumerate(programs) for step in steps for to, _ in step.sends})


def _meeting(network: Network, programs: list[list[Step]]) -> str:
    """A link on which routes with different latencies meet, or nothing."""
    seen: dict[int, float] = {}
    for source, to in _pairs(programs):
        route = network.route(source, to)
        latency = sum(network.latency[link] for link in route)
        for link in route:
            if abs(seen.setdefault(link, latency) - latency) > 1e-9 * latency:
                return network.names[link]
    return ""
