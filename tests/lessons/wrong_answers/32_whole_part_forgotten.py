# expects: parameters: norms and biases that are not split
# finding: parameters capstone.parameters.no_whole
# says: What tp leaves whole is missing: 6h a block, two norms of 2h and the two biases behind a split by rows.
from __future__ import annotations

from lessons.planning import Pieces, Run


def parameters(run: Run, stage: int) -> float:
    h, table = run.hidden, run.vocabulary * run.hidden / run.tp
    found = run.layers / run.pp * ((12 * h * h + 7 * h) / run.tp)
    if stage == 0:
        found += table + run.positions * h
    if stage == run.pp - 1:
        found += 2 * h + (table if run.pp > 1 else 0)
    return found


def state_bytes(run: Run) -> float:
    return 16 * max(parameters(run, stage) for stage in range(run.pp))


def sent(run: Run) -> tuple[float, float, float]:
    tokens = run.batch / run.dp / run.microbatches * run.sequence
    dp = 2 * (run.dp - 1) / run.dp * max(parameters(run, stage) for stage in range(run.pp))

    message = run.microbatches * tokens * run.hidden
    ends = message + run.vocabulary * run.hidden / run.tp
    pp = 0 if run.pp == 1 else ends if run.pp == 2 else max(ends, 2 * message)

    units = 8 * run.layers / run.pp + (2 if run.pp > 1 else 4)
    tp = run.microbatches * (units * run.hidden + 6) * tokens * (run.tp - 1) / run.tp
    return 4 * dp, 4 * pp, 4 * tp


def step_seconds(run: Run, pieces: Pieces) -> float:
    ranks = run.dp * run.pp * run.tp
    sums = run.microbatches * 4 * run.layers / run.pp
    messages = sums * 2 * (run.tp - 1) + 2 * (run.dp - 1) + (run.microbatches if run.pp > 1 else 0)
    work = pieces.whole + ranks * (messages * pieces.alpha + sum(sent(run)) * pieces.beta)
    if ranks > pieces.cores:
        return work / pieces.cores
    return work / ranks * (1 + (run.pp - 1) / run.microbatches)
