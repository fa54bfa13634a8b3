"""Formulas held against this machine: messages are timed and fitted, then a ring beside gloo's own. No verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..answer import Answer, describe
from ..catalogue import Catalogue
from ..said import Said, Shown
from .measurement import Measurement, table

if TYPE_CHECKING:
    from torch import Tensor

ROUNDS = 5
SECONDS = 10.0  # for each of the two measurements, which take two or less on two idle cores
FAR = 2.0  # a factor between prediction and measurement that asks for a word


@dataclass(frozen=True)
class Row:
    """One size: seconds by the learner's model, of our executor with the ring, and of gloo; busbw in GB/s of either."""

    bytes: int
    predicted: float
    measured: float
    gloo: float
    busbw: float
    gloo_busbw: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


@dataclass(frozen=True)
class Measured(Measurement):
    """What ``fit``, ``ring_time`` and ``bus_bandwidth`` of the learner's file say of this machine.

    messages: bytes of single messages; buffers: of the all-reduces. ranks: of the ring, where there are two cores.
    """

    messages: tuple[int, ...] = (1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
    buffers: tuple[int, ...] = (1 << 16, 1 << 20, 1 << 23)
    ranks: int = 4

    def shown(self, answer: Answer, say: Catalogue, ranks: tuple[int, ...] = ()) -> Iterator[Said | Shown]:
        from collectives.bench.settings import cores
        from collectives.launch import RankFailed, RankTimeout

        try:
            yield from self._shown(answer, say, max(ranks) if ranks else self.ranks if cores() > 1 else 2, cores())
        except RankTimeout as error:
            yield Shown(Said("measured.late", {"seconds": f"{error.timeout:g}"}))
        except RankFailed as error:
            yield Shown(Said("measured.failed", {"error": str(error).splitlines()[0]}))
        except Exception as error:
            yield Shown(Said("measured.failed", {"error": describe(error)}))

    def _shown(self, answer: Answer, say: Catalogue, ranks: int, cores: int) -> Iterator[Said | Shown]:
        yield Said("measured.messages_at", {"ranks": 2})
        times: list[float] = _run(time_messages, 2, cores, self.messages)
        points = tuple(zip(self.messages, times, strict=True))
        alpha, beta = (float(one) for one in answer.module.fit(points))
        yield _message(points, alpha, beta, say)
        yield Said("measured.ring_at", {"ranks": ranks})
        yours, pairs = _run(_time_ring, ranks, cores, self.buffers)
        rows = [
            Row(
                nbytes,
                float(answer.module.ring_time(ranks, nbytes, alpha, beta)),
                ring,
                gloo,
                *(float(answer.module.bus_bandwidth(ranks, nbytes, seconds)) for seconds in (ring, gloo)),
            )
            for nbytes, (ring, gloo) in zip(self.buffers, pairs, strict=True)
        ]
        numbers = {"ranks": ranks, "cores": cores, "ring": "yours" if yours else "library"}
        yield Shown(
            Said("measured.yours" if yours else "measured.library", {"ranks": ranks, "cores": cores}),
            _ring_table(rows, yours, say),
            tuple(_why_far(rows, alpha, ranks, cores)),
            numbers | {"sizes": [asdict(row) | {"ratio": row.ratio} for row in rows]},
        )


def _run(function: Callable[..., Any], ranks: int, cores: int, sizes: Sequence[int]) -> Any:
    """What rank 0 measured; scheduled as the benchmark's ranks are."""
    from collectives import launch

    return launch.run(function, ranks, sizes, timeout=SECONDS, grace=0.5, batch=2 * ranks > cores)[0]


# In a rank.


def time_messages(sizes: Sequence[int]) -> list[float]:
    """Seconds of one message of each size between ranks 0 and 1; the sizes take turns."""
    import torch
    import torch.distributed as dist

    calls = [partial(_there_and_back, torch.zeros(nbytes, dtype=torch.uint8), dist.get_rank()) for nbytes in sizes]
    return [seconds / 2 for seconds in _medians(calls)]


def _there_and_back(tensor: Tensor, rank: int) -> None:
    import torch.distributed as dist

    for sender in (0, 1):
        if rank == sender:
            dist.send(tensor, 1 - rank)
        else:
            dist.recv(tensor, 1 - rank)


def _time_ring(sizes: Sequence[int]) -> tuple[bool, list[tuple[float, float]]]:
    """Whether the ring is the learner's, and for each size the seconds of it and of gloo's own, which take turns."""
    import torch
    import torch.distributed as dist

    import collectives

    from ..finished import finished

    (library,), found = collectives.find("all_reduce", "ring").programs, finished("all_reduce")
    ring = collectives.Schedule("all_reduce", found)
    pairs = []
    for nbytes in sizes:
        tensor = torch.zeros(nbytes // 4)
        calls = [partial(collectives.all_reduce, tensor, algorithm=ring), partial(dist.all_reduce, tensor)]
        ours, gloo = _medians(calls)
        pairs.append((ours, gloo))
    return found is not library, pairs


def _medians(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of each call, as the benchmark takes them."""
    import torch

    from collectives.bench.measure import Stopwatch

    watch = Stopwatch(torch.device("cpu"), blocking=False)
    iterations = watch.iterations(calls, warmup=2, wanted=None)
    return [timing.typical for timing in watch.rounds(calls, iterations, ROUNDS, lambda: None)]


# What there is to say.


def _message(points: Sequence[tuple[int, float]], alpha: float, beta: float, say: Catalogue) -> Shown:
    head = [say(f"measured.column.{name}") for name in ("message", "measured", "line")]
    rows = [[_bytes(nbytes), _time(seconds), _time(alpha + nbytes * beta)] for nbytes, seconds in points]
    fields = {
        "ranks": 2,
        "rounds": ROUNDS,
        "alpha": _time(alpha),
        "beta": f"{beta * 1e9:.3g} ns",
        "bandwidth": f"{1 / beta / 1e9:.3g} GB/s" if beta > 0 else "-",
    }
    return Shown(
        Said("measured.message", fields),
        table([head, *rows]),
        (Said("measured.below_zero"),) if alpha <= 0 or beta <= 0 else (),
        {
            "ranks": 2,
            "points": [{"bytes": nbytes, "seconds": seconds} for nbytes, seconds in points],
            "alpha": alpha,
            "beta": beta,
        },
    )


def _ring_table(rows: Sequence[Row], yours: bool, say: Catalogue) -> tuple[str, ...]:
    ring = "yours" if yours else "library"
    head = [say(f"measured.column.{name}") for name in ("size", "predicted", ring, "gloo", "busbw", "ratio")]
    lines = [
        [_bytes(row.bytes), *times, f"{row.busbw:.3g} GB/s", f"{row.ratio:.2f}"]
        for row in rows
        for times in [map(_time, (row.predicted, row.measured, row.gloo))]
    ]
    return table([head, *lines])


def _why_far(rows: Sequence[Row], alpha: float, ranks: int, cores: int) -> Iterator[Said]:
    """What explains a prediction that is far off; a fit that makes no sense has been spoken of already."""
    if any(row.predicted <= 0 for row in rows) or alpha <= 0:
        return
    low = [_bytes(row.bytes) for row in rows if row.ratio < 1 / FAR]
    high = [_bytes(row.bytes) for row in rows if row.ratio > FAR]
    if low:
        fields = {"sizes": low, "ranks": ranks, "cores": cores}
        yield Said("measured.cpu_is_the_wire", fields) if ranks > cores else Said("measured.left_out", fields)
    if high:
        yield Said("measured.too_high", {"sizes": high})


def _bytes(nbytes: int) -> str:
    from sim.units import show_bytes

    return show_bytes(nbytes)


def _time(seconds: float) -> str:
    """With the three digits that a measurement is good for."""
    from sim.units import show_time

    return show_time(float(f"{seconds:.3g}"))
