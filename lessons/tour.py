"""Lesson 0: one algorithm, six looks at it, in a minute. A part that cannot work here says so, and the tour goes on."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .browser import has_browser
from .lines import BOLD, colour, columns, pad, wrap
from .refusal import Refusal
from .workspace import State, Workspace

if TYPE_CHECKING:
    from collectives.bench.report import Row
    from sim.collective import Outcome
    from sim.machine import Machine

RANKS = 4
SIZES = (4 << 10, 128 << 10, 4 << 20)  # from each to the next by the same factor
REPLAYED, MACHINE = 64 << 20, "dgx-h100"
SECONDS = 30.0  # for the ranks of a part
PAGE = "tour.html"


@dataclass
class Tour:
    """What a part leaves for later ones. show: open the animation in a browser."""

    workspace: Workspace
    show: bool = False
    predicted: dict[int, float] = field(default_factory=dict)

    def tell(self, id: str, **fields: object) -> None:
        print("\n".join(wrap(self.workspace.say(f"tour.{id}", **fields), columns())), flush=True)


def take(workspace: Workspace, show: bool = False) -> int:
    """The whole tour; afterwards lesson 0 is done."""
    workspace.need_own_folder()
    tour, began = Tour(workspace, show), time.monotonic()
    tour.tell("welcome")
    try:
        workspace.open()
        with workspace.progress.change():  # at once: who leaves half-way will not be taken round again
            workspace.progress.current = workspace.progress.current or "tour"
            workspace.progress.lesson("tour").setdefault("state", State.STARTED)
    except Refusal as refusal:
        print("\n".join(wrap(workspace.say.say(refusal.said), columns())))
    for number, part in enumerate(PARTS, 1):
        print()
        title = workspace.say(f"tour.{part.__name__}.title")
        print(colour(workspace.say("tour.part", number=number, all=len(PARTS), title=title), BOLD), flush=True)
        try:
            part(tour)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            tour.tell("failed", reason=reason, command=workspace.command("doctor"))
    print()
    tour.tell("end", seconds=round(time.monotonic() - began))
    done(workspace)
    return 0


def done(workspace: Workspace) -> None:
    """Lesson 0 counts as done, and the way on is said."""
    from .commands.resume import after
    from .progress import now

    with contextlib.suppress(Refusal), workspace.progress.change():
        record = workspace.progress.lesson("tour")
        record["state"] = State.PASSED
        record["passed"] = {"when": now()}
    print()
    command = after(workspace, workspace.current)
    workspace.suggest(*([command] if command else []), ("tour.list", ("list",)))


def run(tour: Tour) -> None:
    """Four real processes, each with numbers of its own, before and after."""
    from collectives import launch

    say, came = tour.workspace.say, launch.run(all_reduce, RANKS, timeout=SECONDS)
    rows = [["", say("tour.run.before"), say("tour.run.after")]]
    for rank in range(RANKS):
        before, after = (" ".join(f"{number:>4}" for number in row) for row in (numbers(rank), came[rank]))
        rows.append([say("tour.run.rank", rank=rank), before, after])
    table(rows)
    tour.tell("run.why")
    again(tour, "start 0", "tour.run.again", "lessons")


def numbers(rank: int) -> list[int]:
    """1 2 3 4 on rank 0, 10 20 30 40 on rank 1, …: in a sum every digit is one rank's."""
    return [(position + 1) * 10**rank for position in range(RANKS)]


def all_reduce() -> list[int]:
    """On a rank."""
    import torch
    import torch.distributed as dist

    import collectives

    tensor = torch.tensor(numbers(dist.get_rank()))
    collectives.all_reduce(tensor, algorithm="ring")
    return [int(number) for number in tensor]


def steps(tour: Tour) -> None:
    """Who holds what at the start, after a step, half-way and at the end."""
    from rich.text import Text

    from collectives.commands.showing import draw
    from collectives.registry import find
    from collectives.schedule import Send

    from .figures.markup import show_words
    from .text import beside

    ring, say = find("all_reduce", "ring"), tour.workspace.say
    circle, rank = [0], 0
    while len(circle) <= RANKS:
        rank = next(one.to for one in next(ring.steps(rank, RANKS)) if isinstance(one, Send))
        circle.append(rank)
    tour.tell("steps.what", circle=" → ".join(map(str, circle)))
    blocks: list[list[Text]] = []
    for line in draw(ring, RANKS, show_words(say)):
        if line.startswith("\n"):
            blocks.append([])
        if blocks:
            blocks[-1].append(Text.from_markup(line.lstrip("\n")))
    shown = [blocks[number] for number in (0, 1, RANKS - 1, len(blocks) - 1)]
    print()
    for text in beside(shown, columns()):
        print(text.plain)
    print()
    tour.tell("steps.why")
    again(tour, "show ring --ranks 4", "tour.steps.again")


def proof(tour: Tour) -> None:
    """Right for every number of ranks tried, without running it."""
    from collectives.proof import prove
    from collectives.registry import find

    ring, most = find("all_reduce", "ring"), 16
    began = time.perf_counter()
    proofs = {size: prove(ring, size) for size in range(1, most + 1)}
    milliseconds = round((time.perf_counter() - began) * 1e3)
    four = proofs[RANKS]
    fields = {"most": most, "milliseconds": milliseconds, "steps": four.steps, "ranks": RANKS}
    tour.tell("proof.what", **fields, sent=str(max(four.sent.values())))
    again(tour, "prove --algorithm ring --ranks 1-33", "tour.proof.again")


