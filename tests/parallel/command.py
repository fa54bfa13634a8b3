"""A command in a process of its own that need not import anything anew: forked from this one."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from parallel.__main__ import DOOR

ROOT = Path(__file__).parents[2]
RANK = re.compile("^(RANK|WORLD_SIZE|LOCAL_|MASTER_|TORCHELASTIC_|GROUP_|ROLE_)")


def environment() -> dict[str, str]:
    """No test is a rank of somebody's torchrun."""
    kept = {name: value for name, value in os.environ.items() if not RANK.match(name)}
    return {**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def forked(words: Sequence[object], timeout: float = 100) -> tuple[int, str, str]:
    """``python -m parallel WORDS``: its status, and what it has printed, on both streams."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = multiprocessing.get_context("fork").Process(
            target=_run, args=([*map(str, words)], out.fileno(), err.fileno())
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.terminate()
            process.join()
        out.seek(0)
        err.seek(0)
        assert process.exitcode is not None
        return process.exitcode, out.read().decode(), err.read().decode()


def _run(words: list[str], out: int, err: int) -> None:
    """In the fork."""
    os.environ.clear()
    os.environ.update(environment())
    for number, to in ((1, out), (2, err)):
        os.dup2(to, number)
    with open(os.devnull) as nothing, os.fdopen(1, "w", closefd=False) as one, os.fdopen(2, "w", closefd=False) as two:
        sys.stdin, sys.stdout, sys.stderr = nothing, one, two
        status = DOOR.main(words)
    os._exit(status)
