"""The ranks that share a layer, and how they exchange what they have."""

from __future__ import annotations

from dataclasses import dataclass

import torch.distributed as dist


@dataclass(frozen=True)
class TensorParallel:
    """How layers are shared.

    group: the ranks; None is the default group. They must have the same batch, and the same state of torch's random
    generator where there is dropout.
    sequence: between the blocks each rank has its share of the places only (sequence parallelism); what was one
    all-reduce is a reduce-scatter after a block and an all-gather before the next, of the same traffic.
    regather: with ``sequence``, a layer keeps its share of an input and gathers it again in the backward: 10 units of
    traffic a layer; False keeps the gathered input: 8 units, as without ``sequence``.
    ring: with ``sequence``, products and exchanges are cut into a chunk a rank, and each chunk is multiplied while the
    next is on its way (see ``overlap``).

    Raises:
        ValueError: ``ring`` without ``sequence``; no process group yet.
    """

    group: dist.ProcessGroup | None = None
    sequence: bool = False
    regather: bool = True
    ring: bool = False

    def __post_init__(self) -> None:
        if self.ring and not self.sequence:
            raise ValueError("ring=True, sequence=False: there is no gather to cut into chunks; set sequence=True")
        if not dist.is_initialized():
            raise ValueError("group: torch.distributed has no process group yet; call init_process_group first")

    @property
    def rank(self) -> int:
        """This process within the group."""
        return dist.get_rank(self.group)

    @property
    def size(self) -> int:
        return dist.get_world_size(self.group)
