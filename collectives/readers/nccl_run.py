"""Puts together what an nccl-tests log says of one run: its header, its rows and its closing lines. Needs no torch."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from ..contract import CONTRACTS
from .measured_run import Run
from .nccl_evidence import fitting_ranks, likely_collectives, possible_collectives, unfitting_average, unfitting_rows
from .nccl_row import Printed, Reading
from .pasted import listed, shortened

OTHER_NAMES = {"alltoall": "all_to_all"}  # nccl-tests' names for collectives of ours
_COMMAND = re.compile(r"(?<![\w-])([a-z]{1,20}(?:_[a-z]{1,20}){0,3})_perf(?:_mpi)?\b")
_MOST_ALIKE = 4


@dataclass(frozen=True, slots=True)
class Device:
    """A line ``Rank 3 Pid 112 on node-a device 3 [0x45] NVIDIA H100``."""

    rank: int
    pid: str
    host: str
    device: int
    gpu: str


@dataclass(slots=True)
class Account:
    """What was found of one run.

    test: the collective that the text names; hint: what its command or the file's name suggests, where the rows leave
    a choice. wrong: the closing line's elements out of bounds.
    """

    test: str | None = None
    hint: str | None = None
    devices: list[Device] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    nccl_version: str | None = None
    average: Printed | None = None
    wrong: int | None = None
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def run(self) -> Run:
        """The run, with what its rows tell of the collective and the ranks, and where they do not fit."""
        listed_ranks = self._listed_ranks()
        collective = self._collective(listed_ranks)
        ranks = self._ranks(listed_ranks, collective)
        if ranks == 1:
            self.doubts.append(
                "one rank only, so nothing is sent; if more were started, nccl-tests was built without MPI and each "
                "process ran alone: build it with MPI=1"
            )
        single = [reading.where for reading in self.readings if len(reading.groups) == 1]
        if single and len(single) < len(self.readings):
            more = f" and {len(single) - 1} more" if len(single) > 1 else ""
            self.doubts.append(f"{single[0]}{more}: only one of the two times that the other rows have")
        self.doubts += shortened(unfitting_rows(collective, ranks, self.readings), _MOST_ALIKE, "rows")
        if self.average and (sentence := unfitting_average(self.average, self.readings)):
            self.doubts.append(f"{sentence}; rows may be missing")
        wrong = sum(group.wrong or 0 for reading in self.readings for group in reading.groups)
        if wrong or self.wrong:
            self.doubts.append(f"wrong elements in the results: {max(wrong, self.wrong or 0)}")
        gpus = dict.fromkeys(device.gpu for device in self.devices if device.gpu)
        return Run(
            collective=collective,
            ranks=ranks,
            rows=tuple(reading.row for reading in self.readings),
            hosts=self._hosts(ranks),
            gpu=", ".join(gpus) or None,
            nccl_version=self.nccl_version,
            average_busbw=self.average.value if self.average else None,
            notes=tuple(self.notes),
            doubts=tuple(self.doubts),
        )

    def _listed_ranks(self) -> int | None:
        """As many as the device lines name, if they are complete as far as can be seen."""
        if not self.devices:
            return None
        seen = {device.rank for device in self.devices}
        if seen == {0} and len({(device.host, device.pid) for device in self.devices}) > 1:
            self.doubts.append(f"all {len(self.devices)} device lines are of rank 0")
        return max(seen) + 1

    def _collective(self, ranks: int | None) -> str | None:
        if self.test is not None:
            possible = possible_collectives(self.readings, ranks)
            if possible and self.test in CONTRACTS and self.test not in possible:
                self.doubts.append(f"the test is named {self.test}, but its rows look like {' or '.join(possible)}")
            return self.test
        fitting = likely_collectives(self.readings, ranks)
        if len(fitting) > 1 and self.hint in fitting:
            self.notes.append(f"the rows may be {' or '.join(fitting)}; what stands around them says {self.hint}")
            return self.hint
        if len(fitting) > 1:
            self.doubts.append(f"the rows may be {' or '.join(fitting)}; name the collective")
        elif not fitting:
            self.doubts.append("the rows do not tell which collective this is; name it")
        else:
            self.notes.append(f"{fitting[0]}, by the columns and numbers of the rows")
        return fitting[0] if len(fitting) == 1 else None

    def _ranks(self, listed_ranks: int | None, collective: str | None) -> int | None:
        fit = fitting_ranks(collective, self.readings)
        unique = fit[0] if fit and fit[0] == fit[1] else None
        how = "size / count" if collective in CONTRACTS and CONTRACTS[collective].blocks else "busbw / algbw"
        if listed_ranks is None:
            if unique is not None:
                self.notes.append(f"ranks: {unique}, by {how} of the rows")
            elif fit:
                self.notes.append(f"{fit[0]} to {fit[1]} ranks fit {how} of the rows")
            return unique
        named = {device.rank for device in self.devices}
        absent = [f"rank {rank}" for rank in range(min(max(named), 1 << 16)) if rank not in named]
        if fit and not fit[0] <= listed_ranks <= fit[1]:
            fitting = f"{unique}" if unique is not None else f"{fit[0]} to {fit[1]}"
            self.doubts.append(
                f"ranks that the device lines name: {listed_ranks}, but {how} of the rows fits {fitting}"
            )
            return unique
        if absent:
            self.notes.append(
                f"the device lines of {listed(absent)} are missing; the last one makes it {listed_ranks} ranks"
            )
        return listed_ranks

    def _hosts(self, ranks: int | None) -> dict[str, int]:
        """Ranks of each host; {} if lines are missing or two hosts may go by one name."""
        first = {device.rank: device for device in self.devices}
        if not first or len(first) != ranks:
            return {}
        places = Counter((device.host, device.device) for device in first.values())
        (host, device), times = places.most_common(1)[0]
        if times > 1:
            self.doubts.append(
                f"{times} ranks are on device {device} of {host}: they share it, or two hosts go by one name"
            )
            return {}
        return dict(Counter(device.host for device in first.values()))


def version_of(code: int) -> str:
    """NCCL's version from its number: 22907 is 2.29.7, and up to 2.8 2708 is 2.7.8."""
    major = 1000 if code < 10000 else 10000
    return f"{code // major}.{code % major // 100}.{code % 100}"


def test_of(text: str) -> str | None:
    """The collective of the last test that a command or path names (``build/all_reduce_perf``)."""
    tests = _COMMAND.findall(text)
    return OTHER_NAMES.get(tests[-1], tests[-1]) if tests else None
