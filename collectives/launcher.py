"""Who has started this process, and which rank it is: read from the environment. Needs no torch.

    torchrun   RANK  WORLD_SIZE  LOCAL_RANK  LOCAL_WORLD_SIZE  MASTER_ADDR  MASTER_PORT
    srun       SLURM_PROCID  SLURM_STEP_NUM_TASKS  SLURM_LOCALID  SLURM_STEP_TASKS_PER_NODE  SLURM_STEP_NODELIST
    mpirun     OMPI_COMM_WORLD_RANK  …_SIZE  …_LOCAL_RANK  …_LOCAL_SIZE              (Open MPI)
               PMI_RANK  PMI_SIZE  MPI_LOCALRANKID  MPI_LOCALNRANKS                  (MPICH, Intel MPI)

srun tells the hosts, so the first is the meeting point; mpirun does not, so that over several hosts it needs
``MASTER_ADDR``. A step of a single task is no launch: it is a shell, from which ranks are to be started.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

_FIRST_PORT, _PORTS = 20_000, 12_000  # below those that systems give out by themselves
_MOST_HOSTS = 1 << 20


@dataclass(frozen=True)
class Place:
    """One rank among ``size``, the number ``local`` of the ``local_size`` on its host, and where all meet.

    by: the launcher. counts: ranks on each host, in the order of the hosts, where the launcher tells them.
    """

    by: str
    rank: int
    size: int
    local: int
    local_size: int
    address: str
    port: int
    counts: tuple[int, ...] = ()

    def variables(self) -> dict[str, str]:
        """As torchrun names them."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


def place_of(environ: Mapping[str, str]) -> Place | None:
    """The place of this process; None if nobody has launched it as a rank.

    Raises:
        ValueError: a launcher's variables that cannot be read, or that leave open where to meet.
    """
    for by, names, local_sizes in _LAUNCHERS:
        rank, size = environ.get(names[0]), environ.get(names[1])
        if rank is None or size is None:
            continue
        number, ranks = _number(names[0], rank), _number(names[1], size)
        if by != "torchrun" and ranks == 1 and "MASTER_ADDR" not in environ:
            continue
        if not 0 <= number < ranks:
            raise ValueError(f"{names[0]}={rank} with {names[1]}={size}: ranks are 0 to {ranks - 1}; start them anew")
        counts = _counts(environ) if by == "srun" else ()
        local = _number(names[2], environ.get(names[2], "0"))
        local_size = next((_number(n, environ[n]) for n in local_sizes if n in environ), 0)
        local_size = local_size or _on_my_host(environ, counts) or ranks
        if by == "torchrun" and "MASTER_ADDR" not in environ:
            return None
        address = environ.get("MASTER_ADDR") or _meeting_point(by, environ, local_size == ranks)
        port = _number("MASTER_PORT", environ["MASTER_PORT"]) if "MASTER_PORT" in environ else _port(environ)
        return Place(by, number, ranks, local, local_size, address, port, counts)
    return None


_LAUNCHERS: tuple[tuple[str, tuple[str, str, str], tuple[str, ...]], ...] = (
    ("torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("LOCAL_WORLD_SIZE",)),
    ("srun", ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"), ()),
    ("mpirun", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
     ("OMPI_COMM_WORLD_LOCAL_SIZE",)),
    ("mpirun", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"), ("MPI_LOCALNRANKS",)),
)  # fmt: skip


def hosts_of(text: str) -> list[str]:
    """``gpu[01-03,07],cpu5`` is gpu01, gpu02, gpu03, gpu07, cpu5: SLURM's way to write hosts, in its order.

    Raises:
        ValueError: it is not written so.
    """
    hosts: list[str] = []
    for part in _apart(text):
        hosts += _expanded(text, part)
        if len(hosts) > _MOST_HOSTS:
            raise ValueError(_unreadable(text))
    return hosts


def counts_of(text: str) -> list[int]:
    """``2(x3),1`` is 2, 2, 2, 1: SLURM's way to write tasks of each node.

    Raises:
        ValueError: it is not written so.
    """
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,7})(?:\(x(\d{1,7})\))?", part.strip())
        if match is None or len(counts) + int(match[2] or 1) > _MOST_HOSTS:
            raise ValueError(
                f"SLURM_STEP_TASKS_PER_NODE={text!r} cannot be read (expected: 4, 4(x2) or 4,2); set RANK, WORLD_SIZE, "
                "LOCAL_RANK, MASTER_ADDR and MASTER_PORT instead, or use torchrun"
            )
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _apart(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if not text or ",".join(parts) != text:
        raise ValueError(_unreadable(text))
    return parts


def _expanded(whole: str, part: str) -> list[str]:
    """One part; every bracket in it multiplies."""
    match = re.search(r"\[([^\[\]]*)\]", part)
    if match is None:
        if not re.fullmatch(r"[\w.-]+", part):
            raise ValueError(_unreadable(whole))
        return [part]
    middles = []
    for piece in match[1].split(","):
        span = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", piece)
        first, last = (span[1], span[2] or span[1]) if span else ("1", "0")
        if int(last) < int(first) or int(last) - int(first) > _MOST_HOSTS:
            raise ValueError(_unreadable(whole))
        middles += [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    return [
        host for middle in middles for host in _expanded(whole, part[: match.start()] + middle + part[match.end() :])
    ]


def _unreadable(text: str) -> str:
    return (
        f"SLURM_STEP_NODELIST={text!r} cannot be read (expected: gpu[01-03,07],cpu5); set MASTER_ADDR and MASTER_PORT, "
        "or use torchrun"
    )


def _counts(environ: Mapping[str, str]) -> tuple[int, ...]:
    text = environ.get("SLURM_STEP_TASKS_PER_NODE", "")
    return tuple(counts_of(text)) if text else ()


def _on_my_host(environ: Mapping[str, str], counts: tuple[int, ...]) -> int:
    """Tasks on this node; 0 if unknown."""
    node = environ.get("SLURM_NODEID", "0")
    return counts[int(node)] if node.isdecimal() and int(node) < len(counts) else 0


def _meeting_point(by: str, environ: Mapping[str, str], one_host: bool) -> str:
    if by == "srun":
        text = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
        first = hosts_of(text)[0]
        return "127.0.0.1" if one_host else first
    if one_host:
        return "127.0.0.1"
    raise ValueError(
        "mpirun over several hosts does not say where to meet: add -x MASTER_ADDR=HOST -x MASTER_PORT=29500 (Open MPI) "
        "or -genv MASTER_ADDR HOST -genv MASTER_PORT 29500 (MPICH), with the host of rank 0"
    )


def _port(environ: Mapping[str, str]) -> int:
    """The same for all ranks of a start, another for the next: made of the launcher's name of it."""
    names = (
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "PMIX_NAMESPACE",
        "OMPI_MCA_ess_base_jobid",
        "PMI_JOBID",
    )
    known = "/".join(environ[name] for name in names if name in environ)
    return _FIRST_PORT + zlib.crc32(known.encode()) % _PORTS


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text.strip()):
        raise ValueError(f"{name}={text!r} is no number; unset it, or start the ranks with torchrun, srun or mpirun")
    return int(text)
