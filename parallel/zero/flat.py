"""The memory of one partition on one rank: what it keeps, and what is whole for a moment.

                 at rest, stage 3                     while the layer runs            gradients are reduced
    whole        ┌╌╌╌╌╌┬╌╌╌╌╌┬╌╌╌╌╌┐ (no memory)     ┌─────┬─────┬─────┐
    parameters   empty tensors                        views of whole
    shard              ┌─────┐ ── gather ───────────▶ (all slices)
    master             ┌─────┐ fp32, if shard is rounded                               ▲ the optimizer writes its pieces
    gradient           ┌─────┐                                                         │
    bucket                                                                   ┌─────┬───┴─┬─────┐ ── reduce-scatter
                                                                                 filled gradient by gradient

In stages 1 and 2 ``shard`` is this rank's part of ``whole``, which stays. Freeing gives back the storage under
``whole`` and keeps the tensor, for autograd has saved views of it: filled again, they are right again.
"""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import nn

from collectives.buffers import Handle

from ..wire import NOTHING, is_nothing, wait
from .exchange import Exchange
from .partition import Partition


class Flat:
    """Parameters of one dtype that are cut together, all trainable or all frozen.

    Args:
        parameters: by name; their values become those of the group's first rank.
        exchange: the other ranks.
        sharded: stage 3: nothing whole is kept.
        compute: dtype of the parameters from now on; None keeps theirs.
        wire: dtype in which gradients are summed and kept; None is that of the parameters.

    Attributes:
        shard: this rank's slice, in the dtype of the parameters; master: the same in fp32 if that is a rounded one,
            else ``shard`` itself.
        pieces: each parameter's part of ``master``, for the optimizer: n elements as (n, 1, …), with as many dimensions
            as the parameter has (at least one); none of frozen ones. spans: where they lie in the slice.
        gradient: the slice of reduced gradients since the last ``take``, as they crossed the wire.
    """

    def __init__(
        self,
        parameters: dict[str, nn.Parameter],
        exchange: Exchange,
        sharded: bool,
        compute: torch.dtype | None,
        wire: torch.dtype | None,
    ) -> None:
        self.names, self.parameters = list(parameters), list(parameters.values())
        self.exchange, self.sharded = exchange, sharded
        first = self.parameters[0]
        self.trainable = first.requires_grad
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.partition = Partition(tuple(parameter.numel() for parameter in self.parameters), exchange.size)
        self._starts = [0, *accumulate(self.partition.sizes)]
        given = torch.zeros(self.partition.padded, dtype=first.dtype, device=first.device)
        for view, parameter in zip(self.views(given), self.parameters, strict=True):
            view.copy_(parameter.detach())
        exchange.spread(given)
        self.whole = given.to(compute) if compute is not None and given.is_floating_point() else given
        own = slice(exchange.rank * self.partition.length, (exchange.rank + 1) * self.partition.length)
        self.shard = self.whole[own].clone() if sharded else self.whole[own]
        rounded = self.trainable and self.whole.dtype != given.dtype and self.whole.dtype.itemsize == 2
        self.master = given[own].float().clone() if rounded else self.shard
        self.spans = self.partition.pieces(exchange.rank) if self.trainable else []
        self.pieces = [
            nn.Parameter(self.master[low:high].view(-1, *[1] * (len(shape) - 1)))
            for (low, high), shape in zip(self.spans, self.shapes, strict=False)
        ]
        self.used = [False] * len(self.pieces)
        self.gradient: torch.Tensor | None = None
        self.bucket: torch.Tensor | None = None
        self._wire = wire or self.whole.dtype
        self._collected: set[int] = set()
        self._flying: tuple[torch.Tensor, torch.Tensor, Handle] | None = None
        self._gathering: list[Handle] | None = None
        self._nothing = torch.empty(0, dtype=self.whole.dtype, device=self.whole.device)
        self._answers = [i for i, (low, high) in enumerate(self.spans) if high > low]  # whose use this rank will see
        self.resident = True
        self._show()

    def views(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """The parameters in a tensor of ``partition.padded`` elements."""
        sizes = self.partition.sizes
        parts = whole[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def _view(self, whole: torch.Tensor, index: int) -> torch.Tensor:
        """One of them."""
        start, size = self._starts[index], self.partition.sizes[index]
        return whole[start : start + size].view(self.shapes[index])

    @property
    def is_copy(self) -> bool:
        """Whether parameters are copies, so that what is written to them is lost at the next gather or step."""
        return self.sharded or self.master is not self.shard

    def in_place(self, index: int) -> bool:
        """Whether a parameter is still the view of ``whole`` that it was made."""
        wanted = self._view(self.whole, index) if self.resident else self._nothing
        parameter = self.parameters[index]
        return parameter.data_ptr() == wanted.data_ptr() and parameter.shape == wanted.shape

    # Parameters.

    def gather(self) -> None:
        """Begin to fetch the other slices, unless they are here or on their way."""
        if self.resident or self._gathering is not None:
            return
        self.whole.untyped_storage().resize_(self.whole.numel() * self.whole.itemsize)
        self._gathering = self.exchange.gather(self.whole, self.shard)

    def arrive(self) -> None:
        """Make the parameters whole: wait for the slices, and fetch them if nobody has."""
        if self.resident:
            return
        self.gather()
        for handle in self._gathering or []:
            wait(handle)
        self._gathering, self.resident = None, True
        self._show()

    def free(self) -> None:
        """Give back what is whole; nothing in stages 1 and 2."""
        if not self.sharded:
            return
        if self._gathering is not None:
            self.arrive()
        for parameter in self.parameters:
            parameter.data = self._nothing
        self.whole.untyped_storage().resize_(0)
        self.resident = False

    def _show(self) -> None:
        for parameter, view in zip(self.parameters, self.views(self.whole), strict=True):
            parameter.data = view

    def publish(self) -> None:
        """The optimizer has changed the master: round it into the shard; stages 1 and 2: begin to fetch the others."""
        if self.master is not self.shard:
            self.shard.copy_(self.master)
        if self.sharded:
            self.free()  # what may be whole is of yesterday
        else:
            self._gathering, self.resident = self.exchange.gather(self.whole, self.shard), False

    # Gradients.

    def collect(self, index: int) -> None:
        """Move a parameter's gradient into the bucket; it was used, so it is no −0.0 there."""
        parameter = self.parameters[index]
        gradient = parameter.grad
        if gradient is None:
            return
        view = self._view(self._filling(), index)
        gradient = (gradient.to_dense() if gradient.is_sparse else gradient).to(view.dtype)  # may round to −0.0
        before = view if index in self._collected else 0.0  # a reentrant backward brings it in parts
        torch.add(gradient, before, out=view)
        parameter.grad = None
        self._collected.add(index)

    def _filling(self) -> torch.Tensor:
        """The bucket; a new one has nothing in it yet."""
        if self.bucket is None:
            self._collected.clear()
            self.bucket = torch.empty(self.partition.padded, dtype=self._wire, device=self.whole.device)
        return self.bucket

    @property
    def waiting(self) -> bool:
        """Whether this rank has gradients that have not been sent."""
        return self.bucket is not None or any(parameter.grad is not None for parameter in self.parameters)

    def reduce(self) -> None:
        """Begin to sum the bucket over ranks; where this rank has no gradients, it sends nothing's −0.0."""
        self.settle()
        for index in range(len(self.parameters)):
            self.collect(index)
        bucket, self.bucket = self._filling(), None
        for index in {*range(len(self.parameters))} - self._collected:
            self._view(bucket, index).fill_(NOTHING)
        bucket[sum(self.partition.sizes) :].fill_(NOTHING)  # the padding
        own = bucket.new_empty(self.partition.length)
        self._flying = own, bucket, self.exchange.reduce_scatter(own, bucket)

    def settle(self) -> None:
        """Wait for the sum, and add the mean to the gradient that is here."""
        if self._flying is None:
            return
        (own, _, handle), self._flying = self._flying, None
        wait(handle)
        self.exchange.sum_copies(own)
        starts = [self.spans[i][0] for i in self._answers]
        for i, nothing in zip(self._answers, is_nothing(own[starts]).tolist(), strict=True):
            self.used[i] = self.used[i] or not nothing
        own.div_(self.exchange.ranks)
        self.gradient = own if self.gradient is None else self.gradient.add_(own)

    def take(self, unscale: float) -> torch.Tensor | None:
        """Hand the gradient to the pieces, in their dtype and divided by the loss scale; the slice of it, if any."""
        fresh, self.gradient = self.gradient, None
        if fresh is None:
            return None
        fresh = fresh.to(self.master.dtype)
        if unscale != 1.0:
            fresh.mul_(unscale)
        for piece, used, (low, high) in zip(self.pieces, self.used, self.spans, strict=True):
            if used:
                mine = fresh[low:high].view_as(piece)
                piece.grad = mine if piece.grad is None else piece.grad.add_(mine)
        return fresh

    def drop(self) -> None:
        """Forget all gradients."""
        self.settle()
        self.gradient = self.bucket = None
        self.used = [False] * len(self.pieces)
        for each in [*self.parameters, *self.pieces]:
            each.grad = None

    def holdings(self) -> dict[str, list[torch.Tensor]]:
        """All tensors that are held now: parameters, gradients (with what is on its way), and the fp32 master."""
        gradients = [self.bucket, self.gradient, *(self._flying or ())[:2]]
        gradients += [each.grad for each in [*self.parameters, *self.pieces]]
        return {
            "parameters": [self.whole, self.shard],
            "gradients": [gradient for gradient in gradients if gradient is not None],
            "optimizer": [self.master] if self.master is not self.shard else [],
        }
