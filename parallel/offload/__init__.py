"""A slower, larger place for what is not needed now: activations, optimizer states, or the whole update.

    place     holds                                        pays, a step
    device    what the next operators need
    host      Pinned(): beside a GPU                       every byte over PCIe, out and back
    disk      Disk(): beside a host without one            every byte over the disk, out and back

``Activations(tier)`` around a forward, ``OffloadedStates(optimizer, tier)`` around an optimizer, ``OnHost(params,
make)`` in its place: with :class:`parallel.Zero` that is ZeRO-Offload (Ren et al., 2021).
"""

from .activations import Activations
from .optimizers import OffloadedStates, OnHost
from .tiers import Disk, Pinned, Tier, tier_for

__all__ = ["Activations", "Disk", "OffloadedStates", "OnHost", "Pinned", "Tier", "tier_for"]
