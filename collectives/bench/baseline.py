"""The backend's own collective under other settings: groups of the same ranks, made under different environments.

NCCL reads ``NCCL_ALGO`` and ``NCCL_PROTO`` when a communicator is made, so one process can hold several that differ:

    nccl               as it comes
    nccl-ring          NCCL_ALGO=Ring (which leaves NVLS out, as does NCCL_NVLS_ENABLE=0): like with like
    nccl-ring-simple   also NCCL_PROTO=Simple: what a ring of sends and receives can be like
    gloo-2             gloo has no such choice: a second group like the first, which should take as long

Whether NCCL has obeyed is read in its own log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from ..surroundings import surroundings

_CACHED = "NCCL_NVLS_ENABLE"  # read once a process, so no line of the log can confirm it for one group; the others can


@dataclass(frozen=True)
class Baseline:
    """A name and the environment that its group is made under."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def forced(self) -> dict[str, str]:
        """What the log must confirm."""
        return {name: value for name, value in self.environment.items() if name != _CACHED}


_RING = {"NCCL_ALGO": "Ring", _CACHED: "0"}
_OF = {
    "nccl": (Baseline("nccl-ring", _RING), Baseline("nccl-ring-simple", {**_RING, "NCCL_PROTO": "Simple"})),
    "gloo": (Baseline("gloo-2"),),
}


def baselines_of(backend: str) -> tuple[Baseline, ...]:
    """Those of a backend, beside itself as it comes."""
    return _OF.get(backend, ())


def make_group(
    baseline: Baseline, groups: Sequence[Sequence[int]], backend: str, device: torch.device
) -> dist.ProcessGroup:
    """This rank's group of the baseline; all ranks make all ``groups``, and use theirs once, so that it is set up."""
    mine: dist.ProcessGroup | None = None
    with surroundings(baseline.environment):
        for ranks in groups:
            group = dist.new_group(list(ranks), backend=backend)
            if dist.get_rank() in ranks:
                mine = group
        dist.all_reduce(torch.zeros(1, device=device), group=mine)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    assert mine is not None
    return mine
