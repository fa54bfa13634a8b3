"""``python -m tests.system.pipelines``: bubbles measured beside predicted, and ours beside torch's.

python -m tests.system.pipelines bubble --stages 3,4,8 --schedules gpipe,1f1b,zb-h1     # stages that sleep
python -m tests.system.pipelines bubble --stages 2 --compute                            # stages that compute
python -m tests.system.pipelines duel --ranks 2 --rounds 40                             # on an idle machine
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from collectives.launch import run
from sim.pipeline import Times

from .bubble import compare, measured
from .duel import TORCH, duel


def bubbles(args: argparse.Namespace) -> list[dict[str, Any]]:
    times = None if args.compute else Times(args.forward, 2 * args.forward)
    rows = []
    print("schedule      stages  microbatches  predicted  measured   error")
    for ranks in map(int, args.stages.split(",")):
        for name in args.schedules.split(","):
            everyone = run(measured, ranks, name, args.microbatches, times, args.steps, timeout=600)
            row = compare(name, ranks, args.microbatches, times, everyone)
            error = f"{row['error']:+7.1%}" if row["predicted"] > 1e-9 else "       "
            print(
                f"{name:12} {ranks:7} {args.microbatches:13} {row['predicted']:10.4f} {row['measured']:9.4f} {error}",
                flush=True,
            )
            rows.append(row)
    return rows


def duels(args: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for name in args.schedules.split(","):
        found: dict[str, Any] = run(duel, args.ranks, name, args.rounds, batch=True, timeout=1200)[0]
        low, high = found["interval"]
        said = "" if found["counts"] else "   (does not count: the null is outside 0.97 to 1.03)"
        ms = ", ".join(f"{each} {value:.1f}" for each, value in found["ms"].items())
        print(
            f"{name}, {args.ranks} ranks: ours / torch {found['ratio']:.3f} [{low:.3f}, {high:.3f}], "
            f"null {found['null']:.3f}; ms: {ms}{said}",
            flush=True,
        )
        rows.append({"schedule": name, "ranks": args.ranks, **found})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = partial(parser.add_subparsers(dest="command", required=True).add_parser)
    bubble = add("bubble")
    bubble.add_argument("--stages", default="3,4,8")
    bubble.add_argument("--schedules", default="naive,gpipe,1f1b,interleaved,looped,zb-h1,zb-h2,zbv")
    bubble.add_argument("--microbatches", type=int, default=8)
    bubble.add_argument("--forward", type=float, default=0.02, help="seconds that a stage sleeps in a forward")
    bubble.add_argument("--compute", action="store_true", help="stages that compute; predicted from their own times")
    bubble.add_argument("--steps", type=int, default=3)
    against = add("duel")
    against.add_argument("--ranks", type=int, default=2)
    against.add_argument("--schedules", default=",".join(TORCH))
    against.add_argument("--rounds", type=int, default=40)
    for command in (bubble, against):
        command.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = bubbles(args) if args.command == "bubble" else duels(args)
    if args.json:
        args.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
