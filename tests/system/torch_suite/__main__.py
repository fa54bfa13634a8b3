"""PyTorch's own distributed tests in every mode, on ring and on gloo, and the report of how they ended::

python -m tests.system.torch_suite --report docs/torch-suite.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from collectives.atomic import write_text

from .modes import MODES
from .outcomes import read
from .report import Runs, missed, reference, report


def run(mode: str, backend: str, world: int, folder: Path) -> Path:
    """In a process of its own: the suite reads name and size when it is imported."""
    result = folder / f"{mode}-{backend}-{world}.jsonl"
    if result.exists():
        return result
    under_way = result.with_suffix(".part")
    command = [sys.executable, "-m", "tests.system.torch_suite.outcomes", mode, backend, str(world)]
    with result.with_suffix(".log").open("w") as log:
        subprocess.run([*command, "--json", str(under_way)], stdout=log, stderr=log, check=True)
    return under_way.rename(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", help="where to write the report")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--keep", help="a folder for the results; what it holds already is not run again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runs: Runs = {}
        for world in options.ranks:
            for mode in MODES.values():
                for key in ((mode.name, "ring", world), (reference(mode), "gloo", world)):
                    if key not in runs:
                        runs[key] = read(run(*key, folder))
                kinds = [outcome.kind for outcome in runs[mode.name, "ring", world].values()]
                counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("pass", "fail", "skip"))
                print(f"{mode.name}, {world} ranks: {counts}; missed: {[*missed(runs, mode, world)]}", flush=True)
    if options.report:
        write_text(options.report, report(runs, "python -m tests.system.torch_suite --report docs/torch-suite.md"))


if __name__ == "__main__":
    main()
