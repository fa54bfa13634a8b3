"""Data parallel: every rank has the whole model and a share of the batch. By threads, and by processes.

    by threads: DataParallel                          by processes: DistributedDataParallel
    one process, the GIL, one machine                 a process a rank, on any number of machines

    device 0          device 1                        rank 0                   rank 1
    batch ──scatter──▶ share 1           1            share 0                  share 1
    model ──replicate─▶ copy             2            model                    model
    output ◀──gather── output            3            output, loss             output, loss
    loss ──its gradient─▶                4            gradient 0 ◀─all-reduce─▶ gradient 1
    sum ◀──gradients── gradient          5            step                     step
    step, on device 0 alone                           (the same step, on the same mean)

Five exchanges a step, all through device 0, against one in which every rank has the same part, and which runs while the
backward pass still does. DDP is usually faster, not always: threads on one machine share memory, and a slow link can
cost more than it saves.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_leaves

import collectives

from .alike import check_alike
from .reducer import Reducer, reduced_elsewhere
from .replicas import Exchanges, gather, replicate, run_in_threads, scatter
from .wire import WIRES, wait


class DataParallel(nn.Module):
    """Data parallel by threads: replicas in this process, each on its device, with its share of the batch.

    Args:
        module: lives on the first device, and is replica 0; its buffers are those that a step changes.
        devices: one a replica; None is all CUDA devices. A device may be named more than once: ``["cpu"] * 2`` are two
            replicas whose copies are real.

    A call cuts tensors along dimension 0 (a batch that does not divide: the first shares are a row longer; fewer rows
    than devices: fewer replicas), runs the replicas, and puts the outputs together on the first device, so that a loss
    of them is that of the whole batch. Random numbers differ from those of a single process.

    Attributes:
        exchanges: elements moved between devices so far: ``scatter``, ``replicate``, ``gather``, ``loss`` and
            ``gradients``; ``input gradients`` where somebody asked for them.

    Raises:
        ValueError: no parameters, no devices, or a module that is not on the first device.
    """

    def __init__(self, module: nn.Module, devices: Sequence[torch.device | str | int] | None = None) -> None:
        super().__init__()
        chosen = range(torch.cuda.device_count()) if devices is None else devices
        self.devices = [torch.device(device) for device in chosen]
        if not self.devices:
            raise ValueError(f'devices={devices!r}: name one a replica, for instance ["cpu"] * 2')
        homes = {parameter.device for parameter in module.parameters()}
        if not homes:
            raise ValueError("module has no parameters: there is nothing to replicate")
        if homes != {self.devices[0]} and not (len(homes) == 1 and homes.pop().type == self.devices[0].type == "cpu"):
            raise ValueError(f"module: its parameters must be on the first device; use module.to({self.devices[0]})")
        self.module = module
        self._exchanges = Exchanges()

    @property
    def exchanges(self) -> Counter[str]:
        return self._exchanges.elements

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's output for the whole batch, on the first device.

        Raises:
            ValueError: inputs with different numbers of rows; outputs that cannot be put together.
        """
        shares = scatter((args, kwargs), self.devices, self._exchanges)
        others = self.devices[1 : len(shares)]
        replicas = [self.module, *(replicate(self.module, device, self._exchanges) for device in others)]
        jobs = [partial(replica, *a, **k) for replica, (a, k) in zip(replicas, shares, strict=True)]
        return gather(run_in_threads(jobs), self.devices[0], self._exchanges)


