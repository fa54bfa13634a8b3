"""{{stub.file}}"""

from __future__ import annotations

from lessons.planning import Pieces, Run


def parameters(run: Run, stage: int) -> float:
    """{{stub.parameters}}"""
    h, table = run.hidden, run.vocabulary * run.hidden / run.tp
    found = run.layers / run.pp * ((12 * h * h + 7 * h) / run.tp + 6 * h)
    if stage == 0:
        found += table + run.positions * h
    if stage == run.pp - 1:
        found += 2 * h + (table if run.pp > 1 else 0)
    return found


def state_bytes(run: Run) -> float:
    """{{stub.state_bytes}}"""
    # TODO: {{stub.state_bytes_todo}}
    raise NotImplementedError


def sent(run: Run) -> tuple[float, float, float]:
    """{{stub.sent}}"""
    # TODO: {{stub.sent_todo}}
    raise NotImplementedError


def step_seconds(run: Run, pieces: Pieces) -> float:
    """{{stub.step_seconds}}"""
    # TODO: {{stub.step_seconds_todo}}
    raise NotImplementedError
