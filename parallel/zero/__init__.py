"""ZeRO: data parallel whose ranks each keep a slice of the state instead of a copy of all.

    bytes a parameter in mixed precision with Adam (K = 12), on N ranks

                 fp16 parameters   fp16 gradients   fp32 master, mean, variance
    stage 0             2                2                   12           everything everywhere: DDP
    stage 1             2                2                   12/N         optimizer states are cut
    stage 2             2                2/N                 12/N         gradients too
    stage 3             2/N              2/N                 12/N         parameters too

Who owns what is in ``partition``, when it is sent in ``plan``; ``flat`` is the memory of one slice and of what is whole
for a moment; ``passes`` is where autograd meets the plan; ``zero`` is what one uses. Source: Rajbhandari et al., "ZeRO:
memory optimizations toward training trillion parameter models", 2020.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectives.lazy import lazy

if TYPE_CHECKING:
    from .zero import Zero

__all__ = ["Zero"]

__getattr__, __dir__ = lazy(__name__, {"zero": ("Zero",)})  # the plan and the partition need no torch
