"""The ways to run the suite, which asks for the backend's name before most of its tests.

| mode | the suite takes the backend for | and so runs |
|---|---|---|
| plugin | itself, opened by PyTorch's own hooks for backends from elsewhere | what any backend may run |
| as-gloo | gloo | what is kept for gloo by name: timeouts, futures, sparse sums |
| as-mpi | MPI | what is kept for MPI by name: all-to-all on CPU, groups of few ranks |
| shim | gloo, with a GPU in every rank that is the CPU | most of DDP: these tests write ``.cuda(rank)`` |

Only the name and the devices change: the process group is always the backend's, and no assertion is touched.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """``taken_for``: the name that the suite sees, None: the backend's own. shim: whether the CPU poses as GPUs.

    only, never: parts of the names of tests, to run no others or not those.
    """

    name: str
    taken_for: str | None = None
    shim: bool = False
    only: tuple[str, ...] = ("test_",)
    never: tuple[str, ...] = ()

    def holds(self, test: str) -> bool:
        return any(part in test for part in self.only) and not any(part in test for part in self.never)


MODES = {
    mode.name: mode
    for mode in (
        Mode("plugin"),
        Mode("as-gloo", taken_for="gloo"),
        Mode("as-mpi", taken_for="mpi", only=("all_to_all", "_group", "coalesced")),
        # uneven inputs are minutes of convolutions on a CPU
        Mode("shim", taken_for="gloo", shim=True, never=("test_ddp_uneven_inputs",)),
    )
}
