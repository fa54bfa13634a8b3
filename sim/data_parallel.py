"""One step of data parallel on a clock: by threads, by processes, and with buckets under the backward pass. No torch.

    threads      device 0   s s r r ┤ forward ├ g g l l ┤ backward ├ a a ┤ update ├   s scatter   r replicate
                 device 1   s   r   ┤ forward ├ g   l ┤ backward ├   a                g gather    l loss, its gradient
                 device 2     s   r ┤ forward ├   g   l ┤ backward ├   a              a gradients are added up
    processes    rank 0     ┤ forward ├ backward ├ all-reduce ┤ update ├               all ranks alike
    buckets      backward   │ p5 p4 │ p3 p2 │ p1 p0 │
                 link               ├─ 0 ─┤ ├─── 1 ───┤├─ 2 ─┤

Device 0 sends and receives one message at a time, as in the α–β model; a bucket leaves when its last gradient is there
and the link is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectives.cost import Machine, predict
from collectives.registry import find
from collectives.span import Span
from parallel.buckets import assign
from parallel.formulas import thread_exchanges

_BACK = ("gather", "gradients")  # what device 0 receives; the rest it sends


@dataclass(frozen=True)
class Step:
    """What a step consists of.

    model: bytes of the parameters, and of their gradients. inputs, outputs: bytes of the whole batch's. forward,
    backward: seconds of one replica, on its share of the batch. update: seconds of the optimizer.
    """

    model: float
    inputs: float
    outputs: float
    forward: float
    backward: float
    update: float


def threads(step: Step, replicas: int, link: Machine) -> list[Span]:
    """The step of replicas in threads: everything passes through device 0. Stream ``device``; ranks are devices."""
    moved = thread_exchanges(step.model, step.model, step.inputs, step.outputs, replicas)  # type: ignore[arg-type]
    spans: list[Span] = []

    def exchange(name: str, begin: float) -> list[float]:
        """When each device has its part behind it: device 0 when all are through."""
        nbytes = moved[name] / max(replicas - 1, 1)
        ends = [begin + peer * (link.alpha + nbytes * link.beta) for peer in range(replicas)]
        for peer in range(1, replicas):
            verbs = ("recv", "send") if name in _BACK else ("send", "recv")
            for device, verb, other in ((0, verbs[0], peer), (peer, verbs[1], 0)):
                way = f"{device}->{other}" if verb == "send" else f"{other}->{device}"
                times = ends[peer - 1], ends[peer]
                spans.append(Span(device, "device", f"{verb} {name}", *times, round(nbytes), way))
        return [ends[-1], *ends[1:]]

    def compute(name: str, begins: Sequence[float], seconds: float) -> float:
        spans.extend(Span(device, "device", name, begin, begin + seconds) for device, begin in enumerate(begins))
        return max(begins) + seconds

    ready = exchange("replicate", exchange("scatter", 0.0)[0])[0]
    done = compute("forward", [ready] * replicas, step.forward)
    begins = exchange("loss", exchange("gather", done)[0])
    done = compute("backward", begins, step.backward)
    compute("optimizer", [exchange("gradients", done)[0]], step.update)
    return spans


def processes(step: Step, ranks: int, link: Machine) -> list[Span]:
    """The step of a process a rank: one ring all-reduce, after the backward pass. Stream ``device``."""
    reduced = predict(find("all_reduce", "ring"), ranks, step.model, link) if ranks > 1 else 0.0
    names = ("forward", "backward", "all_reduce", "optimizer")
    spans = []
    for rank in range(ranks):
        now = 0.0
        for name, seconds in zip(names, (step.forward, step.backward, reduced, step.update), strict=True):
            spans.append(Span(rank, "device", name, now, now + seconds, round(step.model) * (name == "all_reduce")))
            now += seconds
    return spans


def bucketed(seconds: Sequence[float], sizes: Sequence[int], limit: float, cost: Callable[[int], float]) -> list[Span]:
    """The backward pass of one rank (stream ``backward``) and its buckets' all-reduces (``link``).

    Args:
        seconds: of each parameter's part of the backward pass, in the order of the forward pass, as ``sizes``.
        sizes: bytes of each parameter's gradient.
        limit: bytes of a bucket (:func:`parallel.buckets.assign`).
        cost: seconds of the all-reduce of so many bytes.
    """
    spans, now, ready = [], 0.0, [0.0] * len(sizes)
    for index in reversed(range(len(sizes))):
        spans.append(Span(0, "backward", f"backward {index}", now, now + seconds[index]))
        now = ready[index] = now + seconds[index]
    free = 0.0
    for number, bucket in enumerate(assign(sizes, [0] * len(sizes), limit)):
        nbytes = sum(sizes[index] for index in bucket)
        start = max(free, ready[bucket[-1]])
        free = start + cost(nbytes)
        spans.append(Span(0, "link", f"all_reduce {number}", start, free, nbytes, "ring"))
    return spans
