"""``python -m tests.system.duel``: ours beside PyTorch's on gloo, and beside a second group of PyTorch's.

Unmodified PyTorch on backend ``ring``; ``parallel.DistributedDataParallel`` beside torch's, and ``parallel.Zero`` in
stage 3 beside FSDP2, which train the GPT ``25m``.

python -m tests.system.duel --client ddp,fsdp2 --ranks 2,4 --rounds 60 --json duel.json
python -m tests.system.duel --client parallel-ddp,parallel-zero-3 --ranks 2,4 --rounds 60
python -m tests.system.duel --client reduce_scatter,all_reduce,all_gather --sizes 1K,64K,8M,25M --ranks 2
"""

from __future__ import annotations

import argparse
import importlib
import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

from collectives.bench.settings import parse_size
from collectives.launch import run
from tests.system.duel.clients import COLLECTIVES, TRAINING, Step, match
from tests.system.duel.contest import contest


def timed(client: str, nbytes: int, count: int, repeats: int) -> dict[str, object]:
    """On every rank: three groups of the same ranks, and a client on each."""
    warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 has renamed two functions
    found = match(client, nbytes)
    (ours, our_client), (native, their_client) = found.ours, found.native
    null = f"{native} again"
    steps = {
        ours: our_client(dist.new_group(backend=found.backend)),
        native: their_client(dist.new_group()),
        null: their_client(dist.new_group()),
    }
    many = {name: partial(_repeat, step, repeats) for name, step in steps.items()}
    result = {"names": [ours, native], **contest(many, ours, native, null, count)}
    if client in TRAINING:
        _check_alike({name: float(step()) for name, step in steps.items()})
    return result


def _check_alike(losses: dict[str, float]) -> None:
    """All contestants have made the same steps on the same data, so a rank's loss must be the same."""
    if not max(losses.values()) - min(losses.values()) < 1e-3:
        raise RuntimeError(f"the contestants' losses differ: {losses}")


def _repeat(step: Step, repeats: int) -> None:
    for _ in range(repeats):
        step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", default="ddp,fsdp2", help=f"of {', '.join([*TRAINING, *COLLECTIVES])}")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--sizes", default="1K,16K,64K,8M,25M", help="of collectives")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for client in args.client.split(","):
        sizes = [0] if client in TRAINING else [parse_size(size) for size in args.sizes.split(",")]
        for ranks in map(int, args.ranks.split(",")):
            for nbytes in sizes:
                repeats = 1 if client in TRAINING else max(1, min(50, (1 << 20) // max(1, nbytes)))
                prepare = partial(importlib.import_module, "collectives.torch_backend")
                found = run(
                    timed, ranks, client, nbytes, args.rounds, repeats, prepare=prepare, batch=True, timeout=1200
                )
                rows.append({"client": client, "ranks": ranks, "bytes": nbytes, "repeats": repeats, **found[0]})
                show(rows[-1])
    if args.json:
        args.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def show(found: dict[str, Any]) -> None:
    ms = ", ".join(f"{name} {value / found['repeats']:.3f}" for name, value in found["ms"].items())
    low, high = found["interval"]
    said = "" if found["counts"] else "   (does not count: the null is outside 0.97 to 1.03)"
    size = f" {found['bytes']} bytes" if found["bytes"] else ""
    print(
        f"{found['client']}{size}, {found['ranks']} ranks: {' / '.join(found['names'])} {found['ratio']:.3f} "
        f"[{low:.3f}, {high:.3f}], null {found['null']:.3f}; ms: {ms}{said}",
        flush=True,
    )


if __name__ == "__main__":
    main()
