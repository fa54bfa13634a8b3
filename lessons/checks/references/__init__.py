"""What formulas are compared with: examples, the library's own answers, and the mistakes that learners make.

A file a part of the course; the sentences of a part are in one file of the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..reference import Reference
from .budget import BUDGET
from .capstone import CAPSTONE
from .collectives import COLLECTIVES
from .data_parallel import DATA_PARALLEL
from .gpu_day import GPU_DAY
from .hangs import HANGS
from .inference import INFERENCE
from .memory import MEMORY
from .operations import OPERATIONS
from .pipelines import PIPELINES
from .scaling import SCALING
from .tensor import TENSOR
from .together import TOGETHER
from .zero import ZERO

REFERENCES: Mapping[str, Reference] = {
    **COLLECTIVES,
    **DATA_PARALLEL,
    **TENSOR,
    **PIPELINES,
    **BUDGET,
    **OPERATIONS,
    **SCALING,
    **INFERENCE,
    **TOGETHER,
    **CAPSTONE,
    **GPU_DAY,
    **HANGS,
    **MEMORY,
    **ZERO,
}
