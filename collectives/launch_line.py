"""``--print-launch``: the line that starts this very command on several nodes. Needs no torch."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

LAUNCHERS = ("slurm", "torchrun", "mpirun")
_PORT = 29500
_OURS = {"--print-launch": 1, "--nodes": 1, "--ranks": 1}  # flags that do not belong into the line, and their values


def launch_line(launcher: str, module: Sequence[str], argv: Sequence[str], nodes: int, ranks: int, host: str) -> str:
    """The command, for a shell.

    Args:
        launcher: one of ``LAUNCHERS``.
        module: what follows ``python -m``: the package and its command.
        argv: its arguments as given here; those that say how to launch are left out.
        host: of the first node, where the ranks meet; SLURM tells it by itself.

    Raises:
        ValueError: the ranks cannot be shared equally by the nodes.
    """
    if nodes < 1 or ranks < 1 or ranks % nodes:
        raise ValueError(f"--nodes {nodes} with --ranks {ranks}: every node needs as many ranks; make it a multiple")
    each, rest = ranks // nodes, [*module, *without(argv)]
    match launcher:
        case "slurm":
            words = ["srun", f"--nodes={nodes}", f"--ntasks-per-node={each}", "python", "-m", *rest]
        case "torchrun":
            words = ["torchrun", f"--nnodes={nodes}", f"--nproc-per-node={each}"]
            words += ["--rdzv-backend=c10d", f"--rdzv-endpoint={host}:{_PORT}"] if nodes > 1 else ["--standalone"]
            words += ["-m", *rest]
        case "mpirun":
            words = ["mpirun", "-np", str(ranks), "--map-by", f"ppr:{each}:node"]
            words += ["-x", f"MASTER_ADDR={host}", "-x", f"MASTER_PORT={_PORT}", "python", "-m", *rest]
        case _:
            raise ValueError(f"--print-launch {launcher}: use one of {', '.join(LAUNCHERS)}")
    return shlex.join(words)


def note(launcher: str, nodes: int) -> str:
    """What to know besides."""
    return {
        "slurm": "inside an allocation (sbatch or salloc); with GPUs add --gpus-per-node=N",
        "torchrun": "on every node at about the same time" if nodes > 1 else "on this node",
        "mpirun": "Open MPI; with a host file: --hostfile FILE; the first host must be that of MASTER_ADDR",
    }[launcher]


def without(argv: Sequence[str]) -> list[str]:
    """The arguments but those that say how to launch."""
    kept, skip = [], 0
    for word in argv:
        if skip:
            skip -= 1
        elif word in _OURS:
            skip = _OURS[word]
        elif word.split("=")[0] not in _OURS:
            kept.append(word)
    return kept