def predict(tour: Tour) -> None:
    """How long it takes, here and on a machine that is not here."""
    from collectives.commands.doctor import cores
    from collectives.cost import LOOPBACK
    from collectives.cost import predict as cost
    from collectives.registry import find
    from sim.presets import find_machine
    from sim.units import show_bytes, show_time

    ring, here, far = find("all_reduce", "ring"), replace(LOOPBACK, cores=cores()), find_machine(MACHINE)
    tour.predicted = {nbytes: cost(ring, RANKS, nbytes, here) for nbytes in SIZES}
    tour.tell("predict.what")
    rows = [[tour.workspace.say(f"tour.predict.{name}") for name in ("size", "here", "dgx")]]
    for nbytes, seconds in tour.predicted.items():
        rows.append([show_bytes(nbytes), *(show_time(rounded(t)) for t in (seconds, simulated(far, nbytes).time_s))])
    table(rows)
    tour.tell("predict.why")
    again(tour, f"collective --ranks 4 --size 4M --machine {MACHINE}", "tour.predict.again", "sim")


def simulated(machine: Machine, nbytes: int, events: bool = False) -> Outcome:
    """The ring on a machine of the simulator."""
    from collectives.registry import find
    from sim.collective import simulate

    return simulate(find("all_reduce", "ring"), machine.network(ranks=RANKS), nbytes, machine.costs, events=events)


def animation(tour: Tour) -> None:
    """The same run as a page that plays."""
    import webbrowser

    from collectives.atomic import write_text
    from sim.collective_replay import replay
    from sim.commands.outcome import facts
    from sim.draw.html import html
    from sim.presets import find_machine
    from sim.units import show_bytes

    from .figures.markup import words_of

    machine, path = find_machine(MACHINE), tour.workspace.folder / PAGE
    outcome = simulated(machine, REPLAYED, events=True)
    write_text(path, html(replay(outcome, facts(outcome, machine), words_of(tour.workspace.say))))
    file = tour.workspace.shown(path)
    tour.tell("animation.what", file=file, size=show_bytes(REPLAYED))
    if tour.show:
        opened = has_browser() and sys.stdout.isatty() and webbrowser.open(path.as_uri())
        tour.tell("animation.opened" if opened else "animation.not_opened", file=file)
    again(tour, f"collective --ranks 4 --machine {MACHINE} --html ring.html", "tour.animation.again", "sim")


def measure(tour: Tour) -> None:
    """Ours beside the backend's own, timed on four processes here."""
    from sim.units import show_bytes, show_time

    tour.tell("measure.what")
    rows = [[tour.workspace.say(f"tour.measure.{name}") for name in ("size", "predicted", "ours", "native", "ratio")]]
    for row in benchmark():
        times = (tour.predicted.get(row.bytes), row.time_us * 1e-6, row.native_time_us and row.native_time_us * 1e-6)
        shown = ["-" if seconds is None else show_time(rounded(seconds)) for seconds in times]
        rows.append([show_bytes(row.bytes), *shown, "-" if row.ratio is None else f"{row.ratio:.2f}"])
    table(rows)
    tour.tell("measure.why")
    again(tour, "bench", "tour.measure.again")


def benchmark() -> list[Row]:
    """The rows of ``collectives bench`` for a few sizes, in about five seconds."""
    from collectives import launch
    from collectives.bench.settings import settings_of
    from collectives.commands import bench

    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    sizes = ["-b", str(SIZES[0]), "-e", str(SIZES[-1]), "-f", str(SIZES[1] // SIZES[0])]
    args = parser.parse_args(["--ranks", str(RANKS), "--backend", "gloo", "--algorithm", "ring", *sizes])
    settings = settings_of(args, None, None, first=True)
    return launch.run(quietly, RANKS, settings, timeout=SECONDS, batch=settings.batch)[0]


def quietly(settings: object) -> list[Row]:
    """On a rank: the benchmark without its printing."""
    from collectives.bench.session import run
    from collectives.bench.settings import Settings

    assert isinstance(settings, Settings)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run(settings, "gloo").rows


PARTS: tuple[Callable[[Tour], None], ...] = (run, steps, proof, predict, animation, measure)


def again(tour: Tour, words: str, id: str, package: str = "collectives") -> None:
    """The command that repeats what was shown, and what it is for."""
    command = f"  python -m {package} {words}"
    print("\n".join(wrap(tour.workspace.say(id), columns())))
    print(colour(command, BOLD), flush=True)


def table(rows: Sequence[Sequence[str]]) -> None:
    """Aligned to the right, but for the first column; the first row is the heading; no frame."""
    from rich.cells import cell_len

    widths = [max(cell_len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print()
    for line in rows:
        first, *others = line
        right = (" " * (width - cell_len(cell)) + cell for cell, width in zip(others, widths[1:], strict=True))
        print("   ".join(["", pad(first, widths[0]), *right]).rstrip())
    print(flush=True)


def rounded(seconds: float) -> float:
    """To two digits: neither the model nor a measurement here is better than that."""
    return float(f"{seconds:.2g}")
