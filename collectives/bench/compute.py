"""A computation beside the collectives: the same product or copy again and again, in a thread and a stream of its own.

rank:     ├ mm ┤├ mm ┤├ mm ┤├ mm ┤├ mm ┤ …          how many a second, alone and beside a collective
          ├ all_reduce ┤├ all_reduce ┤ …             how long, alone and beside the product
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import torch

from .measure import Call, Stopwatch

ALONE_SECONDS = 0.2


class Compute:
    """One rank's computation; all ranks make theirs together.

    Args:
        kind: ``gemm``, a matrix product (4096 × 4096 bfloat16 on a GPU, 256 × 256 float32 on a CPU), or ``copy``
            (64 MiB, 4 MiB).

    Attributes:
        rate: operations a second, of the last time that it was ``running``.
    """

    def __init__(self, kind: str, watch: Stopwatch) -> None:
        self.device, self.rate, self._watch = watch.device, 0.0, watch
        self._step = _gemm(self.device) if kind == "gemm" else _copy(self.device)
        with self.running():  # what is set up at the first time is not counted
            time.sleep(ALONE_SECONDS / 4)
        watch.line_up()
        with self.running():
            time.sleep(ALONE_SECONDS)
        self._alone = watch.summed(self.rate)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While this lasts, it computes."""
        stop, done = threading.Event(), [0]
        thread = threading.Thread(target=self._work, args=(stop, done), name="compute", daemon=True)
        began = time.perf_counter()
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.rate = done[0] / (time.perf_counter() - began)

    def beside(
        self, calls: Mapping[str, Call], iters: int | None, rounds: int
    ) -> dict[str, tuple[float, float | None]]:
        """By name of the call: its seconds beside the computation, and how many times as long that takes beside it.

        One call after the other, not in turns: what the computation loses is to be known of each. None where it did
        not come to an end once.
        """
        found: dict[str, tuple[float, float | None]] = {}
        for name, call in calls.items():
            self._watch.line_up()
            with self.running():
                counts = self._watch.iterations([call], 0, iters)
                (timing,) = self._watch.rounds([call], counts, rounds, lambda: None)
            rate = self._watch.summed(self.rate)
            found[name] = timing.typical, self._alone / rate if rate else None
        return found

    def _work(self, stop: threading.Event, done: list[int]) -> None:
        torch.set_num_threads(1)  # a setting of the thread; a core a rank is what the collectives have, too
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        with torch.cuda.stream(stream), torch.inference_mode():
            while not stop.is_set():
                self._step()
                if stream is not None:
                    stream.synchronize()  # so that no queue is left when it stops
                done[0] += 1


def _gemm(device: torch.device) -> Callable[[], object]:
    size, dtype = (4096, torch.bfloat16) if device.type == "cuda" else (256, torch.float32)
    left, right, out = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


def _copy(device: torch.device) -> Callable[[], object]:
    source = torch.ones(64 << 20 if device.type == "cuda" else 4 << 20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
