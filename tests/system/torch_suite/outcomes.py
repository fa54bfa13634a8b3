"""Run the suite once, in this process, and write down how every test ended::

python -m tests.system.torch_suite.outcomes plugin ring 2 --json FILE
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import time
import unittest
from dataclasses import asdict, dataclass
from pathlib import Path

from .modes import MODES

KINDS = ("pass", "fail", "skip")


@dataclass(frozen=True)
class Outcome:
    """``kind``: one of KINDS; reason: why it was skipped, or the last line of what it raised."""

    test: str
    kind: str
    reason: str
    seconds: float


class Listener(unittest.TestResult):
    """Writes one line of JSON per test, as soon as it is over."""

    def __init__(self, file) -> None:
        super().__init__()
        self._file, self._began = file, 0.0

    def startTest(self, test) -> None:
        super().startTest(test)
        self._began = time.monotonic()

    def addSuccess(self, test) -> None:
        self._write(test, "pass", "")

    def addSkip(self, test, reason) -> None:
        self._write(test, "skip", reason)

    def addFailure(self, test, error) -> None:
        ended = [process.exitcode for process in getattr(test, "processes", ())]  # one that crashed has said nothing
        print(test, self._exc_info_to_string(error, test), f"the ranks ended with {ended}", flush=True)
        self._write(test, "fail", _last_line(str(error[1])))

    addError = addFailure

    def _write(self, test, kind: str, reason: str) -> None:
        outcome = Outcome(test.id().split(".")[-1], kind, reason, round(time.monotonic() - self._began, 2))
        self._file.write(json.dumps(asdict(outcome)) + "\n")
        self._file.flush()


def _last_line(text: str) -> str:
    """What was raised, without the paths that led there."""
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    raised = [line for line in lines if line.split(":")[0].split(" ")[0].endswith(("Error", "Exception", "Failed"))]
    return (raised or lines or [""])[-1][:300]


def read(path: Path) -> dict[str, Outcome]:
    """By test, what a run wrote down."""
    outcomes = [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]
    return {outcome.test: outcome for outcome in outcomes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("backend")
    parser.add_argument("world", type=int)
    parser.add_argument("--json", required=True, help="where to write a line per test")
    parser.add_argument("--only", help="part of the name of the tests to run")
    options = parser.parse_args()
    faulthandler.enable()  # in the ranks, too, which are forked
    from .adapter import suite_of

    mode = MODES[options.mode]
    cls = suite_of(mode, options.backend, options.world)
    names = [name for name in unittest.TestLoader().getTestCaseNames(cls) if mode.holds(name)]
    tests = [cls(name) for name in names if options.only is None or options.only in name]
    with open(options.json, "w") as file:
        unittest.TestSuite(tests).run(Listener(file))


if __name__ == "__main__":
    main()
