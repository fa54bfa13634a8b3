"""What functions on real ranks are held against, by function: a file a part of the course."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiment import Experiment
from .checkpoints import CHECKPOINTS
from .data_parallel import DATA_PARALLEL
from .memory import MEMORY
from .pipelines import PIPELINES
from .tensor import TENSOR
from .tensor_blocks import BLOCKS
from .tensor_vocabulary import VOCABULARY
from .together import TOGETHER
from .zero import ZERO

EXPERIMENTS: Mapping[str, Experiment] = {
    **TENSOR,
    **BLOCKS,
    **VOCABULARY,
    **PIPELINES,
    **TOGETHER,
    **DATA_PARALLEL,
    **MEMORY,
    **CHECKPOINTS,
    **ZERO,
}
