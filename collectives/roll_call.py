"""Before any group is made, the ranks tell each other what they have, so that a mixture is refused in a sentence.

Every rank writes its facts to the store where all meet, and reads those of all. The first rank, in which that store
commonly lives, leaves last: a mixture ends it, and a rank that has not read by then would see a lost connection.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

_KEY = "collectives/roll-call"
_PATIENCE = 30.0  # seconds: every rank has written by then, and needs only to read


@dataclass(frozen=True)
class Facts:
    """What one rank has.

    host, boot: its host by name, and which start of a machine that is, as containers may have equal names. gpu: what
    tells the GPU that it will use from others; gpus: how many it sees; torch, nccl: versions. Empty, 0 without NCCL.
    """

    host: str
    boot: str
    torch: str
    gpu: str = ""
    gpus: int = 0
    nccl: str = ""

    @property
    def machine(self) -> tuple[str, str]:
        return self.host, self.boot


def call_roll(store: Store, rank: int, size: int, mine: Facts, seconds: float) -> list[Facts]:
    """The facts of all ranks, in their order; every rank calls it.

    Raises:
        ValueError: a rank did not come within ``seconds``.
    """
    keys = [f"{_KEY}/{r}" for r in range(size)]
    store.set(keys[rank], json.dumps(asdict(mine)))
    try:
        store.wait(keys, timedelta(seconds=seconds))
    except RuntimeError as error:
        missing = [str(r) for r, key in enumerate(keys) if not store.check([key])]
        raise ValueError(
            f"rank {', '.join(missing)} did not come within {seconds:g} s: look at its output, or raise --timeout"
        ) from error
    everyone = [Facts(**json.loads(store.get(key))) for key in keys]
    store.set(f"{keys[rank]}/read", "")
    if rank == 0:
        with contextlib.suppress(RuntimeError):  # a rank that ended meanwhile says why itself
            store.wait([f"{key}/read" for key in keys], timedelta(seconds=min(seconds, _PATIENCE)))
    return everyone


def check_roll(everyone: Sequence[Facts]) -> None:
    """Refuse what cannot work, or cannot be compared.

    Raises:
        ValueError: two ranks on one GPU, hosts that differ in GPUs or ranks, or versions that differ.
    """
    hosts = {facts.machine: facts for facts in everyone}
    ranks = Counter(facts.machine for facts in everyone)
    for machine, facts in hosts.items():
        mine = [other.gpu for other in everyone if other.machine == machine and other.gpu]
        if len(set(mine)) < len(mine):
            raise ValueError(
                f"{len(mine)} ranks on {facts.host}, which has {len(set(mine))} of the GPUs that they see: one a GPU; "
                f"start {len(set(mine))} there, or use --backend gloo"
            )
    _check_alike("GPUs", [(f.host, f.gpus) for f in hosts.values()], "use nodes of one kind")
    _check_alike("ranks", [(f.host, ranks[machine]) for machine, f in hosts.items()], "start as many on every host")
    _check_alike("NCCL", [(f.host, f.nccl) for f in everyone], "install the same torch everywhere")
    _check_alike("torch", [(f.host, f.torch) for f in everyone], "install the same one everywhere")


def _check_alike(what: str, said: Sequence[tuple[str, object]], fix: str) -> None:
    if len({value for _, value in said}) > 1:
        shown = ", ".join(f"{host}: {value}" for host, value in list(dict.fromkeys(said))[:8])
        raise ValueError(f"the hosts differ in {what} ({shown}); {fix}")
