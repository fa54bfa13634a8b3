"""``doctor``: would the course work here? What collectives' own doctor tells, and what the course needs beside."""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from collectives import __version__
from collectives.commands import doctor as collectives_doctor
from collectives.installation import version_text

from ..browser import has_browser
from ..lines import BOLD, GREEN, RED, colour, columns, wrap
from ..refusal import Refusal
from ..said import Said, Speech
from ..workspace import Workspace

HELP = "would the course work here? what is wrong, and how to mend it"
FEW_CORES, LITTLE_MEMORY = 2, 2 << 30
SECONDS = 20.0  # for two ranks to meet
_LETTERS = "→ · … ✗ αβγ n−1"  # what lessons are written with
_CHINESE = "中文，。"


@dataclass(frozen=True)
class Probe:
    """What was found: ``ok``, ``note`` (the course works without), or ``wrong``; with one line that mends it."""

    how: str
    what: Speech


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 if all is well, 1 if something is wrong"


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    print(version_text(__version__))
    marks = {"ok": colour("ok", GREEN), "note": colour("--", BOLD), "wrong": colour("NO", RED)}
    count = 0
    for probe in probes(workspace):
        count += probe.how == "wrong"
        for number, line in enumerate(wrap(workspace.say.say(probe.what), columns() - 6)):
            print(f"  {marks[probe.how]}  {line}" if not number else f"      {line}", flush=True)
    print()
    workspace.tell("doctor.wrong" if count else "doctor.well", count=count)
    return 1 if count else 0


def probes(workspace: Workspace) -> Iterator[Probe]:
    for probe in collectives_doctor.probes():
        yield Probe("wrong" if probe.wrong else "ok", probe.sentence)
    if sys.platform == "win32":
        yield Probe("wrong", Said("doctor.windows"))
    yield _cores()
    yield from _memory()
    yield _ranks()
    yield _name()
    yield _folder(workspace)
    yield from (Probe("note", note) for note in workspace.progress.notes)
    yield _encoding(workspace)
    yield _browser()


def _cores() -> Probe:
    enough = collectives_doctor.cores() >= FEW_CORES
    return Probe("ok" if enough else "note", Said("doctor.cores" if enough else "doctor.one_core"))


def _memory() -> Iterator[Probe]:
    """Only where the system tells."""
    try:
        with open("/proc/meminfo") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return
    enough = free >= LITTLE_MEMORY
    fields = {"free": f"{free / (1 << 30):.1f}"}
    yield Probe("ok" if enough else "note", Said("doctor.memory" if enough else "doctor.little_memory", fields))


def _ranks() -> Probe:
    """Two real processes meet over loopback and add."""
    from collectives.launch import RankFailed, RankTimeout, run

    try:
        results = run(add, 2, timeout=SECONDS)
    except (RankFailed, RankTimeout, OSError, RuntimeError, ImportError) as error:
        return Probe("wrong", Said("doctor.no_ranks", {"error": str(error).splitlines()[0]}))
    if results != [3.0, 3.0]:
        return Probe("wrong", Said("doctor.no_ranks", {"error": str(results)}))
    return Probe("ok", Said("doctor.ranks"))


def add() -> float:
    """1 on rank 0 and 2 on rank 1, summed."""
    import torch
    import torch.distributed as dist

    tensor = torch.tensor([1.0 + dist.get_rank()])
    dist.all_reduce(tensor)
    return float(tensor.item())


def _name() -> Probe:
    """Whether the host's name has an address; asked aside, as it may take long."""
    name, found = socket.gethostname(), threading.Event()

    def ask() -> None:
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            return
        found.set()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(3.0)
    key = "doctor.name" if found.is_set() else "doctor.no_name"
    return Probe("ok" if found.is_set() else "note", Said(key, {"name": name}))


def _folder(workspace: Workspace) -> Probe:
    folder = workspace.folder
    place = folder if folder.is_dir() else folder.parent
    try:
        workspace.need_own_folder()
        with tempfile.TemporaryFile(dir=place):
            pass
    except Refusal as refusal:
        return Probe("wrong", refusal.said)
    except OSError as error:
        fields = {"folder": str(folder), "error": error.strerror or str(error)}
        return Probe("wrong", Said("runner.folder.unwritable", fields))
    fields = {"folder": workspace.shown(folder)}
    return Probe("ok", Said("doctor.folder" if folder.is_dir() else "doctor.no_folder_yet", fields))


def _encoding(workspace: Workspace) -> Probe:
    encoding = sys.stdout.encoding or "ascii"
    language = workspace.say.language
    try:
        (_LETTERS + (_CHINESE if language == "zh" else "")).encode(encoding)
    except UnicodeEncodeError:
        return Probe("note", Said("doctor.encoding", {"encoding": encoding}))
    return Probe("ok", Said("doctor.language", {"language": Said(f"doctor.{language}"), "encoding": encoding}))


def _browser() -> Probe:
    there = has_browser()
    return Probe("ok" if there else "note", Said("doctor.browser" if there else "doctor.no_browser"))
