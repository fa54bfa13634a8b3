"""Reads what NVIDIA's nccl-tests print, and finds out which kind of benchmark result a text is. Needs no torch.

    # nccl-tests version 2.18.0 …                    the header: versions, test, a line for every rank
    # Collective test starting: all_reduce_perf
    #  Rank  0 Group  0 Pid  100 on node-a device  0 [0x01] NVIDIA H100
    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
         1048576        262144     float     sum      -1    28.56   36.71   64.24      0    28.37   36.96   64.68      0
    # Avg bus bandwidth    : 64.46                    the closing lines

Around and between these stand launchers' labels and whatever NCCL logs; every line is known by its form, not its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from ..contract import CONTRACTS, contract_of
from .measured_run import Run
from .nccl_row import Draft, Layout, layout_of, printed
from .nccl_run import OTHER_NAMES, Account, Device, test_of, version_of
from .pasted import Line, lines_of, shortened, text_of
from .run_json import read_bench_json, read_nccl_json

__all__ = ["read_bench_json", "read_nccl_json", "read_nccl_tests", "read_runs"]

# A message of NCCL, which may begin right behind a half-printed row.
_MESSAGE = re.compile(r"[A-Za-z][\w.-]{0,200}:\d+:\d+(?: \[\d+\])? (?:\S+:\d+ )?NCCL .*$", re.ASCII)
_BEGINNING = re.compile(
    r"nccl-tests version |Collective test starting|# *nThread\b|\bnThread \d+ nGpus|# Using devices"
)
_TEST = re.compile(r"Collective test (?:starting|concluded):?\s*(\S+)")
_DEVICE = re.compile(
    r"\bRank\s+(\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d{1,4})\s+\[[^\]]*\]\s*(.*)",
    re.ASCII,
)
_VERSION = re.compile(r"\bNCCL version (\d[\w.+-]*)")
_LIBRARY = re.compile(r"\bnccl-library=(\d{4,6})\b")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\s+(OK|FAILED)")
_MOST_ALIKE = 4


def read_nccl_tests(text: str, name: str = "log", collective: str | None = None) -> list[Run]:
    """The runs in the output of nccl-tests, in order; O(its length).

    Args:
        name: what the text is called, for messages; where rows leave a choice, also for a collective's name in it.
        collective: for texts that do not tell.

    Raises:
        ValueError: there is no row, or the collective is unknown.
    """
    if collective is not None:
        contract_of(collective)
    lines = lines_of(text)
    version = next((match[1] for line in lines if (match := _VERSION.search(line.text))), None)
    runs = []
    for label in dict.fromkeys(line.label for line in lines):
        runs += _Reader(name, collective, version).read(line for line in lines if line.label == label)
    if runs:
        return runs
    headers = [line.number for line in lines if layout_of(line.text)]
    seen = f"line {headers[0]}: no row follows this header" if headers else f"{len(lines)} lines without a row"
    raise ValueError(
        f"{name}: {seen} of an nccl-tests table (size, count, type, …, time, algbw, busbw, #wrong); "
        "give the whole output of a test such as all_reduce_perf"
    )


def read_runs(source: str | os.PathLike[str], collective: str | None = None) -> list[Run]:
    """The runs in a file or text: nccl-tests' output or JSON (``-J``), or the JSON of this project's ``bench``.

    Args:
        source: a path, or the text itself, which has more than one line or is JSON.
        collective: for nccl-tests output that does not tell.

    Raises:
        ValueError: the file cannot be read, or the text is none of the three.
    """
    is_text = isinstance(source, str) and ("\n" in source or "\r" in source or source.lstrip().startswith("{"))
    text, name = (str(source), "text") if is_text else (text_of(source), Path(source).name)
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return read_nccl_tests(text, name, collective)
    return read_bench_json(text, name) if '"environment"' in text else read_nccl_json(text, name, collective)


class _Reader:
    """Reads the lines of one process.

    Args:
        name: for a collective's name in it; version: of NCCL, if another process printed it.
    """

    def __init__(self, name: str, collective: str | None, version: str | None) -> None:
        self._collective, self._hint, self._version = collective, test_of(name) or _name_in(name), version
        self._runs: list[Run] = []
        self._draft: Draft | None = None
        self._begin()

    def read(self, lines: Iterable[Line]) -> list[Run]:
        for line in lines:
            self._take(line)
        self._close_row()
        self._end()
        return self._runs

    def _begin(self) -> None:
        self._account = Account()
        self._layout: Layout | None = None
        self._problems: list[str] = []

    def _end(self) -> None:
        """Turn the account into a run, if it has rows."""
        account = self._account
        if not account.readings:
            return
        reduces = any(reading.redop for reading in account.readings)
        # Old versions leave the column empty in this test alone.
        blank_redop = self._columns.redop and self._columns.root is False and not reduces
        account.hint = "all_to_all" if blank_redop else self._hint
        account.test = account.test or self._collective
        account.nccl_version = account.nccl_version or self._version
        first = account.readings[0].where
        if self._layout is None:
            account.doubts.append(f"no header line above the rows from {first} on; the usual columns are taken")
        elif self._layout.cpu:
            account.doubts.append("the times are CPU times (-C), not those of the operations")
        account.doubts += shortened(self._problems, _MOST_ALIKE, "rows")
        if account.average is None:
            account.notes.append("no average stands below the rows, so the last ones may be missing")
        self._runs.append(account.run())

    def _next(self) -> None:
        """A header begins; the next run with it, if this one has rows."""
        self._close_row()
        if self._account.readings or self._account.average:
            self._end()
            self._begin()

    def _take(self, line: Line) -> None:
        text = line.text
        if version := _VERSION.search(text):
            self._account.nccl_version = version[1]
        if message := _MESSAGE.search(text):
            text = text[: message.start()]
        if self._begins_row(line.number, text) or (self._draft and self._draft.goes_on(text, self._columns)):
            return
        if layout := layout_of(text):
            self._next()
            if "algorithm" in text.split():
                raise ValueError(f"line {line.number}: this is the table of bench; give the file that --json writes")
            self._layout = layout
        elif device := _DEVICE.search(text):
            self._next()
            rank, pid, host, number, gpu = device.groups()
            self._account.devices.append(Device(int(rank), pid, host, int(number), gpu))
        elif _BEGINNING.search(text):
            self._next()
        self._remember(text)

    def _remember(self, text: str) -> None:
        """What a header or closing line says."""
        account = self._account
        if test := _TEST.search(text):
            account.test = test_of(test[1]) or test[1]
        elif command := test_of(text):
            self._hint = command
        if (library := _LIBRARY.search(text)) and not account.nccl_version:
            account.nccl_version = version_of(int(library[1]))
        if average := _AVERAGE.search(text):
            self._close_row()
            account.average = printed(average[1])
        if (bounds := _BOUNDS.search(text)) and bounds[2] == "FAILED":
            account.wrong = int(bounds[1])

    @property
    def _columns(self) -> Layout:
        return self._layout or Layout()

    def _begins_row(self, number: int, text: str) -> bool:
        draft = Draft.begin(number, text)
        if draft is None or not (draft.is_a_row or draft.finish(self._columns)[1] is None):
            return False
        self._close_row()
        if self._account.average:
            self._next()
        self._draft = draft
        return True

    def _close_row(self) -> None:
        if self._draft is None:
            return
        reading, problem = self._draft.finish(self._columns)
        if reading:
            self._account.readings.append(reading)
        if problem:
            self._problems.append(f"line {self._draft.line}: {problem}")
        self._draft = None


def _name_in(name: str) -> str | None:
    """The collective that a file's name mentions."""
    found = [known for known in (*CONTRACTS, *OTHER_NAMES) if known in name]
    longest = max(found, key=len, default="")  # all_reduce, not reduce
    return OTHER_NAMES.get(longest, longest) or None
