"""How long the contenders take: interleaved in rounds, in one run, on the same tensors.

A round times one block of iterations of every contender, after one that is not timed; the order rotates from round to
round, and every other round is in reverse, so that neither drift of the machine nor a place in the order, nor what ran
before, favours one. Ratios are taken within a round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist

Call = Callable[[], object]

BLOCK_SECONDS = 0.04
MOST_ITERATIONS = 200


@dataclass(frozen=True)
class Timing:
    """One contender, over all ranks.

    seconds: of an operation, one a round; cpu: CPU seconds that a rank's process (all its threads) spent until its
    calls had returned, one a round: on CUDA the time to enqueue; operations: in blocking mode, every one.
    """

    seconds: list[float]
    cpu: list[float]
    operations: list[float]

    @property
    def typical(self) -> float:
        return median(self.seconds)

    @property
    def cpu_typical(self) -> float:
        return median(self.cpu)

    def over(self, other: Timing) -> float:
        """How many times as long as the other: the median of the rounds' ratios."""
        return median(mine / its for mine, its in zip(self.seconds, other.seconds, strict=True))

    def percentile(self, percent: float) -> float | None:
        """Of the operations (nearest rank); None in pipelined mode."""
        if not self.operations:
            return None
        ordered = sorted(self.operations)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


class Stopwatch:
    """Times blocks of iterations on every rank of the default group, and puts the ranks' times together.

    Args:
        blocking: a barrier before every operation, each timed alone; its time is that of the slowest rank. Otherwise a
            barrier, the operations back to back, and one wait for the device: time / n, the mean over the ranks.
    """

    def __init__(self, device: torch.device, blocking: bool) -> None:
        self.device, self.blocking = device, blocking

    def settle(self) -> None:
        """Wait until the device has done what was issued."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def line_up(self) -> None:
        """All ranks go on from here together."""
        self.settle()
        dist.barrier()
        self.settle()

    def once(self, call: Call) -> float:
        """Seconds of one operation on this rank."""
        self.line_up()
        began = time.perf_counter()
        call()
        self.settle()
        return time.perf_counter() - began

    def shared_once(self, call: Call) -> float:
        """Seconds of one operation, the mean over the ranks."""
        return self.summed(self.once(call)) / dist.get_world_size()

    def shared_enqueue(self, call: Call) -> float:
        """Seconds until a call has returned, whatever the device does then; the mean over the ranks."""
        self.line_up()
        began = time.perf_counter()
        call()
        return self.summed(time.perf_counter() - began) / dist.get_world_size()

    def summed(self, number: float) -> float:
        """A number of every rank, added up on all."""
        return self._shared([number], dist.ReduceOp.SUM)[0]

    def iterations(self, calls: Sequence[Call], warmup: int, wanted: int | None) -> list[int]:
        """Warm up; then how many iterations make a block of each, as rank 0 says.

        Args:
            warmup: calls of each, after a first one that is always made.
            wanted: this many; None for as many as take about ``BLOCK_SECONDS``.
        """
        estimates = []
        for call in calls:
            times = [self.once(call) for _ in range(1 + warmup)]
            estimates.append(min(times[1:] or times))
        if wanted is not None:
            return [wanted] * len(calls)
        counts = [max(2, min(MOST_ITERATIONS, round(BLOCK_SECONDS / seconds))) for seconds in estimates]
        return [int(count) for count in self._shared(counts, None)]

    def rounds(
        self, calls: Sequence[Call], iterations: Sequence[int], rounds: int, tick: Callable[[], None]
    ) -> list[Timing]:
        """Time all calls in every round; a collective operation.

        Args:
            tick: called after every round.
        """
        places = list(range(len(calls)))
        block = self._single if self.blocking else self._back_to_back
        seconds: list[list[float]] = [[] for _ in calls]
        cpu: list[list[float]] = [[] for _ in calls]
        for turn in range(rounds):
            start = turn % len(calls)
            order = places[start:] + places[:start]
            for i in order if turn % 2 == 0 else reversed(order):
                calls[i]()
                block(calls[i], iterations[i], seconds[i], cpu[i])
            tick()
        return [self._together(seconds[i], cpu[i], iterations[i], rounds) for i in places]

    def _back_to_back(self, call: Call, iterations: int, seconds: list[float], cpu: list[float]) -> None:
        self.line_up()
        worked, began = time.process_time(), time.perf_counter()
        for _ in range(iterations):
            call()
        worked = time.process_time() - worked  # before the wait, which on CUDA is a busy one
        self.settle()
        seconds.append((time.perf_counter() - began) / iterations)
        cpu.append(worked / iterations)

    def _single(self, call: Call, iterations: int, seconds: list[float], cpu: list[float]) -> None:
        total = 0.0
        for _ in range(iterations):
            self.line_up()
            worked, began = time.process_time(), time.perf_counter()
            call()
            total += time.process_time() - worked
            self.settle()
            seconds.append(time.perf_counter() - began)
        cpu.append(total / iterations)

    def _together(self, seconds: list[float], cpu: list[float], iterations: int, rounds: int) -> Timing:
        ranks = dist.get_world_size()
        shared_cpu = [total / ranks for total in self._shared(cpu, dist.ReduceOp.SUM)]
        if not self.blocking:
            return Timing([total / ranks for total in self._shared(seconds, dist.ReduceOp.SUM)], shared_cpu, [])
        slowest = self._shared(seconds, dist.ReduceOp.MAX)
        blocks = [slowest[turn * iterations : (turn + 1) * iterations] for turn in range(rounds)]
        return Timing([sum(block) / iterations for block in blocks], shared_cpu, slowest)

    def _shared(self, numbers: Sequence[float], op: object) -> list[float]:
        """Combined over the ranks; with no ``op``, rank 0's."""
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        if op is None:
            dist.broadcast(tensor, 0)
        else:
            dist.all_reduce(tensor, op)
        return [float(number) for number in tensor.tolist()]
