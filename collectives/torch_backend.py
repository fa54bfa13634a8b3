"""Unmodified PyTorch on our collectives::

    import collectives.torch_backend
    import torch.distributed as dist

    dist.init_process_group("ring")                                            # by the cost model
    dist.init_process_group("ring:double_tree")                                # one of ours, wherever it has a schedule
    dist.init_process_group("ring", pg_options={"all_reduce": "mine.py:ring"})  # by operation, for this group

    collectives.torch_backend.register("ring:mine", "mine.py:ring")            # a name of your own, for sub-groups, too
    dist.init_process_group("ring:mine")

Importing this module registers ``ring`` and ``ring:ALGORITHM`` for every built-in algorithm. Groups of these backends
run every collective of ``torch.distributed`` as a schedule of ours, over gloo's send and receive on CPU and over NCCL's
on CUDA.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from torch.distributed import Backend

from .backend.group import RingGroup
from .contract import contract_of
from .registry import BUILT_IN, find, find_all
from .schedule import Schedule

if TYPE_CHECKING:
    from torch._C._distributed_c10d import _DistributedBackendOptions

__all__ = ["register"]

Algorithm = str | Schedule


def register(name: str, algorithms: Algorithm | Mapping[str, Algorithm]) -> None:
    """Make ``name`` a backend of ``torch.distributed``; every rank must do so, before it makes the group.

    Args:
        name: ``ring:`` and a word in lower case.
        algorithms: one for every collective that it has a schedule for (a bare program is an all-reduce), or a dict by
            collective. Either as our functions take them: a name with options, ``FILE.py:name`` or a ``Schedule``. The
            rest is chosen by the cost model.

    Raises:
        ValueError: another form of name, the name of a built-in algorithm, or an algorithm that does not exist.
    """
    prefix, _, word = name.partition(":")
    if prefix != "ring" or not word.isidentifier() or word != word.lower():
        raise ValueError(f"name={name!r}: torch reads backend names in lower case; give one like 'ring:mine'")
    if word in BUILT_IN:
        raise ValueError(f"name={name!r} is built in: choose another")
    _register(name, _by_collective(algorithms))


def _by_collective(algorithms: Algorithm | Mapping[str, Algorithm]) -> dict[str, Schedule]:
    if isinstance(algorithms, Schedule):
        return {algorithms.collective: algorithms}
    if isinstance(algorithms, str):
        return {schedule.collective: schedule for schedule in find_all(algorithms)}
    if not isinstance(algorithms, Mapping):
        raise ValueError(f"{algorithms!r} is no algorithm: give a name, a Schedule, or a dict of them by collective")
    for collective in algorithms:
        contract_of(collective)
    return {collective: find(collective, algorithm) for collective, algorithm in algorithms.items()}


def _register(name: str, algorithms: Mapping[str, Schedule]) -> None:
    Backend.register_backend(name, partial(_create, algorithms), extended_api=True, devices=["cpu", "cuda"])


def _create(
    algorithms: Mapping[str, Schedule],
    options: _DistributedBackendOptions,
    pg_options: Mapping[str, Algorithm] | None,
) -> RingGroup:
    """A group of the backend; ``pg_options`` are algorithms by collective, which go before the backend's own."""
    return RingGroup(options, {**algorithms, **_by_collective(pg_options or {})})


_register("ring", {})
for _word in BUILT_IN:
    _register(f"ring:{_word}", _by_collective(_word))
