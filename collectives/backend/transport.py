"""What moves the backend's bytes: gloo's send and receive, or NCCL's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ..link import Link

if TYPE_CHECKING:
    from torch._C._distributed_c10d import PrefixStore, _DistributedBackendOptions
else:
    from torch.distributed import PrefixStore


@dataclass(frozen=True, slots=True)
class Transport:
    """Moves messages: ``up`` to higher ranks, ``down`` to lower ones.

    With gloo they are the same. On NCCL a send and a receive between two ranks would wait for each other on one stream;
    two process groups have two.
    """

    backend: str
    up: Any
    down: Any

    @classmethod
    def of(cls, options: _DistributedBackendOptions, device: torch.device) -> Transport:
        """For tensors on that type of device.

        Raises:
            ValueError: neither CPU nor CUDA; RuntimeError: CUDA, and there is none here.
        """
        rank, size = options.group_rank, options.group_size
        if device.type == "cpu":
            store = PrefixStore("gloo", options.store)
            gloo = dist.ProcessGroupGloo(store, rank, size, timeout=options.timeout)
            return cls("gloo", gloo, gloo)
        if device.type != "cuda":
            raise ValueError(f"a tensor is on {device}, but backend ring moves tensors on cpu and cuda: move it there")
        if not torch.cuda.is_available():
            raise RuntimeError("a tensor on cuda needs a CUDA device, and this process sees none")
        ways = []
        for way in ("up", "down"):
            how = dist.ProcessGroupNCCL.Options()
            how._timeout = options.timeout
            how.global_ranks_in_group = options.global_ranks_in_group
            ways.append(dist.ProcessGroupNCCL(PrefixStore(f"nccl {way}", options.store), rank, size, how))
        return cls("nccl", *ways)

    def link(self, options: _DistributedBackendOptions) -> Link:
        """What a communicator needs of it."""
        seconds = options.timeout.total_seconds()
        return Link(options.group_rank, options.group_size, self.backend, self.up, options.store, seconds)
