"""``train``: train a GPT on any mesh, save, and go on from there on any other."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..training.run import Outcome, Plan

HELP = "train a GPT with any mix of data, tensor and pipeline parallel ranks; save, resume on another mesh"
EXAMPLES = """examples:
  python -m parallel train --model tiny --steps 20
  python -m parallel train --ranks 4 --dp 4 --zero 2 --save runs/a --steps 40
  python -m parallel train --ranks 2 --dp 2 --save runs/a --resume --steps 60        another mesh goes on
  torchrun --nproc-per-node 4 --max-restarts 3 -m parallel train --dp 4 --save runs/a --resume

One seed gives the same first weights and the same data on every mesh, so every mesh ends where one process would.

exit status: 0, 1 if a rank failed or the loss is not finite, 2 for a wrong argument"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", default="small", metavar="NAME", help="tiny, small, 25m, llama-tiny, llama-small (default small)")
    add("--ranks", type=int, metavar="N", help="processes to start (default dp·pp·tp); under torchrun, its own")
    add("--dp", type=int, metavar="N", help="data-parallel ranks (default: what pp and tp leave)")
    add("--pp", type=int, default=1, metavar="N", help="pipeline stages (default 1)")
    add("--tp", type=int, default=1, metavar="N", help="tensor-parallel ranks (default 1)")
    add("--sp", action="store_true", help="tensor-parallel ranks share the sequence between layers, too")
    add(
        "--zero", type=int, default=0, metavar="STAGE", help="what data-parallel ranks cut, 0 to 3 (default 0, nothing)"
    )
    add("--schedule", default="1f1b", metavar="NAME", help="of the pipeline (default 1f1b)")
    add("--vpp", type=int, metavar="N", help="chunks a rank, for schedules that leave it open")
    add("--microbatches", type=int, metavar="N", help="of each replica (default as many as stages)")
    add("--precision", default="fp32", metavar="NAME", help="fp32, fp64, bf16 or fp16 (default fp32)")
    add(
        "--recompute",
        nargs="?",
        const="full",
        default="none",
        metavar="WHAT",
        help="none, or full: a block's input is kept",
    )
    add("--offload", default="", metavar="A,B", help="activations and optimizer, to a slower tier (default nothing)")
    add("--batch", type=int, metavar="ROWS", help="of all ranks together (default 8, or one a microbatch)")
    add("--sequence", type=int, default=64, metavar="BYTES", help="of a row (default 64)")
    add("--lr", type=float, default=1e-3, metavar="RATE", help="learning rate (default 0.001)")
    add("--warmup", type=int, default=0, metavar="STEPS", help="in which it rises (default 0)")
    add("--max-norm", type=float, default=1.0, metavar="NORM", help="to which gradients are clipped (default 1)")
    add(
        "--clip",
        default="sync",
        metavar="WHEN",
        help="sync, or postvalidate: a pipeline steps first, and takes it back",
    )
    add("--seed", type=int, default=0, metavar="N", help="of weights and data (default 0)")
    add("--steps", type=int, default=20, metavar="N", help="in all, those before a resume among them (default 20)")
    add("--text", metavar="FILE", help="to train on (default the source of Python's standard library)")
    add("--save", metavar="DIR", help="write checkpoints there, and one at the end")
    add("--save-every", type=int, default=10, metavar="STEPS", help="(default 10)")
    add("--keep", type=int, default=2, metavar="N", help="checkpoints that stay (default 2)")
    add("--resume", nargs="?", const="", metavar="DIR", help="go on from the newest checkpoint, of --save or of DIR")
    add("--json", metavar="FILE", help="write environment and steps")
    add("--plot", metavar="FILE", help="draw the loss (PNG, SVG or PDF)")
    add("--trace", metavar="FILE", help="write the last step as a Chrome trace, for ui.perfetto.dev")
    add("--timeout", type=float, default=86400.0, metavar="SECONDS", help="for the whole run (default a day)")


def main(args: argparse.Namespace) -> int:
    from collectives.launcher import place_of
    from collectives.start import NotStarted, on_ranks

    first, place = True, None
    try:
        place = place_of(os.environ)
        first = place is None or place.rank == 0
        plan = _checked(args, place.size if place else None)
        from ..training import run  # here, so that the ranks, which are forked, need not

        ranks = plan.recipe.ranks
        outcome = on_ranks(run.run, plan, ranks=ranks, backend="gloo", place=place, timeout=args.timeout)
    except NotStarted as error:
        if first:
            print(f"python -m parallel train: error: {error}", file=sys.stderr)
            _say_how_to_resume(args)
        return error.status
    except ValueError as error:
        if first:
            print(f"python -m parallel train: error: {error}", file=sys.stderr)
        return 2
    if outcome.error:
        if first:
            print(f"python -m parallel train: error: {outcome.error}", file=sys.stderr)
            if not outcome.wrong:  # else the same command would fail again
                _say_how_to_resume(args)
        return 2 if outcome.wrong else 1
    return _finish(args, outcome)