class DistributedDataParallel(nn.Module):
    """Data parallel by processes: gradients become their mean over the group's ranks, while ``backward()`` runs.

    Args:
        module: the same on all ranks. Parameters and buffers are taken from the group's rank 0, whatever the seeds
            were; afterwards parameters stay alike because the gradients are, and buffers are each rank's own.
        group: the ranks that share the batch; None is the default group.
        bucket_mb: MiB of gradients that travel together; with 0 each parameter travels alone.
        wire: ``"fp16"``, ``"bf16"`` or ``"int8"``: gradients cross the wire in fewer bits (see ``wire``); what rounding
            takes away is added in the next step.

    The mean over ranks is the gradient of the whole batch if each rank's loss is a mean over an equal share of it, or a
    sum times ``loss.token_weight`` where ranks have different numbers of tokens.

    Parameters may be frozen, tied, used twice, or not used, on all ranks or on some: what no rank has used keeps
    ``grad=None``, what one has used has a gradient on all. Gradients are views of their buckets. A NaN on one rank is a
    NaN on all. ``torch.autograd.grad`` through the wrapper counts as a backward pass: use ``no_sync`` around it.

    Raises:
        ValueError: no parameters, none to train, wrapped already, a bucket or a wire that makes no sense, modules that
            differ between ranks (all ranks raise it).
    """

    def __init__(
        self,
        module: nn.Module,
        group: dist.ProcessGroup | None = None,
        bucket_mb: float = 25,
        wire: str | None = None,
    ) -> None:
        super().__init__()
        trainable = {name: p for name, p in module.named_parameters() if p.requires_grad and p.numel()}
        _check(module, trainable, bucket_mb, wire)
        self.module, self.group = module, group
        check_alike(module, f"bucket_mb={bucket_mb}, wire={wire}", group)
        take_from_first(module, group)
        self._reducer = Reducer(trainable, bucket_mb * 2**20, group, wire)
        self._wrapped = {id(p): (name, p.shape, p.dtype, p.device) for name, p in trainable.items()}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's output; the backward pass through it averages the gradients.

        Raises:
            ValueError: trainable parameters have been added, replaced, unfrozen or converted since wrapping.
        """
        if not torch.is_grad_enabled():
            return self.module(*args, **kwargs)
        self._check_unchanged()
        outputs = self.module(*args, **kwargs)
        self._reducer.watch(leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor))
        return outputs

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside only add to this rank's gradients; the first one after it averages all that added up.

        What counts is where ``backward()`` runs; the forward may be inside or outside.
        """
        before, self._reducer.enabled = self._reducer.enabled, False
        try:
            yield
        finally:
            self._reducer.enabled = before

    def holdings(self) -> dict[str, list[torch.Tensor]]:
        """For :class:`Ledger`: the buckets, and with a ``wire`` what rounding has taken away so far."""
        return {"gradients": [t for bucket in self._reducer.buckets for t in (bucket.flat, *bucket.transfer.held)]}

    def _check_unchanged(self) -> None:
        for name, p in self.module.named_parameters():
            if p.requires_grad and p.numel():
                known = self._wrapped.get(id(p))
                if known is None:
                    raise ValueError(
                        f"parameter {name!r} was not there, or not trainable, when the module was wrapped, so nobody "
                        "would average its gradient: wrap the module again"
                    )
                if known[1:] != (p.shape, p.dtype, p.device):
                    raise ValueError(
                        f"parameter {name!r} was {known[2]} {tuple(known[1])} on {known[3]} when the module was "
                        f"wrapped, and is {p.dtype} {tuple(p.shape)} on {p.device} now: wrap the module again"
                    )


def _check(module: nn.Module, trainable: dict[str, nn.Parameter], bucket_mb: float, wire: str | None) -> None:
    if not any(True for _ in module.parameters()):
        raise ValueError("module has no parameters: there is nothing to average")
    if not trainable:
        raise ValueError("module has no trainable parameter: set requires_grad, or use the module unwrapped")
    if not isinstance(bucket_mb, (int, float)) or not 0 <= bucket_mb < math.inf:
        raise ValueError(f"bucket_mb={bucket_mb!r}: give MiB of at least 0")
    if wire is not None and wire not in WIRES:
        raise ValueError(f"wire={wire!r}: give one of {', '.join(WIRES)}, or None for the gradients' own dtype")
    for name, p in trainable.items():
        if reduced_elsewhere(p):
            raise ValueError(f"parameter {name!r} is averaged by another wrapper already: wrap a module once")
        if wire is not None and not p.dtype.is_floating_point:
            raise ValueError(f"wire={wire!r}: parameter {name!r} is {p.dtype}, which has no fewer bits; use wire=None")


def take_from_first(module: nn.Module, group: dist.ProcessGroup | None) -> None:
    """Parameters and buffers become those of the group's rank 0."""
    tensors = [t.detach() for t in [*module.parameters(), *module.buffers()] if t.numel()]
    for handle in [collectives.broadcast(t, group=group, group_src=0, async_op=True) for t in tensors]:
        wait(handle)
