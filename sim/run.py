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


class Pair(NamedTuple):
    """Two processes with messages from one to the other: the route between their ranks, and its latency in seconds."""

    sender: int
    receiver: int
    channel: int
    source: int
    to: int
    route: tuple[int, ...]
    latency: float


class Message(Flow):
    """``chunks`` from process to process. ``since``: when both ends were there; ``last`` came last, in its ``step``."""

    __slots__ = ("chunks", "last", "pair", "since", "step")

    def __init__(self, pair: Pair, size: float, chunks: int, since: float, last: int, step: int) -> None:
        self.route, self.size, self.left = pair.route, size, size
        self.began = self.ends = self.updated = self.rate = 0.0
        self.pair, self.chunks, self.since, self.last, self.step = pair, chunks, since, last, step

    @property
    def source(self) -> int:
        return self.pair.source

    @property
    def to(self) -> int:
        return self.pair.to

    @property
    def channel(self) -> int:
        return self.pair.channel


class Addition(Flow):
    """What a process adds up where ranks share cores: as if it copied so many bytes."""

    __slots__ = ("process",)
    process: int


class Run:
    """The steps of every (channel, rank), a *process* numbered ``channel · size + rank``.

    Args:
        programs: the steps of every process.
        share: bytes of a chunk.
        record: keep what the links carried when.

    After :meth:`run`, ``finished`` are the messages in the order in which they ended, ``ended[p][i]`` is the
    message with which step i of process p ended, ``begun[p][i]`` when it began (last: when the process was over).

    Raises:
        ValueError: a message that nobody takes: the schedule is wrong.
    """

    def __init__(
        self,
        programs: Sequence[Sequence[Step]],
        network: Network,
        share: float,
        costs: Costs,
        faults: Faults,
        record: bool = False,
    ) -> None:
        self.engine = Engine()
        self.flows = Flows(self.engine, network.capacity, self._done)
        self.flows.changes = [] if record else None
        self.programs, self.network, self.share, self.costs = programs, network, share, costs
        self.size = len(network.devices)
        self._slower = [faults.straggler.get(rank, 1.0) for rank in range(self.size)]
        self._jitter, self._random = faults.jitter, faults.delays()
        self.ended: list[list[Message]] = [[] for _ in programs]
        self.begun: list[list[float]] = [[] for _ in programs]
        self._pending = [0] * len(programs)
        self._posted: dict[tuple[int, int], tuple[int, int]] = {}  # (sender, receiver) → (position, chunks) of one end
        self._adder_free = [0.0] * self.size
        self._pairs: dict[tuple[int, int], Pair] = {}
        self.finished: list[Message] = []

    @property
    def messages(self) -> int:
        return len(self.finished)

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
        pair = self._pairs.get((sender, receiver)) or self._new_pair(sender, receiver)
        nbytes, delay = chunks * self.share, pair.latency
        if self.costs.overhead:
            overhead = self.costs.overhead * self._slower[pair.source]
            if self.costs.cores:
                nbytes += overhead * self._core_speed(pair.source)
            else:
                delay += overhead * (1 + position)
        if self._random is not None:
            alone = delay + nbytes / min([self.network.capacity[link] for link in pair.route])
            delay += self._random.expovariate(1.0) * self._jitter * alone
        self.flows.send(Message(pair, nbytes, chunks, self.engine.now, last, step), delay)

    def _new_pair(self, sender: int, receiver: int) -> Pair:
        (channel, source), to = divmod(sender, self.size), receiver % self.size
        route = self.network.route(source, to, channel)
        latency = sum(self.network.latency[link] for link in route)
        pair = self._pairs[sender, receiver] = Pair(sender, receiver, channel, source, to, route, latency)
        return pair

    def _core_speed(self, rank: int) -> float:
        """Bytes that a core copies in a second: work for a core is counted in them."""
        return self.network.port([rank])[0]

    def _done(self, flow: Flow) -> None:
        if isinstance(flow, Addition):
            self._enter(flow.process)
            return
        assert isinstance(flow, Message)
        self.finished.append(flow)
        pending = self._pending
        for process in flow.pair[:2]:
            pending[process] -= 1
            if not pending[process]:
                self._step_over(process, flow)

    def _step_over(self, process: int, flow: Message) -> None:
        ended = self.ended[process]
        reduced = self.programs[process][len(ended)].reduced
        ended.append(flow)
        gamma = self.costs.gamma
        if not (reduced and gamma):
            self._enter(process)
            return
        rank, now = process % self.size, self.engine.now
        adding = reduced * self.share * gamma * self._slower[rank]
        if self.costs.cores:  # as if the rank copied so many bytes to its neighbour
            route = self.network.route(rank, (rank + 1) % self.size)[:2]
            addition = Addition(route, adding * self._core_speed(rank))
            addition.process = process
            self.flows.send(addition, 0.0)
            return
        begin = max(now, self._adder_free[rank])
        self._adder_free[rank] = begin + adding
        self.engine.call(begin + adding - now, self._enter, process)
