"""Times of the simulator, for BENCHMARKS.md: ``python benchmarks/simulator.py`` (SimPy beside it, if it is installed).

Each row is the median of several runs in one process, imports outside; rows against SimPy are interleaved.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from collectives.registry import find
from parallel.pipeline.schedules import find as find_pipeline
from sim.collective import simulate
from sim.engine import Engine, Resource
from sim.pipeline import simulate as simulate_pipeline
from sim.presets import find_machine

RAILS = "rails,local=8,nvlink=450,nic=50,latency=1us/5us"
TREE = "fat-tree,local=8,nvlink=450,nic=50,latency=1us/5us,leaf=32,oversubscription=2,routing=random"


def ours(processes: int, events: int) -> float:
    engine = Engine()

    def ticking(delay: float) -> Iterator[float]:
        for _ in range(events // processes):
            yield delay

    for i in range(processes):
        engine.start(ticking(1.0 + i * 1e-4))  # type: ignore[arg-type]
    return timed(engine.run)


def simpys(processes: int, events: int) -> float:
    import simpy

    environment = simpy.Environment()

    def ticking(delay: float) -> Iterator[Any]:
        for _ in range(events // processes):
            yield environment.timeout(delay)

    for i in range(processes):
        environment.process(ticking(1.0 + i * 1e-4))
    return timed(environment.run)


def our_queue(processes: int, events: int) -> float:
    engine = Engine()
    resource = Resource(engine, 3)

    def using() -> Iterator[Any]:
        for _ in range(events // processes // 3):
            yield resource.take()
            yield 1.0
            resource.give()

    for _ in range(processes):
        engine.start(using())  # type: ignore[arg-type]
    return timed(engine.run)


def simpys_queue(processes: int, events: int) -> float:
    import simpy

    environment = simpy.Environment()
    resource = simpy.Resource(environment, 3)

    def using() -> Iterator[Any]:
        for _ in range(events // processes // 3):
            with resource.request() as place:
                yield place
                yield environment.timeout(1.0)

    for _ in range(processes):
        environment.process(using())
    return timed(environment.run)


def timed(job: Callable[[], Any]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def collective(algorithm: str, machine: str, events: bool = False, **how: int) -> Callable[[], float]:
    """``simulated_s`` of an all-reduce of 1 GB; the network is built outside."""
    chosen = find_machine(machine)
    network, schedule = chosen.network(**how), find("all_reduce", algorithm)
    return lambda: simulate(schedule, network, 1e9, chosen.costs, events=events).simulated_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    rows: list[tuple[str, Callable[[], float]]] = [
        ("ring, 512 ranks, --topology ring", collective("ring", "ring", ranks=512)),
        ("ring, 1,024 ranks, --topology ring", collective("ring", "ring", ranks=1024)),
        ("ring, 16,384 ranks, --topology ring", collective("ring", "ring", ranks=16384)),
        ("ring, 512 ranks, event by event", collective("ring", "ring", True, ranks=512)),
        ("hierarchical, 128 × 8, rails", collective("hierarchical:local=8", RAILS, nodes=128)),
        ("hierarchical, 128 × 8, rails, event by event", collective("hierarchical:local=8", RAILS, True, nodes=128)),
        ("hierarchical, 128 × 8, 2:1 fat tree, random ECMP", collective("hierarchical:local=8", TREE, nodes=128)),
        ("pipeline 1f1b, 64 × 512", lambda: timed(lambda: simulate_pipeline(find_pipeline("1f1b"), 64, 512))),
    ]
    for name, run in rows:
        seconds = sorted(run() for _ in range(repeat))
        print(f"{name:<52}{statistics.median(seconds):>9.3f} s  ({seconds[0]:.3f} to {seconds[-1]:.3f})", flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    try:
        import simpy  # noqa: F401
    except ImportError:
        print("SimPy is not installed: pip install simpy")
        return
    for name, one, other in (
        ("1 M timeouts, 1 process", lambda: ours(1, 1_000_000), lambda: simpys(1, 1_000_000)),
        ("1 M timeouts, 1,000 processes", lambda: ours(1000, 1_000_000), lambda: simpys(1000, 1_000_000)),
        ("1 M resource events", lambda: our_queue(100, 1_000_000), lambda: simpys_queue(100, 1_000_000)),
    ):
        pairs = [(one(), other()) for _ in range(repeat)]
        mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{name:<40}{1 / mine:>7.2f} M events/s, SimPy {1 / theirs:.2f}: {ratio:.2f} times as fast", flush=True)


if __name__ == "__main__":
    main()
