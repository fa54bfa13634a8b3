"""Data parallel beside a pipeline: a gradient is averaged from a parameter's last weight gradient on.

rank of stage 2   … I2 W1 │ F3 I3 W2 │ W3              a hook of autograd would fire at every microbatch, and in a
                                      ├─ bucket 0 ─┤   split backward not at all; the schedule knows which W is
                                       ├─ bucket 1 ─┤  the last one
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import torch.distributed as dist
from torch import nn

from ..buckets import assign
from ..reducer import Bucket


class Reduction:
    """Averages the gradients of one chunk over the ranks that hold the same chunk, bucket by bucket.

    Args:
        parameters: the trainable ones by name, in the order of the forward pass.
        limit: bytes of a bucket; group: the ranks.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], limit: float, group: dist.ProcessGroup) -> None:
        names, values = list(parameters), list(parameters.values())
        self.buckets = [
            Bucket([names[i] for i in bucket], [values[i] for i in bucket], group, None)
            for bucket in assign([p.nbytes for p in values], [(p.dtype, p.device) for p in values], limit)
        ]
        self._places = {id(p): (b, i) for b in self.buckets for i, p in enumerate(b.parameters)}
        self._left = 0

    def begin(self) -> None:
        """A step begins: no gradient is complete."""
        self._left = 0
        for bucket in self.buckets:
            bucket.begin()

    def complete(self, parameters: Iterable[nn.Parameter]) -> None:
        """These have their last gradient. A bucket leaves when it is full and those before it have left."""
        for parameter in parameters:
            if id(parameter) in self._places:
                bucket, index = self._places[id(parameter)]
                if parameter.grad is not None:
                    bucket.arrived(index)
        while self._left < len(self.buckets) and not self.buckets[self._left].missing:
            self._leave()

    def finish(self) -> None:
        """Send what is left, where a parameter was not used, and wait for all means."""
        while self._left < len(self.buckets):
            self._leave()
        for bucket in self.buckets:
            bucket.arrive()

    def _leave(self) -> None:
        self.buckets[self._left].leave()
        self._left += 1


class Reductions:
    """The reduction of each chunk, and one of what is complete only at the very end: what is tied, or in two chunks.

    Args:
        chunks: the modules of this rank; tied: parameters that other ranks of the pipeline hold, too.
    """

    def __init__(
        self, chunks: nn.ModuleList, tied: dict[str, nn.Parameter], limit: float, group: dist.ProcessGroup
    ) -> None:
        owners: Counter[int] = Counter(id(p) for chunk in chunks for p in chunk.parameters())
        late = {id(p) for p in tied.values()} | {number for number, count in owners.items() if count > 1}

        def trainable(module: nn.Module, wanted: Callable[[nn.Parameter], bool]) -> dict[str, nn.Parameter]:
            return {n: p for n, p in module.named_parameters() if p.requires_grad and p.numel() and wanted(p)}

        early = [trainable(chunk, lambda p: id(p) not in late) for chunk in chunks]
        self._chunks = [Reduction(parameters, limit, group) for parameters in early]
        self._late = Reduction(trainable(chunks, lambda p: id(p) in late), limit, group)

    def of(self, chunk: int) -> Reduction:
        return self._chunks[chunk]

    def begin(self) -> None:
        for reduction in (*self._chunks, self._late):
            reduction.begin()

    def finish(self) -> None:
        """At the end of a step, when tied gradients have been added up."""
        self._late.complete(p for bucket in self._late.buckets for p in bucket.parameters)
        for reduction in (*self._chunks, self._late):
            reduction.finish()
