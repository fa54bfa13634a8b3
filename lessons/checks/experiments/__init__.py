"""What functions on real ranks are held against, by function: a file a part of the course."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiment import Experiment
from .checkpoints import CHECKPOINTS
from .zero import ZERO

EXPERIMENTS: Mapping[str, Experiment] = {**CHECKPOINTS, **ZERO}
