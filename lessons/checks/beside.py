"""A learner's ring beside the backend's own collective, on the GPUs that are here or on the CPU: no verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from ..answer import Answer
from ..bounds import Bounds
from ..catalogue import Catalogue
from ..said import Said, Shown
from .measurement import table
from .shows import Shows

ROUNDS = 5
MOST = 8  # ranks
SECONDS = {"gloo": 25.0, "nccl": 60.0}  # for all of it; connections between GPUs take seconds to make


@dataclass(frozen=True)
class Line:
    """One size. Seconds of the ring, of the backend and of the bare transfers; ratios within rounds: ring / backend,
    backend / backend."""

    bytes: int
    ring: float
    native: float
    wire: float
    ratio: float
    null: float


@dataclass(frozen=True)
class Probed:
    """What rank 0 found. yours: whether the ring is the learner's. launch: seconds before the first byte, once a
    collective; alpha: of a step; beta, gamma: a byte sent and a byte added."""

    yours: bool
    launch: float
    alpha: float
    beta: float
    gamma: float
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Beside(Shows):
    """sizes: bytes of the all-reduces, over gloo and over NCCL. ranks: over gloo; of GPUs all, up to ``MOST``."""

    sizes: tuple[int, ...] = (1 << 16, 1 << 20, 1 << 22)
    gpu_sizes: tuple[int, ...] = (1 << 16, 1 << 22, 1 << 28)
    ranks: int = 4

    def bounds(self, usual: Bounds) -> Bounds:
        """CUDA takes gigabytes of a process before anything runs."""
        gpus = min(MOST, len(list(Path("/dev").glob("nvidia[0-9]*"))))
        if gpus < 2:
            return usual
        return replace(usual, quiet=90.0, memory=usual.memory + gpus * (4 << 30), data=64 << 30, threads=1200)

    def measure(self, answer: Answer, say: Catalogue) -> Iterator[Said | Shown]:
        import torch

        from collectives import launch
        from collectives.bench.settings import cores

        gpus = torch.cuda.device_count()
        backend = "nccl" if gpus > 1 else "gloo"
        ranks = min(gpus, MOST) if gpus > 1 else self.ranks if cores() > 1 else 2
        sizes = self.gpu_sizes if gpus > 1 else self.sizes
        shared = gpus < 2 and 2 * ranks > cores()
        yield Said("gpu_day.shown.begins", {"ranks": ranks, "backend": backend})
        found = launch.run(_contest, ranks, sizes, backend=backend, timeout=SECONDS[backend], grace=0.5, batch=shared)[
            0
        ]
        rows = [self._row(answer, found, line, ranks) for line in found.lines]
        columns = ("size", "predicted", "yours" if found.yours else "ring", "native")
        head = [say(f"gpu_day.column.{name}") for name in (*columns, "ratio", "null", "of_wire", "busbw", "faster")]
        fields = {"ranks": ranks, "backend": backend, "rounds": ROUNDS, **_constants(found)}
        notes = [Said("gpu_day.shown.native")]
        if gpus < 2:
            notes.append(Said("gpu_day.shown.no_gpus"))
        yield Shown(
            Said("gpu_day.shown.yours" if found.yours else "gpu_day.shown.library", fields),
            table([head, *rows]),
            tuple(notes),
            {"ranks": ranks, "backend": backend, **asdict(found)},
        )

    def _row(self, answer: Answer, found: Probed, line: Line, ranks: int) -> list[str]:
        from sim.units import show_bytes

        module = answer.module
        once = (found.launch, found.alpha, found.beta, found.gamma, 1, True)
        return [
            show_bytes(line.bytes),
            *map(_time, (module.ring_on_nccl(ranks, line.bytes, *once), line.ring, line.native)),
            f"{line.ratio:.2f}",
            f"{line.null:.2f}",
            f"{module.of_wire(line.ring * 1e6, line.wire * 1e6):.2f}",
            f"{module.busbw(ranks, line.bytes, line.ring * 1e6):.3g}",
            str(module.is_faster("native", line.ratio, line.null)),
        ]


def _constants(found: Probed) -> dict[str, str]:
    return {
        "launch": _time(found.launch),
        "alpha": _time(found.alpha),
        "beta": f"{1e-9 / found.beta:.3g} GB/s" if found.beta > 0 else "-",
        "gamma": f"{1e-9 / found.gamma:.3g} GB/s" if found.gamma > 0 else "-",
    }


def _time(seconds: float) -> str:
    """With the three digits that a measurement is good for."""
    from sim.units import show_time

    return show_time(float(f"{seconds:.3g}"))


# In a rank.


def _contest(sizes: Sequence[int]) -> Probed:
    """Probe the wire and the adder, then let all take turns on the same tensor."""
    import torch
    import torch.distributed as dist

    import collectives
    from collectives.bench.expectation import expect
    from collectives.bench.measure import Stopwatch
    from collectives.bench.order import Seat
    from collectives.bench.probe import probes_of
    from collectives.bench.wire import wire
    from collectives.cost import LOOPBACK

    from ..finished import finished

    ranks, on_gpu = dist.get_world_size(), dist.get_backend() == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    library, found = collectives.find("all_reduce", "ring"), finished("all_reduce")
    ring = found if isinstance(found, collectives.Schedule) else collectives.Schedule("all_reduce", found)
    watch, lines = Stopwatch(device, blocking=False), list[Line]()
    with collectives.captured():  # on NCCL: replayed from a graph, so the host launches once
        probes = probes_of(ranks, None, device, [Seat("here", "")] * ranks)
        machine = expect(probes, watch.shared_once, LOOPBACK, ranks).machine
        for nbytes in sizes:
            tensor = torch.zeros(nbytes // 4, device=device)
            bare = wire("all_reduce", tensor[: nbytes // 4 // ranks], None)
            assert bare
            native = partial(dist.all_reduce, tensor)
            own = partial(collectives.all_reduce, tensor, algorithm=ring)
            calls: list[Callable[[], object]] = [own, native, bare, native]
            iterations = watch.iterations(calls, warmup=2, wanted=None)
            ours, first, moved, again = watch.rounds(calls, iterations, ROUNDS, lambda: None)
            times = (ours.typical, first.typical, moved.typical)
            lines.append(Line(nbytes, *times, ours.over(first), again.over(first)))
    alpha = machine.alpha + machine.overhead
    return Probed(found not in library.programs, machine.base, alpha, machine.beta, machine.gamma, tuple(lines))
