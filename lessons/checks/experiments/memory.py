"""The experiments of lessons 13 to 16."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiment import Experiment
from .offload import OFFLOAD
from .precision import MIXED_STEP
from .quantization import DEQUANTIZE, INT8_LINEAR, QUANTIZE, REDUCE_SCATTER
from .recompute import CHECKPOINT

MEMORY: Mapping[str, Experiment] = {
    "mixed_step": MIXED_STEP,
    "checkpoint": CHECKPOINT,
    "offload": OFFLOAD,
    "quantize": QUANTIZE,
    "dequantize": DEQUANTIZE,
    "reduce_scatter_int8": REDUCE_SCATTER,
    "int8_linear": INT8_LINEAR,
}
