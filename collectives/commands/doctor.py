"""``doctor``: is everything in its place?"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from .. import __version__
from ..installation import complaints, version_text
from ..sentence import Sentence

HELP = "say where the packages come from, what this machine has, and what is wrong"


@dataclass(frozen=True)
class Probe:
    """What was found. wrong: something that has to be mended, and how."""

    sentence: Sentence
    wrong: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 if all is well, 1 if something is wrong"


def main(args: argparse.Namespace) -> int:
    print(version_text(__version__))
    wrong = 0
    for probe in probes():
        wrong += probe.wrong
        print(
            f"wrong: {probe.sentence}" if probe.wrong else probe.sentence,
            file=sys.stderr if probe.wrong else sys.stdout,
        )
    print("all is well" if not wrong else f"{wrong} things are wrong")
    return 1 if wrong else 0


def probes() -> Iterator[Probe]:
    """The packages, Python, torch and its backends, the GPUs."""
    for complaint in complaints():
        yield Probe(complaint, wrong=True)
    yield Probe(
        Sentence(
            "doctor.python",
            "python {version} on {system} {machine}, {cores} cores",
            version=platform.python_version(),
            system=platform.system(),
            machine=platform.machine(),
            cores=cores(),
        )
    )
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        said = Sentence(
            "doctor.no_torch", "torch does not import ({error}): python -m pip install torch", error=str(error)
        )
        yield Probe(said, wrong=True)
        return
    backends = [name for name in ("gloo", "nccl", "mpi") if getattr(dist, f"is_{name}_available")()]
    version, shown = str(torch.__version__), backends or ["-"]
    yield Probe(Sentence("doctor.torch", "torch {version}, backends {backends}", version=version, backends=shown))
    if not dist.is_gloo_available():
        said = Sentence("doctor.no_gloo", "this torch has no gloo, which CPU ranks need: install a build that has it")
        yield Probe(said, wrong=True)
    for i in range(torch.cuda.device_count()):
        yield Probe(Sentence("doctor.gpu", "GPU {number}: {name}", number=i, name=torch.cuda.get_device_name(i)))
    if "nccl" in backends and torch.cuda.is_available():
        version = ".".join(map(str, torch.cuda.nccl.version()))
        yield Probe(Sentence("doctor.nccl", "NCCL {version}", version=version))
    if not torch.cuda.is_available():
        yield Probe(Sentence("doctor.no_gpu", "no GPU: collectives run on gloo"))


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
