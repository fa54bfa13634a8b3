"""A rank of ``examples/elastic.py`` that may kill itself; see ``test_elastic.py``.

Arguments: the checkpoint, a folder for notes, the number of steps, and for each start of the ranks ``RANK@STEP``: who
dies where.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path

import torch.distributed as dist


def main(checkpoint: str, notes: str, steps: str, *deaths: str) -> None:
    train = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "elastic.py"))["train"]
    start, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    dist.init_process_group("ring")
    fatal = deaths[start].split("@") if start < len(deaths) else None

    def note(text: str) -> None:
        with open(f"{notes}/{start}-{rank}", "a") as file:
            print(text, file=file)

    def die_or_go_on(step: int) -> None:
        note(f"step {step}")
        if fatal == [str(rank), str(step)]:
            note("dies")
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        train(Path(checkpoint), int(steps), die_or_go_on)
    except Exception as error:
        note(type(error).__name__)
        raise
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
