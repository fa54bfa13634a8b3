"""All ranks of a collective on a clock and a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .engine import Engine
from .faults import Faults
from .flows import Flow, Flows
from .graph import Network
from .machine import Costs
from .reading import Step


class Message(NamedTuple):
    """What a flow is about. ``since``: when both ends were there; ``last``: the process that came last, and its step."""

    sender: int
    receiver: int
    source: int
    to: int
    channel: int
    chunks: int
    since: float
    last: int
    step: int


class Run:
    """The steps of every (channel, rank), a *process* numbered ``channel · size + rank``.

    Args:
        programs: the steps of every process.
        share: bytes of a chunk.

    After :meth:`run`, ``ended[p][i]`` is the message with which step i of process p ended, ``begun[p][i]`` when it
    began (its last entry: when the process was over).

    Raises:
        ValueError: a message that nobody takes: the schedule is wrong.
    """

    def __init__(
        self, programs: Sequence[Sequence[Step]], network: Network, share: float, costs: Costs, faults: Faults
    ) -> None:
        self.engine = Engine()
        self.flows = Flows(self.engine, network.capacity, self._done)
        self.programs, self.network, self.share, self.costs = programs, network, share, costs
        self.size = len(network.devices)
        self._slower = [faults.straggler.get(rank, 1.0) for rank in range(self.size)]
        self._jitter, self._random = faults.jitter, faults.delays()
        self.ended: list[list[Flow]] = [[] for _ in programs]
        self.begun: list[list[float]] = [[] for _ in programs]
        self._pending = [0] * len(programs)
        self._posted: dict[tuple[int, int], tuple[int, int]] = {}  # (sender, receiver) → (position, chunks) of one end
        self._adder_free = [0.0] * self.size
        self._latency: dict[tuple[int, ...], float] = {}
        self._cores = tuple(i for i, name in enumerate(network.names) if costs.cores and name == "in->out")
        self.messages = 0

    def run(self) -> float:
        """Seconds until the last rank is over."""
        for process in range(len(self.programs)):
            self.engine.call(0.0, self._enter, process)
        self.engine.run()
        stuck = [p for p, steps in enumerate(self.programs) if len(self.ended[p]) < len(steps)]
        if stuck:
            channel, rank = divmod(stuck[0], self.size)
            raise ValueError(
                f"rank {rank} waits for ever at step {len(self.ended[stuck[0]])} of channel {channel}: the schedule is "
                "wrong; python -m collectives prove says how"
            )
        return max(begun[-1] for begun in self.begun)

    def _enter(self, process: int) -> None:
        """Put up the ends of the messages of the process's next step."""
        begun = self.begun[process]
        index = len(begun)
        begun.append(self.engine.now)
        steps = self.programs[process]
        if index == len(steps):
            return
        sends, receives, _ = steps[index]
        self._pending[process] = len(sends) + len(receives)
        base = process - process % self.size
        posted = self._posted
        for position, (to, chunks) in enumerate(sends):
            receiver = base + to
            if posted.pop((process, receiver), None) is None:
                posted[process, receiver] = position, chunks
            else:
                self._send(process, receiver, position, chunks, process, index)
        for source in receives:
            sender = base + source
            other = posted.pop((sender, process), None)
            if other is None:
                posted[sender, process] = -1, 0
            else:
                self._send(sender, process, other[0], other[1], process, index)

    def _send(self, sender: int, receiver: int, position: int, chunks: int, last: int, step: int) -> None:
        size = self.size
        channel, source = divmod(sender, size)
        to = receiver % size
        route = self.network.route(source, to, channel)
        delay = self._latency.get(route)
        if delay is None:
            delay = self._latency[route] = sum([self.network.latency[link] for link in route])
        nbytes = chunks * self.share
        if self.costs.overhead:
            overhead = self.costs.overhead * self._slower[source]
            if self._cores:
                nbytes += overhead * self._core_speed(source)
            else:
                delay += overhead * (1 + position)
        if self._random is not None:
            alone = delay + nbytes / min([self.network.capacity[link] for link in route])
            delay += self._random.expovariate(1.0) * self._jitter * alone
        self.messages += 1
        about = Message(sender, receiver, source, to, channel, chunks, self.engine.now, last, step)
        self.flows.send(route, nbytes, delay, about)

    def _core_speed(self, rank: int) -> float:
        """Bytes that a core copies in a second: work for a core is counted in them."""
        return self.network.port([rank])[0]

    def _done(self, flow: Flow) -> None:
        if flow.about is None:  # an addition on shared cores
            return
        pending = self._pending
        for process in flow.about[:2]:
            pending[process] -= 1
            if not pending[process]:
                self._step_over(process, flow)

    def _step_over(self, process: int, flow: Flow) -> None:
        ended = self.ended[process]
        reduced = self.programs[process][len(ended)].reduced
        ended.append(flow)
        gamma = self.costs.gamma
        if not (reduced and gamma):
            self._enter(process)
            return
        rank, now = process % self.size, self.engine.now
        adding = reduced * self.share * gamma * self._slower[rank]
        begin = max(now, self._adder_free[rank])
        self._adder_free[rank] = begin + adding
        self.engine.call(begin + adding - now, self._enter, process)
