"""With whom a rank exchanges slices: who holds the other slices of the same copy, and who holds the same slice.

plain       one copy of the state, cut over all N ranks

hybrid      Mesh(dp_replicate=2, dp_shard=3): two copies, each cut over three ranks that sit close together

             copy 0   rank 0 ── rank 1 ── rank 2      along dp_shard: gather, reduce-scatter (all the volume)
                         │         │         │
             copy 1   rank 3 ── rank 4 ── rank 5      along dp_replicate: the sum of gradient slices (1/3 of it)
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

import collectives
from collectives.buffers import Handle
from collectives.communicator import communicator

from ..mesh import Mesh

GATHERS = ("all_gather", "broadcast")


class Exchange:
    """The collectives of ZeRO on one group, or on the two of a mesh.

    Args:
        group: None (all ranks), a process group, or a ``Mesh`` (its axis dp, or dp_shard and dp_replicate; tp and pp
            have other parameters, and a say in ``any``).
        gather: ``"all_gather"``: one operation; ``"broadcast"``: each owner sends its slice to all, one after another,
            as the paper draws it. Either way a rank receives (N−1)/N of the elements.

    Attributes:
        shard, replicate: the groups; rank, size: of ``shard``; everyone: both together; ranks: how many are in it.

    Raises:
        ValueError: no process group yet, no member of it, or another ``gather``.
    """

    def __init__(self, group: dist.ProcessGroup | Mesh | None = None, gather: str = "all_gather") -> None:
        if gather not in GATHERS:
            raise ValueError(f"gather={gather!r}: give one of {', '.join(GATHERS)}")
        self.replicate: dist.ProcessGroup | None = None
        self._model: list[dist.ProcessGroup] = []
        everyone = group.group("dp") if isinstance(group, Mesh) else group
        if isinstance(group, Mesh):
            hybrid = "dp_shard" in group.axes
            self.replicate = group.group("dp_replicate") if hybrid else None
            self._model = group.model_groups()
            group = group.group("dp_shard" if hybrid else "dp")
        shard = communicator(group)
        self.shard, self.rank, self.size = shard.group, shard.rank, shard.size
        self.ranks = self.size * (communicator(self.replicate).size if self.replicate is not None else 1)
        self.everyone: dist.ProcessGroup | None = everyone
        self._one_by_one = gather == "broadcast"

    def spread(self, tensor: torch.Tensor) -> None:
        """The first rank's tensor to all, in place.

        Raises:
            MismatchError: ranks have tensors of different shapes, so different models.
        """
        for group in self._groups():
            collectives.broadcast(tensor, group=group, group_src=0, check=True)

    def gather(self, whole: torch.Tensor, own: torch.Tensor) -> list[Handle]:
        """Every rank's slice into ``whole``; in the background."""
        if not self._one_by_one:
            return [collectives.all_gather_into_tensor(whole, own, self.shard, async_op=True)]
        slices = whole.chunk(self.size) if whole.numel() else []
        if slices and slices[self.rank].data_ptr() != own.data_ptr():
            slices[self.rank].copy_(own)
        return [
            collectives.broadcast(piece, group=self.shard, group_src=owner, async_op=True)
            for owner, piece in enumerate(slices)
        ]

    def reduce_scatter(self, own: torch.Tensor, whole: torch.Tensor) -> Handle:
        """The sum over the shard group of each rank's slice of ``whole`` into ``own``; in the background."""
        return collectives.reduce_scatter_tensor(own, whole, ReduceOp.SUM, self.shard, async_op=True)

    def sum_copies(self, own: torch.Tensor) -> None:
        """The sum over those that hold the same slice, in place."""
        if self.replicate is not None:
            collectives.all_reduce(own, ReduceOp.SUM, self.replicate)

    def any(self, flag: bool) -> bool:
        """Whether it is true on any rank, of a mesh also of those with other parameters: the same answer for all."""
        word = torch.tensor([flag], dtype=torch.uint8, device=self.device)
        for group in [*self._groups(), *self._model]:
            collectives.all_reduce(word, ReduceOp.MAX, group)
        return bool(word)

    @property
    def device(self) -> torch.device:
        """Where small words to the others must lie."""
        return torch.device("cuda" if communicator(self.shard).backend == "nccl" else "cpu")

    def _groups(self) -> list[dist.ProcessGroup]:
        return [self.shard, *([self.replicate] if self.replicate is not None else [])]
