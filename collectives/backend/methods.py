"""The collectives that ``torch.distributed`` and its clients call on a process group, by their newer and older names.

Arguments are torch's: lists of tensors, and options whose ``rootRank`` is a rank of the group. What every method does
is in :mod:`collectives.reducing` and :mod:`collectives.moving`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from .. import moving, reducing
from ..buffers import Handle
from . import sparse
from .eager import eager

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work

_CPU = torch.device("cpu")


class Methods:
    """Every method starts a collective and returns its work; in the background, unless the options say otherwise.

    Raises:
        ValueError: a wrong argument; nothing has been sent.
        CollectiveError: the group is broken, or a collective that is not asynchronous failed.
    """

    def _run(
        self, collective: str, device: torch.device, value: list[Any], opts: Any, calls: Sequence[Callable[..., Handle]]
    ) -> Work:
        """Issue the calls one after another, as one work with ``value`` for a result."""
        raise NotImplementedError

    # Everyone has something, and everyone gets the same.

    @eager
    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        """Of sparse tensors, too: such are the gradients of some embeddings."""
        if tensors[0].is_sparse:
            calls = [partial(sparse.all_reduce, tensor, _op(opts)) for tensor in tensors]
            return self._run("all_gather", _device(tensors), tensors, opts, calls)
        calls = [partial(reducing.all_reduce, tensor, _op(opts)) for tensor in tensors]
        return self._run("all_reduce", _device(tensors), tensors, opts, calls)

    allreduce_coalesced = allreduce

    @eager
    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        return self.all_gather_single_coalesced([output], [input], opts)

    @eager
    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        calls = [partial(moving.all_gather_into_tensor, *pair) for pair in zip(outputs, inputs, strict=True)]
        return self._run("all_gather", _device(inputs), outputs, opts, calls)

    @eager
    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        calls = [partial(moving.all_gather, *pair) for pair in zip(outputs, inputs, strict=True)]
        return self._run("all_gather", _device(inputs), outputs, opts, calls)

    @eager
    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        """``outputs[r][i]`` gets rank r's ``inputs[i]``."""
        by_input = [list(tensors) for tensors in zip(*outputs, strict=True)]
        calls = [partial(moving.all_gather, *pair) for pair in zip(by_input, inputs, strict=True)]
        return self._run("all_gather", _device(inputs), outputs, opts, calls)

    @eager
    def barrier(self, opts: Any = None) -> Work:
        device = getattr(opts, "device", None)
        if (
            device is not None and device.type == "cuda"
        ):  # what this rank's stream does is part of what the others wait for
            torch.cuda.current_stream(device).synchronize()
        return self._run("barrier", _CPU, [], opts, [reducing.barrier])

    # Everyone has something for everyone.

    @eager
    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    @eager
    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        pairs = zip(outputs, inputs, strict=True)
        calls = [partial(reducing.reduce_scatter_tensor, *pair, _op(opts)) for pair in pairs]
        return self._run("reduce_scatter", _device(inputs), outputs, opts, calls)

    @eager
    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Work:
        calls = [partial(reducing.reduce_scatter, *pair, _op(opts)) for pair in zip(outputs, inputs, strict=True)]
        return self._run("reduce_scatter", _device(outputs), outputs, opts, calls)

    @eager
    def all_to_all_single(
        self, output: Tensor, input: Tensor, output_splits: list[int], input_splits: list[int], opts: Any = None
    ) -> Work:
        call = partial(moving.all_to_all_single, output, input, output_splits, input_splits)
        return self._run("all_to_all", input.device, [output], opts, [call])

    @eager
    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        return self._run("all_to_all", _device(inputs), outputs, opts, [partial(moving.all_to_all, outputs, inputs)])

    # From one, or for one.

    @eager
    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Work:
        calls = [partial(moving.broadcast, tensor, group_src=_root(opts)) for tensor in tensors]
        return self._run("broadcast", _device(tensors), tensors, opts, calls)

    @eager
    def reduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        calls = [partial(reducing.reduce, tensor, op=_op(opts), group_dst=_root(opts)) for tensor in tensors]
        return self._run("reduce", _device(tensors), tensors, opts, calls)

    @eager
    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        """``outputs`` has one list on the root and none elsewhere."""
        call = partial(moving.gather, inputs[0], outputs[0] if outputs else None, group_dst=_root(opts))
        return self._run("gather", _device(inputs), outputs, opts, [call])

    @eager
    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Work:
        """``inputs`` has one list on the root and none elsewhere."""
        call = partial(moving.scatter, outputs[0], inputs[0] if inputs else None, group_src=_root(opts))
        return self._run("scatter", _device(outputs), outputs, opts, [call])

    # The names that torch called before 2.13.

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def _device(tensors: Sequence[Tensor]) -> torch.device:
    return tensors[0].device if tensors else _CPU


def _op(opts: Any) -> Any:
    return ReduceOp.SUM if opts is None else opts.reduceOp


def _root(opts: Any) -> int:
    return 0 if opts is None else int(opts.rootRank)
