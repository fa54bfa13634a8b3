"""``explain``: read what the ranks of a job have left behind, and say what went wrong."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..flight.records import Flights
from ..flight.words import Finding
from ..sentence import Sentence, to_json

HELP = "say what went wrong in a job, from the records that its ranks have left in a folder"


@dataclass(frozen=True)
class Report:
    """kind: ``flight`` (ours), ``pytorch`` or ``messages`` (bare sends and receives). lines: where the ranks stand."""

    kind: str
    about: Sentence
    findings: list[Finding]
    lines: list[Sentence]

    @property
    def wrong(self) -> bool:
        return any(finding.wrong for finding in self.findings)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="the folder that the ranks have written into")
    parser.add_argument("--json", metavar="FILE", help="write every finding, as text and as a sentence with its fields")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """DIR holds one of

  rank0.json …    of collectives.record(), or of any program that ran with COLLECTIVES_RECORD_DIR=DIR
  rank0.jsonl …   of collectives.recorder: bare sends and receives
  …0, …1, …       PyTorch's own flight records, as pickles (TORCH_FR_DUMP_TEMP_FILE) or JSON

of one run. To have a job write its records while it hangs, send SIGUSR1 to any one of its ranks.

exit status: 0 if nothing is found wrong, 1 if something is, 2 if there is no record that can be read, or for a wrong
argument"""


def main(args: argparse.Namespace) -> int:
    from ..atomic import check_writable, write_text

    try:
        if args.json:
            check_writable("--json", args.json)
        reports = list(explain_directory(Path(args.directory)))
        if args.json:
            write_text(args.json, json.dumps({"reports": [_as_json(report) for report in reports]}, indent=1) + "\n")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for report in reports:
        print(report.about)
        for finding in report.findings:
            print(f"{finding.kind if finding.wrong else f'({finding.kind})'}: {finding.sentence}")
        for line in report.lines if report.wrong else ():
            print(f"  {line}")
        if not report.wrong:
            print(Sentence("explain.well", "nothing is wrong"))
    restarts = tuple(str(path) for path in sorted(Path(args.directory).glob("restart*")) if path.is_dir())
    if restarts:
        print(Sentence("explain.restarts", "records of restarts lie in {folders}", folders=restarts))
    return 1 if any(report.wrong for report in reports) else 0


def explain_directory(directory: Path) -> Iterator[Report]:
    """What the records in a folder say, one report for each kind that is there. O(operations · ranks).

    Raises:
        ValueError: there is no such folder, no record in it, or none of a kind that can be read.
    """
    from ..flight.pytorch import dumps_in, read_dumps
    from ..flight.records import is_flight, read_flights

    if not directory.is_dir():
        raise ValueError(Sentence("explain.no_folder", "DIR {path}: there is no such folder", path=str(directory)))
    ours = [path for path in sorted(directory.glob("rank*.json")) if is_flight(path)]
    theirs = dumps_in(path for path in sorted(directory.iterdir()) if path not in ours)
    bare = any(directory.glob("rank*.jsonl"))
    if ours:
        yield _of_flights("flight", read_flights(ours))
    if theirs:
        yield _of_flights("pytorch", read_dumps(theirs))
    if bare:
        yield _of_messages(directory)
    if not (ours or theirs or bare):
        raise ValueError(
            Sentence(
                "explain.no_record",
                "DIR {path}: no record of a rank is in it (rank0.json, rank0.jsonl, or what PyTorch dumps)",
                path=str(directory),
            )
        )


def _of_flights(kind: str, flights: Flights) -> Report:
    from ..flight.explanation import explain
    from ..flight.words import chain, standing

    if not flights.records:
        raise ValueError(flights.unreadable[0])
    about = Sentence(
        "explain.flights",
        "{records} of {size} ranks left a record, of {operations} operations in all",
        records=len(flights.records),
        size=flights.size,
        operations=sum(len(record.operations) for record in flights.records.values()),
    )
    waits = chain(flights)
    return Report(kind, about, explain(flights), standing(flights) + ([waits] if waits else []))


def _of_messages(directory: Path) -> Report:
    from ..explanation import explain
    from ..log import read_log
    from ..rendezvous import replay

    log = read_log(directory)
    about = Sentence(
        "explain.messages",
        "{size} ranks left a record of their sends and receives, {operations} in all",
        size=len(log.operations),
        operations=sum(map(len, log.operations.values())),
    )
    said = explain(log)
    if said is not None:
        return Report("messages", about, [Finding("messages", said)], [])
    deadlock = replay(log).deadlock
    if deadlock is None:
        return Report("messages", about, [], [])
    said = Sentence(
        "explain.buffered", "this went well only because messages were buffered: {deadlock}", deadlock=deadlock
    )
    return Report("messages", about, [Finding("buffered", said)], [])


def _as_json(report: Report) -> dict[str, object]:
    return {
        "kind": report.kind,
        "about": str(report.about),
        "findings": [
            {
                "kind": finding.kind,
                "wrong": finding.wrong,
                "ranks": list(finding.ranks),
                "text": str(finding.sentence),
                "sentence": to_json(finding.sentence),
            }
            for finding in report.findings
        ],
        "standing": [str(line) for line in report.lines],
    }
