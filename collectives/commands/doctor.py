"""``doctor``: is everything in its place?"""

from __future__ import annotations

import argparse
import os
import platform
import sys

from .. import __version__
from ..installation import complaints, version_text

HELP = "say where the packages come from, what this machine has, and what is wrong"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 if all is well, 1 if something is wrong"


def main(args: argparse.Namespace) -> int:
    print(version_text(__version__))
    wrong = complaints()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}, {cores} cores")
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        wrong.append(f"torch does not import ({error}): python -m pip install torch")
    else:
        backends = [name for name in ("gloo", "nccl", "mpi") if getattr(dist, f"is_{name}_available")()]
        print(f"torch {torch.__version__}, backends {', '.join(backends) or 'none'}")
        if not dist.is_gloo_available():
            wrong.append("this torch has no gloo, which CPU ranks need: install a build that has it")
        for i in range(torch.cuda.device_count()):
            print(f"GPU {i}: {torch.cuda.get_device_name(i)}")
        if "nccl" in backends and torch.cuda.is_available():
            print(f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}")
        if not torch.cuda.is_available():
            print("no GPU: collectives run on gloo")
    for complaint in wrong:
        print(f"wrong: {complaint}", file=sys.stderr)
    print("all is well" if not wrong else f"{len(wrong)} things are wrong")
    return 1 if wrong else 0