def _checked(args: argparse.Namespace, launched_ranks: int | None) -> Plan:
    """What is to be done.

    Raises:
        ValueError: an argument that makes no sense; nothing has been started.
    """
    from collectives.atomic import check_writable
    from collectives.bench.plot import check_plot

    from ..training.models import MODELS
    from ..training.recipe import Recipe
    from ..training.run import Plan
    from ..training.text import Text

    if args.model not in MODELS:
        raise ValueError(f"--model {args.model}: there is no such size; use {', '.join(MODELS)}")
    for name in ("pp", "tp"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name} {getattr(args, name)}: use at least 1")
    dp = _data_ranks(args, launched_ranks)
    microbatches = args.pp if args.microbatches is None else args.microbatches
    batch = max(8, dp * microbatches) if args.batch is None else args.batch
    axes = ("pp", "tp", "sp", "zero", "schedule", "vpp")
    rest = ("model", "precision", "recompute", "sequence", "lr", "warmup", "max_norm", "clip", "seed", "text")
    given = {name: getattr(args, name) for name in (*axes, *rest)}
    offload = tuple(each for each in args.offload.split(",") if each not in ("", "none"))
    recipe = Recipe(dp=dp, batch=batch, microbatches=microbatches, offload=offload, **given)
    recipe.check(MODELS[args.model])
    for name in ("steps", "save_every", "keep"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} {getattr(args, name)}: use at least 1")
    if args.resume == "" and args.save is None:
        raise ValueError("--resume: from where? Say --resume DIR, or --save DIR, whose newest checkpoint it then is")
    if not args.timeout > 0:
        raise ValueError(f"--timeout {args.timeout:g}: use a number of seconds above 0")
    for option, path in (("--json", args.json), ("--plot", args.plot), ("--trace", args.trace)):
        if path:
            check_writable(option, path)
    if args.plot:
        check_plot(args.plot)
    Text(args.text).check(args.sequence)
    resume = args.save if args.resume == "" else args.resume
    demand = args.resume != ""  # of --save, the first start has nothing yet
    trace = args.trace is not None
    return Plan(recipe, args.steps, args.save, args.save_every, args.keep, resume, demand, trace)


def _data_ranks(args: argparse.Namespace, launched_ranks: int | None) -> int:
    """--dp, or what pp and tp leave of the ranks."""
    there, model = launched_ranks or args.ranks, args.pp * args.tp
    if args.ranks is not None and launched_ranks not in (None, args.ranks):
        raise ValueError(f"--ranks {args.ranks}: {launched_ranks} were launched; leave --ranks out")
    if there is None:
        return 1 if args.dp is None else int(args.dp)
    if there < 1:
        raise ValueError(f"--ranks {there}: use at least 1")
    dp = there // model if args.dp is None else int(args.dp)
    if dp * model != there:
        raise ValueError(
            f"dp {dp} × pp {args.pp} × tp {args.tp} is {dp * model}, but there are {there} ranks: "
            f"change an axis, or use --ranks {max(1, dp) * model}"
        )
    return dp


def _say_how_to_resume(args: argparse.Namespace) -> None:
    """The command that goes on, if something has been saved."""
    from ..checkpoints.folder import checkpoints

    if args.save is None or not (saved := checkpoints(args.save)):
        return
    words = sys.argv[sys.argv.index("train") + 1 :] if "train" in sys.argv else []
    words = words if args.resume is not None else [*words, "--resume"]
    print(f"# saved so far: {saved[-1]}; go on with", file=sys.stderr)
    print(f"python -m parallel train {shlex.join(words)}", file=sys.stderr)


def _finish(args: argparse.Namespace, outcome: Outcome) -> int:
    from collectives import span
    from collectives.atomic import write_text

    if not outcome.environment:  # rank 0 has it
        return 0
    if args.json:
        content: dict[str, Any] = {
            "environment": outcome.environment,
            "steps": outcome.steps,
            "memory": outcome.memory,
            "sent": outcome.sent,
            "bubble": outcome.bubble,
            "saved": outcome.saved,
        }
        write_text(args.json, json.dumps(content, indent=1) + "\n")
    if args.trace:
        span.write(args.trace, outcome.spans, metadata=outcome.environment)
    if args.plot:
        from ..training.curve import draw

        draw(args.plot, outcome.steps)
    return 0
