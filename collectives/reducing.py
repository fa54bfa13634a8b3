"""Collectives that combine: twins of ``torch.distributed``'s, same shapes, names and argument order.

Every function takes

- ``algorithm``: ``"auto"``, a name with options (``"ring:channels=2"``), ``"FILE.py:name"`` or a ``Schedule``;
- ``check``: compare the calls of all ranks first (default: the environment variable ``COLLECTIVES_CHECK``);
- ``timeout``: seconds or a timedelta for the whole operation (default: the group's own);

and raises ``ValueError`` before anything is sent (a wrong argument), ``MismatchError`` (``check`` found that ranks
disagree) or ``CollectiveError`` (a peer died or stalled; the group is broken afterwards). ``group`` may be any group
that this rank is a member of; ``src`` and ``dst`` are global ranks, ``group_src`` and ``group_dst`` ranks of the group.
With ``async_op=True`` the operation runs in the background, and ``wait()`` of its handle raises what went wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from . import reduction
from .arguments import block_lengths, check_tensor, check_tensors, in_dtype, root_rank
from .buffers import Buffers, Handle
from .call import Description, Seconds
from .communicator import Communicator, communicator
from .layout import Layout, Region, flat, in_place, only, separate
from .schedule import Schedule

Group = dist.ProcessGroup | Communicator | None


def all_reduce(
    tensor: torch.Tensor,
    op: Any = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    accumulate: torch.dtype | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Combine ``tensor`` over all ranks, in place; the result is bitwise identical on every rank.

    Args:
        tensor: any shape; every dtype that torch can combine, bf16 and fp16 included; need not be contiguous.
        op: SUM, PROD, MIN, MAX, AVG (no integers), BAND, BOR or BXOR.
        accumulate: a wider dtype to send and add in; rounded once, at the end.
    """
    comm = communicator(group)
    check_tensor("tensor", tensor, comm)
    name = reduction.name_of(op)
    combine = reduction.combiner(name, reduction.working_dtype(name, tensor.dtype, accumulate))
    buffers = Buffers(accumulate)
    buffers.add(tensor, reads=True, writes=True)
    return buffers.start(
        comm,
        "all_reduce",
        in_place(tensor.numel()),
        Description.of("all_reduce", tensor, name, *in_dtype(accumulate)),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
        combine=combine,
        divide=[0] if name == "AVG" else (),
    )


def reduce(
    tensor: torch.Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    accumulate: torch.dtype | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Combine ``tensor`` over all ranks on rank ``dst``, in place there; the others keep theirs as it was."""
    comm = communicator(group)
    check_tensor("tensor", tensor, comm)
    root = root_rank("dst", dst, group_dst, comm)
    name = reduction.name_of(op)
    combine = reduction.combiner(name, reduction.working_dtype(name, tensor.dtype, accumulate))
    buffers = Buffers(accumulate)
    mine = comm.rank == root
    buffers.add(tensor, reads=True, writes=mine)
    return buffers.start(
        comm,
        "reduce",
        in_place(tensor.numel(), writes=mine),
        Description.of("reduce", tensor, name, f"to rank {root}", *in_dtype(accumulate)),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
        root=root,
        combine=combine,
        divide=[0] if name == "AVG" and mine else (),
    )


def reduce_scatter_tensor(
    output: torch.Tensor,
    input: torch.Tensor,
    op: Any = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    accumulate: torch.dtype | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Combine ``input`` (n blocks of ``output``'s size) over all ranks; rank r gets block r, ``input`` stays as is."""
    comm = communicator(group)
    check_tensors(comm, output=output, input=input)
    length = output.numel()
    if input.numel() != length * comm.size:
        raise ValueError(
            f"input has {input.numel()} elements, but {comm.size} ranks get {length} each: give it {length * comm.size}"
        )
    lengths = (length,) * comm.size
    return _reduce_scatter(comm, output, [input], lengths, None, op, accumulate, algorithm, async_op, timeout, check)


def reduce_scatter(
    output: torch.Tensor,
    input_list: list[torch.Tensor],
    op: Any = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    accumulate: torch.dtype | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Combine ``input_list[r]`` over all ranks into rank r's ``output``; blocks may differ in size."""
    comm = communicator(group)
    lengths = block_lengths("input_list", input_list, comm)
    check_tensors(comm, output=output, **{f"input_list[{i}]": t for i, t in enumerate(input_list)})
    if output.numel() != lengths[comm.rank]:
        raise ValueError(
            f"output has {output.numel()} elements, but input_list[{comm.rank}], which it gets, {lengths[comm.rank]}: "
            "make them equal"
        )
    return _reduce_scatter(comm, output, input_list, lengths, 0, op, accumulate, algorithm, async_op, timeout, check)


def _reduce_scatter(
    comm: Communicator,
    output: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    lengths: tuple[int, ...],
    first: int | None,
    op: Any,
    accumulate: torch.dtype | None,
    algorithm: str | Schedule,
    async_op: bool,
    timeout: Seconds | None,
    check: bool | None,
) -> Handle:
    """Both forms: one tensor of all blocks (``first`` None), or a tensor a block."""
    name = reduction.name_of(op)
    combine = reduction.combiner(name, reduction.working_dtype(name, output.dtype, accumulate))
    buffers = Buffers(accumulate)
    out = buffers.add(output, reads=False, writes=True)
    for tensor in inputs:
        buffers.add(tensor, reads=True, writes=False)
    regions = flat(1, lengths) if first is None else separate(1, lengths)
    layout = Layout(lengths, regions, only(comm.rank, Region(out, 0, output.numel()), comm.size))
    size = f"of {list(lengths)} elements" if len(set(lengths)) > 1 else f"of {lengths[0]} elements a rank"
    return buffers.start(
        comm,
        "reduce_scatter",
        layout,
        Description.of("reduce_scatter", output, name, size, *in_dtype(accumulate), shape=False),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
        combine=combine,
        divide=[out] if name == "AVG" else (),
    )


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: Sequence[int] | None = None,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Nobody leaves before everybody has come (on CUDA: before the streams have).

    ``device_ids`` is taken because torch takes it; the group knows its device.
    """
    comm = communicator(group)
    device = "cuda" if comm.backend == "nccl" else "cpu"
    buffers = Buffers()
    buffers.add(torch.zeros(1, dtype=torch.uint8, device=device), reads=True, writes=True)
    return buffers.start(
        comm,
        "barrier",
        in_place(1),
        Description("barrier"),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
        combine=reduction.combiner("BOR", torch.uint8),
    )
