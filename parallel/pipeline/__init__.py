"""Pipeline schedules: what each rank computes, which messages follow from it, and whether it is right."""

from .schedule import (
    Action,
    Backward,
    BackwardInput,
    BackwardWeight,
    Forward,
    PipelineSchedule,
    Step,
    loop,
    vee,
)
from .schedules import find, schedules
from .stages import Stages, Transfer
from .transfers import Exchange, with_transfers
from .validation import validate

__all__ = [
    "Action",
    "Backward",
    "BackwardInput",
    "BackwardWeight",
    "Exchange",
    "Forward",
    "PipelineSchedule",
    "Stages",
    "Step",
    "Transfer",
    "find",
    "loop",
    "schedules",
    "validate",
    "vee",
    "with_transfers",
]
