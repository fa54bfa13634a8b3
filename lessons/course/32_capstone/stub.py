"""{{stub.file}}"""

from __future__ import annotations

from lessons.planning import Pieces, Run


def parameters(run: Run, stage: int) -> float:
    """{{stub.parameters}}"""
    # TODO: {{stub.parameters_todo}}
    raise NotImplementedError


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
