"""``pipeline``: what a pipeline schedule takes, how much of it is waiting, what is held meanwhile."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..pipeline import PipelineRun, Times

HELP = "simulate a pipeline schedule: time, bubble, activations, pictures; or compare all at equal memory"
EXAMPLES = """examples:
  python -m sim pipeline --schedule 1f1b --stages 4 --microbatches 8
  python -m sim pipeline --schedule interleaved --chunks 4 --stages 8 --microbatches 32 --p2p 0.05
  python -m sim pipeline --compare all --stages 8 --microbatches 24
  python -m sim pipeline --compare 1f1b,zb-h2,interleaved --memory 16 --stages 8 --microbatches 64 --sync
  python -m sim pipeline --schedule zbv --stages 4 --microbatches 12 --html zbv.html
  python -m sim pipeline --schedule mine.py:program --stages 4 --microbatches 8

schedules: naive, gpipe, 1f1b, interleaved, looped, zb-h1, zb-h2, zbv, v-half, v-min, dualpipev. In the chart F is a
forward, B a backward, I and W its halves: the gradients of the input and of the weights. Times are of a whole stage; a
chunk takes its share. The bubble is what ranks wait between their own first start and last end.

exit status: 0, 1 if a schedule is wrong, 2 for a wrong argument"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ..draw import pictures

    add = parser.add_argument
    add("--schedule", default="1f1b", metavar="NAME", help="or FILE.py:name (default 1f1b)")
    add("--stages", "--ranks", type=int, default=4, metavar="P", help="ranks, one stage each (default 4)")
    add("--microbatches", type=int, default=8, metavar="M", help="of a training step (default 8)")
    add("--chunks", type=int, metavar="V", help="of the model, for each rank, where the schedule leaves it open")
    add(
        "--forward",
        default="1",
        metavar="T",
        help="of a stage and microbatch, like 1, 2.5ms or 300us (default 1 second)",
    )
    add("--backward", default="2", metavar="T", help="the whole of it (default 2)")
    add("--weight", metavar="T", help="the part of it that is the gradient of weights (default half)")
    add("--p2p", default="0", metavar="T", help="a transfer between ranks (default 0)")
    add("--overlap", choices=("sum", "max"), default="sum", help="what an overlapped pair takes (default sum: no gain)")
    add("--optimizer", default="0", metavar="T", help="the optimizer at the end (default 0)")
    add("--sync", action="store_true", help="ranks wait for each other before the optimizer, as for a gradient norm")
    add("--straggler", action="append", default=[], metavar="RANK=FACTOR", help="a rank that is so many times slower")
    add("--compare", metavar="LIST|all", help="rank these schedules; where chunks are open, with 2, 4, … V of them (8)")
    add("--memory", type=float, metavar="N", help="with --compare: microbatches that a rank can hold (default: 1f1b's)")
    add("--json", nargs="?", const="-", metavar="FILE", help="write everything (without FILE: to stdout)")
    pictures.add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from collectives.atomic import check_writable
    from collectives.errors import ScheduleError
    from parallel.pipeline.schedule import counted
    from parallel.pipeline.schedules import find

    from ..draw import pictures
    from ..pipeline import simulate
    from ..pipeline_replay import replay
    from .output import write_json

    try:
        if args.json and args.json != "-":
            check_writable("--json", args.json)
        pictures.check(args)
        times = times_of(args)
        if args.compare is not None:
            from .pipeline_comparison import compare

            return compare(args, times)
        if args.memory is not None:
            raise ValueError(f"--memory {args.memory:g}: it goes with --compare; add --compare all")
        schedule, chunks = find(args.schedule), args.chunks
        if chunks is not None and not schedule.flexible and chunks != schedule.chunks:
            held = counted(schedule.chunks, "chunk")
            print(f"note: a rank of {schedule.name} holds {held}; --chunks {chunks} is left out", file=sys.stderr)
            chunks = None
        run = simulate(schedule, args.stages, args.microbatches, chunks, times)
        if args.html or args.svg or args.trace:
            pictures.draw(args, replay(run))
    except ScheduleError as error:
        print(f"{args.compare or args.schedule} is wrong ({error.kind}): {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.json != "-":
        print(report(run))
    write_json(args.json, as_dict(run))
    return 0


def times_of(args: argparse.Namespace) -> Times:
    """The times that the arguments give.

    Raises:
        ValueError: a number that is none, or makes no sense.
    """
    from ..pipeline import Times
    from ..units import parse_time

    for option, number in (("--stages", args.stages), ("--microbatches", args.microbatches), ("--chunks", args.chunks)):
        if number is not None and number < 1:
            raise ValueError(f"{option} {number}: use a number from 1 on")
    stragglers: dict[int, float] = {}
    for text in args.straggler:
        rank, _, factor = text.partition("=")
        try:
            stragglers[int(rank)] = float(factor)
        except ValueError:
            raise ValueError(f"--straggler {text!r}: write RANK=FACTOR, like 2=1.5") from None
    return Times(
        parse_time(args.forward, "--forward"),
        parse_time(args.backward, "--backward"),
        parse_time(args.weight, "--weight") if args.weight is not None else None,
        parse_time(args.p2p, "--p2p"),
        args.overlap,
        parse_time(args.optimizer, "--optimizer"),
        args.sync,
        stragglers,
    )


def as_dict(run: PipelineRun) -> dict[str, Any]:
    """Everything, in seconds and microbatches."""
    times = run.times
    return {
        **run.facts(),
        "peak_activations": run.peak_activations,
        "times": {
            "forward": times.forward,
            "backward": times.backward,
            "weight": times.backward / 2 if times.weight is None else times.weight,
            "p2p": times.p2p,
            "overlap": times.overlap,
            "optimizer": times.optimizer,
            "sync": times.sync,
            "straggler": dict(times.straggler),
        },
        "simulated_s": run.simulated_s,
    }


def report(run: PipelineRun) -> str:
    """A chart and the numbers, for people."""
    from parallel.pipeline.schedule import counted

    from ..draw.terminal import gantt
    from ..pipeline_replay import replay
    from ..units import show_time

    try:
        chart = gantt(replay(run))
    except ValueError as error:
        chart = f"# no chart: {error}"
    peaks = run.peak_activations
    if len(set(peaks)) == 1:
        held = f"{counted(peaks[0], 'microbatch')} on each rank"
    else:
        held = ", ".join(f"{peak:.4g}" for peak in peaks[:8]) + (", …" if len(peaks) > 8 else "") + " microbatches"
    rows = [
        ("makespan", f"{show_time(run.makespan)}, from the first start to the last end"),
        ("stage span", f"{show_time(run.stage_span)}, the longest of a rank's own"),
        (
            "bubble",
            f"{run.bubble_fraction:.2%} of the time of all ranks; {run.bubble_over_ideal:.4g} of the time without",
        ),
        ("activations", f"at most {held}, rank by rank" if len(set(peaks)) > 1 else f"at most {held}"),
        ("messages", f"{run.messages}"),
    ]
    if run.times.sync:
        rows.insert(2, ("sync wait", f"{show_time(run.sync_wait)} of all ranks together, before the optimizer"))
    if run.times.optimizer or run.times.sync:
        rows.insert(2, ("training step", f"{show_time(run.step_time)}, from one to the next"))
    return chart + "\n\n" + "\n".join(f"{name:<14}{text}" for name, text in rows)
