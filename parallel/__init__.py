"""Data, tensor and pipeline parallelism on the collectives of this project.

Everything public imports from here. Schedules and closed forms need no torch; it is imported with what needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectives.lazy import lazy

if TYPE_CHECKING:
    from .clip import clip_grad_norm_
    from .data import DataParallel, DistributedDataParallel
    from .memory import Ledger
    from .mesh import Mesh
    from .pipeline.engine import Pipeline
    from .pipeline.stepper import Stepper
    from .precision import MixedPrecision, Precision
    from .quantize import quantize_
    from .recompute import checkpoint
    from .tensor import TensorParallel, parallelize_, vocab_parallel_cross_entropy
    from .zero import Zero

_HOME = {
    "clip": ("clip_grad_norm_",),
    "data": ("DataParallel", "DistributedDataParallel"),
    "memory": ("Ledger",),
    "mesh": ("Mesh",),
    "pipeline.engine": ("Pipeline",),
    "pipeline.stepper": ("Stepper",),
    "precision": ("MixedPrecision", "Precision"),
    "quantize": ("quantize_",),
    "recompute": ("checkpoint",),
    "tensor": ("TensorParallel", "parallelize_", "vocab_parallel_cross_entropy"),
    "zero": ("Zero",),
}

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "Ledger",
    "Mesh",
    "MixedPrecision",
    "Pipeline",
    "Precision",
    "Stepper",
    "TensorParallel",
    "Zero",
    "checkpoint",
    "clip_grad_norm_",
    "parallelize_",
    "quantize_",
    "vocab_parallel_cross_entropy",
]

__getattr__, __dir__ = lazy(__name__, _HOME)
