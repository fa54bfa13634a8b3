"""{{broken.file}}"""

from __future__ import annotations

from lessons.finished import finished
from lessons.planning import Pieces, Run

sent = finished("sent")


def step_seconds(run: Run, pieces: Pieces) -> float:
    """{{broken.step_seconds}}"""
    ranks = run.dp * run.pp * run.tp
    messages = 2 * (run.dp - 1) + (run.microbatches if run.pp > 1 else 0)
    dp, pp, _ = sent(run)
    work = run.dp * pieces.replica + ranks * (messages * pieces.alpha + (dp + pp) * pieces.beta)
    # {{broken.shared}}
    return work / min(ranks, pieces.cores)
