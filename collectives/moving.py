"""Collectives that move: twins of ``torch.distributed``'s, same shapes, names and argument order; every dtype.

As in ``reducing``, every function takes

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

import torch
import torch.distributed as dist

from .arguments import block_lengths, check_same, check_tensor, check_tensors, root_rank, splits_of
from .buffers import Buffers, Handle
from .call import Description, Seconds
from .communicator import Communicator, communicator
from .layout import Layout, Region, flat, in_place, only, separate
from .schedule import Schedule

Group = dist.ProcessGroup | Communicator | None


def broadcast(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Rank ``src``'s ``tensor`` replaces everybody's; every dtype."""
    comm = communicator(group)
    check_tensor("tensor", tensor, comm)
    root = root_rank("src", src, group_src, comm)
    mine = comm.rank == root
    buffers = Buffers()
    buffers.add(tensor, reads=mine, writes=not mine)
    return buffers.start(
        comm,
        "broadcast",
        in_place(tensor.numel(), reads=mine),
        Description.of("broadcast", tensor, f"from rank {root}"),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
        root=root,
    )


def all_gather_into_tensor(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: Group = None,
    async_op: bool = False,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Every rank's ``input_tensor`` one after another in ``output_tensor`` (n times its elements), on every rank.

    ``input_tensor`` may be this rank's own block of ``output_tensor``.
    """
    comm = communicator(group)
    check_tensors(comm, output_tensor=output_tensor, input_tensor=input_tensor)
    length = input_tensor.numel()
    if output_tensor.numel() != length * comm.size:
        raise ValueError(
            f"output_tensor has {output_tensor.numel()} elements, but {comm.size} ranks gather {length} each: "
            f"give it {length * comm.size}"
        )
    lengths = (length,) * comm.size
    buffers = Buffers()
    out = buffers.add(output_tensor, reads=False, writes=True)
    outputs = flat(out, lengths)
    mine = outputs[comm.rank]
    own = buffers.tensors[out].narrow(0, mine.offset, length)
    if own.data_ptr() == input_tensor.data_ptr() and input_tensor.is_contiguous():
        inputs = only(comm.rank, mine, comm.size)
    else:
        number = buffers.add(input_tensor, reads=True, writes=False)
        inputs = only(comm.rank, Region(number, 0, length), comm.size)
    return buffers.start(
        comm,
        "all_gather",
        Layout(lengths, inputs, outputs),
        Description.of("all_gather", input_tensor),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
    )


def all_gather(
    tensor_list: list[torch.Tensor],
    tensor: torch.Tensor,
    group: Group = None,
    async_op: bool = False,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Rank r's ``tensor`` into ``tensor_list[r]`` on every rank; ranks may give tensors of different sizes."""
    comm = communicator(group)
    lengths = block_lengths("tensor_list", tensor_list, comm)
    check_tensors(comm, tensor=tensor, **{f"tensor_list[{i}]": t for i, t in enumerate(tensor_list)})
    if tensor.numel() != lengths[comm.rank]:
        raise ValueError(
            f"tensor has {tensor.numel()} elements, but tensor_list[{comm.rank}], where it goes, {lengths[comm.rank]}: "
            "make them equal"
        )
    buffers = Buffers()
    number = buffers.add(tensor, reads=True, writes=False)
    for out in tensor_list:
        buffers.add(out, reads=False, writes=True)
    layout = Layout(lengths, only(comm.rank, Region(number, 0, tensor.numel()), comm.size), separate(1, lengths))
    return buffers.start(
        comm,
        "all_gather",
        layout,
        Description.of("all_gather", tensor, f"of {list(lengths)} elements", shape=False),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
    )


def gather(
    tensor: torch.Tensor,
    gather_list: list[torch.Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Every rank's ``tensor`` (all of one size) into ``gather_list[r]`` on rank ``dst``; None elsewhere."""
    comm = communicator(group)
    root = root_rank("dst", dst, group_dst, comm, default=0)
    mine = comm.rank == root
    outputs = _root_list("gather_list", gather_list, mine, tensor, comm)
    buffers = Buffers()
    number = buffers.add(tensor, reads=True, writes=False)
    for out in outputs:
        buffers.add(out, reads=False, writes=True)
    lengths = (tensor.numel(),) * comm.size
    homes = separate(1, lengths) if mine else (None,) * comm.size
    return buffers.start(
        comm,
        "gather",
        Layout(lengths, only(comm.rank, Region(number, 0, tensor.numel()), comm.size), homes),
        Description.of("gather", tensor, f"to rank {root}"),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
        root=root,
    )


def scatter(
    tensor: torch.Tensor,
    scatter_list: list[torch.Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Rank ``src``'s ``scatter_list[r]`` (all of one size) into rank r's ``tensor``; None elsewhere."""
    comm = communicator(group)
    root = root_rank("src", src, group_src, comm, default=0)
    mine = comm.rank == root
    inputs = _root_list("scatter_list", scatter_list, mine, tensor, comm)
    buffers = Buffers()
    number = buffers.add(tensor, reads=False, writes=True)
    for given in inputs:
        buffers.add(given, reads=True, writes=False)
    lengths = (tensor.numel(),) * comm.size
    starts = separate(1, lengths) if mine else (None,) * comm.size
    return buffers.start(
        comm,
        "scatter",
        Layout(lengths, starts, only(comm.rank, Region(number, 0, tensor.numel()), comm.size)),
        Description.of("scatter", tensor, f"from rank {root}"),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
        root=root,
    )


def _root_list(
    name: str, tensors: list[torch.Tensor] | None, mine: bool, tensor: torch.Tensor, comm: Communicator
) -> list[torch.Tensor]:
    check_tensor("tensor", tensor, comm)
    if not mine:
        if tensors:
            raise ValueError(f"{name} is given on rank {comm.rank}, which is not the root: leave it None there")
        return []
    if tensors is None:
        raise ValueError(f"{name} is None on rank {comm.rank}, the root: give it a list of {comm.size} tensors")
    block_lengths(name, tensors, comm)
    check_tensors(comm, tensor=tensor, **{f"{name}[{i}]": t for i, t in enumerate(tensors)})
    for i, other in enumerate(tensors):
        check_same("tensor", tensor, f"{name}[{i}]", other)
    return tensors


def all_to_all_single(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """Block j of ``input`` goes to rank j, where it is block (this rank) of ``output``.

    Args:
        output_split_sizes, input_split_sizes: rows (of dimension 0) of every block; None cuts evenly.
    """
    comm = communicator(group)
    check_tensors(comm, output=output, input=input)
    into = splits_of("output", output, output_split_sizes, comm)
    given = splits_of("input", input, input_split_sizes, comm)
    buffers = Buffers()
    source = buffers.add(input, reads=True, writes=False)
    target = buffers.add(output, reads=False, writes=True)
    return _all_to_all(
        comm, buffers, flat(source, given), flat(target, into), input, algorithm, async_op, timeout, check
    )


def all_to_all(
    output_tensor_list: list[torch.Tensor],
    input_tensor_list: list[torch.Tensor],
    group: Group = None,
    async_op: bool = False,
    *,
    algorithm: str | Schedule = "auto",
    check: bool | None = None,
    timeout: Seconds | None = None,
) -> Handle:
    """``input_tensor_list[j]`` goes to rank j, into its ``output_tensor_list[this rank]``; sizes may differ."""
    comm = communicator(group)
    given = block_lengths("input_tensor_list", input_tensor_list, comm)
    into = block_lengths("output_tensor_list", output_tensor_list, comm)
    both = {f"input_tensor_list[{i}]": t for i, t in enumerate(input_tensor_list)}
    check_tensors(comm, **both, **{f"output_tensor_list[{i}]": t for i, t in enumerate(output_tensor_list)})
    buffers = Buffers()
    for tensor in input_tensor_list:
        buffers.add(tensor, reads=True, writes=False)
    for tensor in output_tensor_list:
        buffers.add(tensor, reads=False, writes=True)
    return _all_to_all(
        comm,
        buffers,
        separate(0, given),
        separate(comm.size, into),
        input_tensor_list[0],
        algorithm,
        async_op,
        timeout,
        check,
    )


def _all_to_all(
    comm: Communicator,
    buffers: Buffers,
    inputs: tuple[Region, ...],
    outputs: tuple[Region, ...],
    like: torch.Tensor,
    algorithm: str | Schedule,
    async_op: bool,
    timeout: Seconds | None,
    check: bool | None,
) -> Handle:
    given, into = [r.length for r in inputs], [r.length for r in outputs]
    if given[comm.rank] != into[comm.rank]:
        raise ValueError(
            f"rank {comm.rank} gives itself {given[comm.rank]} elements but takes {into[comm.rank]}: make input block "
            f"{comm.rank} and output block {comm.rank} equal"
        )
    return buffers.start(
        comm,
        "all_to_all",
        Layout(tuple(given), inputs, outputs),
        Description.of("all_to_all", like, shape=False),
        algorithm=algorithm,
        async_op=async_op,
        timeout=timeout,
        check=check,
        splits=(given, into),
    )
