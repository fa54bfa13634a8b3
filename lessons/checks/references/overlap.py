"""The formulas of lesson 9: buckets, the clock of a backward pass that sends them, and a trace of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypedDict

from collectives.span import Span
from parallel.buckets import assign
from parallel.overlap import overlap
from sim.data_parallel import bucketed

from ..reference import Reference, same_lists

Buckets: TypeAlias = list[list[int]]
Numbers: TypeAlias = Sequence[float]


class Event(TypedDict):
    """Of a trace; times in microseconds."""

    name: str
    cat: str
    ts: float
    dur: float


def _buckets(sizes: Sequence[int], cap: int) -> Buckets:
    return assign(sizes, [0] * len(sizes), cap)


def _forward(sizes: Sequence[int], cap: int) -> Buckets:
    last = len(sizes) - 1
    return [[last - index for index in bucket] for bucket in _buckets(sizes[::-1], cap)]


def _closing(full: Callable[[int, int, int], bool]) -> Callable[[Sequence[int], int], Buckets]:
    """Buckets that are closed behind a parameter. full: of its bytes with it, its own bytes, and the cap."""

    def found(sizes: Sequence[int], cap: int) -> Buckets:
        buckets: Buckets = [[]]
        for index in reversed(range(len(sizes))):
            buckets[-1].append(index)
            if full(sum(sizes[one] for one in buckets[-1]), sizes[index], cap):
                buckets.append([])
        return [bucket for bucket in buckets if bucket]

    return found


def _strict(sizes: Sequence[int], cap: int) -> Buckets:
    return assign(sizes, [0] * len(sizes), cap - 0.5)


def _anywhere(sizes: Sequence[int], cap: int) -> Buckets:
    """Into the first bucket that has room."""
    buckets: Buckets = []
    for index in reversed(range(len(sizes))):
        room = (one for one in buckets if sum(sizes[i] for i in one) + sizes[index] <= cap)
        found = next(room, None)
        if found is None:
            buckets.append([index])
        else:
            found.append(index)
    return buckets


def _empty_first(sizes: Sequence[int], cap: int) -> Buckets:
    """A bucket is closed before a parameter that does not fit, even if nothing is in it yet."""
    buckets: Buckets = [[]]
    for index in reversed(range(len(sizes))):
        if sum(sizes[one] for one in buckets[-1]) + sizes[index] > cap:
            buckets.append([])
        buckets[-1].append(index)
    return buckets if sizes else []


def _uncounted(sizes: Sequence[int], cap: int) -> Buckets:
    """The parameter that opens a bucket takes none of its room."""
    buckets: Buckets = []
    room = 0
    for index in reversed(range(len(sizes))):
        if buckets and sizes[index] <= room:
            buckets[-1].append(index)
            room -= sizes[index]
        else:
            buckets.append([index])
            room = cap
    return buckets


_SIZES = (
    ((4, 4, 4, 4, 4), 8),
    ((10, 2, 3, 8, 1), 8),
    ((2, 6, 3, 6, 2), 8),
    ((9, 1, 1, 9, 1), 4),
    ((1, 2, 1), 0),
    ((3, 9), 8),
    ((7,), 100),
    ((1, 2, 3, 4, 5, 6), 10),
)


def _finish(seconds: Numbers, sizes: Sequence[int], cap: int, alpha: float, beta: float) -> float:
    return max(span.end for span in bucketed(seconds, sizes, cap, lambda nbytes: alpha + beta * nbytes))


def _clock(
    ready: Callable[[Numbers, list[int]], float] = lambda seconds, bucket: sum(seconds[bucket[-1] :]),
    start: Callable[[float, float], float] = max,
    begin: Callable[[Numbers], float] = lambda seconds: 0.0,
    cost: Callable[[float, float, float], float] = lambda nbytes, alpha, beta: alpha + beta * nbytes,
    made: Callable[[Sequence[int], int], Buckets] = _buckets,
) -> Callable[..., float]:
    """The recurrence with a mistake in it. start: of a bucket, from when the link is free and when it is ready."""

    def finish(seconds: Numbers, sizes: Sequence[int], cap: int, alpha: float, beta: float) -> float:
        free = begin(seconds)
        for bucket in made(sizes, cap):
            nbytes = sum(sizes[index] for index in bucket)
            free = start(free, ready(seconds, bucket)) + cost(nbytes, alpha, beta)
        return free

    return finish


def _unqueued(seconds: Numbers, sizes: Sequence[int], cap: int, alpha: float, beta: float) -> float:
    """Every bucket has a link of its own."""
    made = _buckets(sizes, cap)
    return max(sum(seconds[one[-1] :]) + alpha + beta * sum(sizes[index] for index in one) for one in made)


def _larger(seconds: Numbers, sizes: Sequence[int], cap: int, alpha: float, beta: float) -> float:
    return max(sum(seconds), alpha * len(_buckets(sizes, cap)) + beta * sum(sizes))


def _last_only(seconds: Numbers, sizes: Sequence[int], cap: int, alpha: float, beta: float) -> float:
    return sum(seconds) + alpha + beta * sum(sizes[index] for index in _buckets(sizes, cap)[-1])


_PASSES = (
    ((1.0, 1.0, 1.0, 1.0), (4, 4, 4, 4), 8, 0.5, 0.25),
    ((3.0, 0.0, 2.0, 1.0), (10, 2, 3, 8), 8, 0.1, 0.05),
    ((1.0, 2.0, 3.0), (100, 50, 60), 60, 1.0, 0.125),
    ((0.5, 4.0, 0.5, 2.0, 1.0), (8, 1, 8, 1, 2), 9, 0.0, 0.5),
    ((5.0, 1.0), (3, 3), 0, 2.0, 1.0),
    ((2.0, 1.5, 4.0, 1.0), (6, 5, 4, 3), 100, 0.25, 0.1),
    ((1.0,), (7,), 8, 0.5, 0.25),
    ((0.5, 1.0, 3.0), (1, 2, 40), 8, 0.5, 0.25),
)
_CAPS = (0, 4, 8, 16, 64)
_SEARCHES = (
    ((1.0, 1.0, 1.0, 1.0, 1.0, 1.0), (4, 4, 4, 4, 4, 4), _CAPS, 1.5, 0.1),
    ((3.0, 1.0, 2.0, 1.0), (10, 2, 3, 8), _CAPS, 4.0, 0.05),
    ((1.0, 6.0, 1.0, 6.0, 1.0), (8, 1, 8, 1, 2), _CAPS, 0.125, 0.5),
    ((2.0, 1.0, 2.0, 1.0, 2.0, 1.0), (2, 2, 2, 2, 2, 2), (64, 16, 8, 4, 0), 2.5, 0.25),
    ((0.25, 4.0, 4.0, 1.0, 1.0, 1.0, 1.0), (1, 1, 8, 3, 3, 3, 3), _CAPS, 1.75, 0.25),
    ((2.0, 1.0, 1.0, 2.0), (4, 4, 4, 4), (16, 4, 0, 8), 0.0, 0.5),
)


def _best(finish: Callable[..., float]) -> Callable[..., int]:
    def best(seconds: Numbers, sizes: Sequence[int], caps: Sequence[int], alpha: float, beta: float) -> int:
        return min(caps, key=lambda cap: finish(seconds, sizes, cap, alpha, beta))

    return best


def _worst(seconds: Numbers, sizes: Sequence[int], caps: Sequence[int], alpha: float, beta: float) -> int:
    return max(caps, key=lambda cap: _finish(seconds, sizes, cap, alpha, beta))


def _time(seconds: Numbers, sizes: Sequence[int], caps: Sequence[int], alpha: float, beta: float) -> float:
    return min(_finish(seconds, sizes, cap, alpha, beta) for cap in caps)


def _place(seconds: Numbers, sizes: Sequence[int], caps: Sequence[int], alpha: float, beta: float) -> int:
    return list(caps).index(_best(_finish)(seconds, sizes, caps, alpha, beta))


def _op(name: str, ts: float, dur: float, cat: str = "kernel") -> Event:
    return Event(name=name, cat=cat, ts=ts, dur=dur)


def _sent(ts: float, dur: float) -> list[Event]:
    """An all-reduce in a trace of PyTorch: what launched it, on the CPU, and its kernel."""
    return [_op("nccl:all_reduce", ts - 3, 2, "cpu_op"), _op("ncclDevKernel_AllReduce_Sum_f32_RING_LL", ts, dur)]


_TRACES: tuple[tuple[list[Event]], ...] = (
    ([_op("gemm", 0, 10), *_sent(4, 4)],),
    ([_op("gemm", 0, 10), *_sent(6, 8)],),
    ([_op("gemm", 0, 4), _op("gelu", 8, 4), *_sent(2, 8), *_sent(11, 5)],),
    ([*_sent(20, 6), _op("gemm", 0, 10), _op("aten::mm", 1, 1, "cpu_op"), *_sent(5, 7)],),
    ([_op("gemm", 0, 5), _op("gelu", 5, 5), *_sent(3, 4), *_sent(12, 12)],),
)


def _kernels(events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """Those of NCCL, and the others."""
    kernels = [one for one in events if one["cat"] == "kernel"]
    sent = [one for one in kernels if "nccl" in one["name"]]
    return sent, [one for one in kernels if one not in sent]


def _spans(sent: Sequence[Event], computed: Sequence[Event]) -> tuple[float, float]:
    """Seconds under way, and of them hidden."""
    spans = [Span(0, "compute", "backward", one["ts"], one["ts"] + one["dur"]) for one in computed]
    spans += [Span(0, "nccl", "all_reduce", one["ts"], one["ts"] + one["dur"], link="nccl") for one in sent]
    return overlap(spans)


def _hidden(events: Sequence[Event]) -> float:
    under_way, both = _spans(*_kernels(events))
    return both / under_way


def _with_launches(events: Sequence[Event]) -> float:
    """CPU events are taken for kernels."""
    sent = [one for one in events if "nccl" in one["name"]]
    computed = [one for one in events if "nccl" not in one["name"]]
    both = sum(_shared(one, other) for one in sent for other in computed)
    return both / sum(one["dur"] for one in sent)


def _shared(one: Event, other: Event) -> float:
    return max(0.0, min(one["ts"] + one["dur"], other["ts"] + other["dur"]) - max(one["ts"], other["ts"]))


def _negative(events: Sequence[Event]) -> float:
    """Two intervals that do not meet take something off."""
    sent, computed = _kernels(events)
    ends = [(min(a["ts"] + a["dur"], b["ts"] + b["dur"]), max(a["ts"], b["ts"])) for a in sent for b in computed]
    return sum(end - start for end, start in ends) / sum(one["dur"] for one in sent)


def _gapless(events: Sequence[Event]) -> float:
    sent, computed = _kernels(events)
    first, last = min(one["ts"] for one in computed), max(one["ts"] + one["dur"] for one in computed)
    return sum(_shared(one, _op("", first, last - first)) for one in sent) / sum(one["dur"] for one in sent)


def _of_computing(events: Sequence[Event]) -> float:
    sent, computed = _kernels(events)
    return _spans(sent, computed)[1] / sum(one["dur"] for one in computed)


def _of_all(events: Sequence[Event]) -> float:
    ends = [one["ts"] + one["dur"] for one in events]
    return _spans(*_kernels(events))[1] / (max(ends) - min(one["ts"] for one in events))


def _counted(whole: bool) -> Callable[[Sequence[Event]], float]:
    """The share of all-reduces, by number: those that are hidden as a whole, or at all."""

    def share(events: Sequence[Event]) -> float:
        sent, computed = _kernels(events)
        under = [sum(_shared(one, other) for other in computed) for one in sent]
        return sum(both >= one["dur"] if whole else both > 0 for one, both in zip(sent, under, strict=True)) / len(sent)

    return share


def _whole_only(events: Sequence[Event]) -> float:
    """Time of those that lie within one kernel from beginning to end."""
    sent, computed = _kernels(events)
    inside = [one for one in sent if any(_shared(one, other) >= one["dur"] for other in computed)]
    return sum(one["dur"] for one in inside) / sum(one["dur"] for one in sent)


def _begun(events: Sequence[Event]) -> float:
    """Time of those that begin while something computes, all of it."""
    sent, computed = _kernels(events)
    begun = [one for one in sent if any(other["ts"] <= one["ts"] < other["ts"] + other["dur"] for other in computed)]
    return sum(one["dur"] for one in begun) / sum(one["dur"] for one in sent)


OVERLAP: Mapping[str, Reference] = {
    "buckets": Reference(
        examples=_SIZES,
        answer=_buckets,
        kind="list",
        same=same_lists,
        mistakes={
            "data_parallel.buckets.forward": _forward,
            "data_parallel.buckets.overfull": _closing(lambda held, own, cap: held >= cap),
            "data_parallel.buckets.past": _closing(lambda held, own, cap: held > cap),
            "data_parallel.buckets.uncounted": _uncounted,
            "data_parallel.buckets.strict": _strict,
            "data_parallel.buckets.anywhere": _anywhere,
            "data_parallel.buckets.empty": _empty_first,
            "data_parallel.buckets.tail": lambda sizes, cap: _buckets(sizes, cap)[:-1],
            "data_parallel.buckets.upwards": lambda sizes, cap: [sorted(one) for one in _buckets(sizes, cap)],
            "data_parallel.buckets.backwards": lambda sizes, cap: _buckets(sizes, cap)[::-1],
            "data_parallel.buckets.both_ways": lambda sizes, cap: [one[::-1] for one in _buckets(sizes, cap)][::-1],
            "data_parallel.buckets.bytes": lambda sizes, cap: [[sizes[i] for i in b] for b in _buckets(sizes, cap)],
            "data_parallel.buckets.each": lambda sizes, cap: _buckets(sizes, 0),
        },
    ),
    "finish_time": Reference(
        examples=_PASSES,
        answer=_finish,
        mistakes={
            "data_parallel.finish_time.after": _clock(begin=lambda seconds: sum(seconds)),
            "data_parallel.finish_time.at_once": lambda seconds, sizes, cap, a, b: sum(seconds) + a + b * sum(sizes),
            "data_parallel.finish_time.unqueued": _unqueued,
            "data_parallel.finish_time.larger": _larger,
            "data_parallel.finish_time.last_only": _last_only,
            "data_parallel.finish_time.first_ready": _clock(ready=lambda seconds, bucket: sum(seconds[bucket[0] :])),
            "data_parallel.finish_time.forward": _clock(ready=lambda seconds, bucket: sum(seconds[: bucket[-1] + 1])),
            "data_parallel.finish_time.without_last": _clock(ready=lambda s, bucket: sum(s[bucket[-1] + 1 :])),
            "data_parallel.finish_time.own_only": _clock(ready=lambda s, bucket: sum(s[index] for index in bucket)),
            "data_parallel.finish_time.added": _clock(start=lambda free, ready: free + ready),
            "data_parallel.finish_time.earlier": _clock(start=min),
            "data_parallel.finish_time.no_alpha": _clock(cost=lambda nbytes, alpha, beta: beta * nbytes),
            "data_parallel.finish_time.no_beta": _clock(cost=lambda nbytes, alpha, beta: alpha),
            "data_parallel.finish_time.each_alone": _clock(made=lambda sizes, cap: _buckets(sizes, 0)),
        },
    ),
    "best_cap": Reference(
        examples=_SEARCHES,
        answer=_best(_finish),
        mistakes={
            "data_parallel.best_cap.worst": _worst,
            "data_parallel.best_cap.time": _time,
            "data_parallel.best_cap.place": _place,
            "data_parallel.best_cap.largest": lambda seconds, sizes, caps, a, b: max(caps),
            "data_parallel.best_cap.smallest": lambda seconds, sizes, caps, a, b: min(caps),
        },
    ),
    "hidden": Reference(
        examples=_TRACES,
        answer=_hidden,
        mistakes={
            "data_parallel.hidden.launches": _with_launches,
            "data_parallel.hidden.gapless": _gapless,
            "data_parallel.hidden.negative": _negative,
            "data_parallel.hidden.of_computing": _of_computing,
            "data_parallel.hidden.of_all": _of_all,
            "data_parallel.hidden.exposed": lambda events: 1 - _hidden(events),
            "data_parallel.hidden.seconds": lambda events: _spans(*_kernels(events))[1],
            "data_parallel.hidden.percent": lambda events: 100 * _hidden(events),
            "data_parallel.hidden.whole": _counted(whole=True),
            "data_parallel.hidden.any": _counted(whole=False),
            "data_parallel.hidden.whole_only": _whole_only,
            "data_parallel.hidden.begun": _begun,
        },
    ),
}
