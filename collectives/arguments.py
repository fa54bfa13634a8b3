"""Checks of what a caller gives, before anything is sent: gloo answers some misuses by ending the process."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from .call import Description
from .communicator import Communicator


def check_tensor(name: str, tensor: torch.Tensor, comm: Communicator) -> None:
    """A dense tensor on a device that the group's backend moves."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is of type {type(tensor).__name__}: give a torch.Tensor")
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} has layout {tensor.layout}: only dense tensors can be moved; use to_dense() first")
    wanted = "cuda" if comm.backend == "nccl" else "cpu"
    if tensor.device.type != wanted:
        raise ValueError(
            f"{name} is on {tensor.device}, but the group's backend {comm.backend} moves {wanted} tensors: "
            f"use {name}.to({wanted!r}), or a group of another backend"
        )


def check_tensors(comm: Communicator, **tensors: torch.Tensor) -> None:
    """Each one alone, and that all have the first one's dtype."""
    first: tuple[str, torch.Tensor] | None = None
    for name, tensor in tensors.items():
        check_tensor(name, tensor, comm)
        if first is None:
            first = name, tensor
        elif tensor.dtype != first[1].dtype:
            raise ValueError(
                f"{name} has dtype {tensor.dtype}, but {first[0]} {first[1].dtype}: give both the same dtype"
            )


def check_same(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    if tensor.numel() != other.numel():
        raise ValueError(
            f"{other_name} has {other.numel()} elements, but {name} {tensor.numel()}: all must be of one size"
        )


def block_lengths(name: str, tensors: Sequence[torch.Tensor], comm: Communicator) -> tuple[int, ...]:
    """Elements of each tensor of a list of one a rank."""
    if not isinstance(tensors, (list, tuple)):
        raise ValueError(f"{name} is of type {type(tensors).__name__}: give a list of {comm.size} tensors, one a rank")
    if len(tensors) != comm.size:
        raise ValueError(f"{name} has {len(tensors)} tensors, but the group {comm.size} ranks: give one a rank")
    for i, tensor in enumerate(tensors):
        check_tensor(f"{name}[{i}]", tensor, comm)
    return tuple(tensor.numel() for tensor in tensors)


def root_rank(
    name: str, rank: int | None, group_rank: int | None, comm: Communicator, default: int | None = None
) -> int:
    """The root as a rank of the group, from a global rank or a rank of the group; ``default``: a global one."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}={rank} and group_{name}={group_rank} are both given: give one")
    if group_rank is not None:
        if not isinstance(group_rank, int) or not 0 <= group_rank < comm.size:
            raise ValueError(f"group_{name}={group_rank!r}: the group's ranks are 0 to {comm.size - 1}")
        return group_rank
    rank = default if rank is None else rank
    if rank is None:
        raise ValueError(f"{name} is missing: give a global rank as {name}, or a rank of the group as group_{name}")
    members = dist.get_process_group_ranks(comm.group)
    if rank not in members:
        raise ValueError(
            f"{name}={rank!r} is not in the group, whose global ranks are {members}: "
            f"give one of them, or a rank of the group as group_{name}"
        )
    return members.index(rank)


def splits_of(name: str, tensor: torch.Tensor, rows: Sequence[int] | None, comm: Communicator) -> list[int]:
    """Elements of every block of a tensor that is cut along dimension 0."""
    total = tensor.shape[0] if tensor.dim() else tensor.numel()
    if rows is not None and not isinstance(rows, Sequence):
        raise ValueError(f"{name}_split_sizes={rows!r}: give a list of {comm.size} row counts")
    if rows is None or len(rows) == 0:
        if total % comm.size:
            raise ValueError(
                f"{name} has {total} rows, which {comm.size} ranks cannot share evenly: give {name}_split_sizes"
            )
        rows = [total // comm.size] * comm.size
    if len(rows) != comm.size or any(not isinstance(r, int) or r < 0 for r in rows) or sum(rows) != total:
        raise ValueError(
            f"{name}_split_sizes={list(rows)} must be {comm.size} row counts that add up to {total}, the rows of {name}"
        )
    row = tensor.numel() // total if total else 0
    return [r * row for r in rows]


def describe(collective: str, tensor: torch.Tensor, *words: str, shape: bool = True) -> str:
    """A call in words, the same on every rank that makes the same call."""
    return Description.of(collective, tensor, *words, shape=shape)()


def in_dtype(accumulate: torch.dtype | None) -> list[str]:
    """What ``describe`` says of a wider dtype to work in."""
    return [] if accumulate is None else [f"accumulated in {str(accumulate).removeprefix('torch.')}"]
