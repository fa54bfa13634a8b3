"""A caller's tensors as the executor wants them, flat and contiguous, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .communicator import Call, Communicator
from .layout import Layout
from .reduction import Combine
from .schedule import Schedule
from .work import StreamWork, Work

Handle = Work | StreamWork | None


class Buffers:
    """Collects the tensors of one call, numbered from 0 on, and starts it.

    Args:
        accumulate: a dtype to work in instead of the tensors' own.
    """

    def __init__(self, accumulate: torch.dtype | None = None) -> None:
        self.tensors: list[torch.Tensor] = []
        self.accumulate = accumulate
        self._back: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, tensor: torch.Tensor, reads: bool, writes: bool) -> int:
        """The tensor's number. A contiguous one is used as it lies; of another, only what is read is copied in, and
        only what is written is copied back.

        Raises:
            ValueError: a tensor to write whose elements share memory (as ``expand`` makes them).
        """
        if tensor.requires_grad:
            tensor = tensor.detach()
        dtype = self.accumulate or tensor.dtype
        if dtype == tensor.dtype and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
            self.tensors.append(tensor if tensor.dim() == 1 else tensor.view(-1))
            return len(self.tensors) - 1
        if writes and any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            raise ValueError(f"a tensor of shape {tuple(tensor.shape)} is expanded, so it cannot be written: clone it")
        work = torch.empty(tensor.numel(), dtype=dtype, device=tensor.device)
        if reads:
            work.view(tensor.shape).copy_(tensor)
        if writes:
            self._back.append((tensor, work))
        self.tensors.append(work)
        return len(self.tensors) - 1

    def start(
        self,
        communicator: Communicator,
        collective: str,
        layout: Layout,
        describe: Callable[[], str],
        *,
        algorithm: str | Schedule,
        async_op: bool,
        timeout: float | None,
        check: bool | None,
        root: int = 0,
        combine: Combine | None = None,
        divide: Sequence[int] = (),
    ) -> Handle:
        """Run the call, or start it.

        Args:
            layout: where the blocks lie in the tensors, by number.
            describe: says the call in words, the same on all ranks.
            divide: numbers of the tensors to divide by the number of ranks in the end (an average).
        """

        def after() -> None:
            for number in divide:
                self.tensors[number].div_(communicator.size)
            for tensor, work in self._back:
                tensor.copy_(work.view(tensor.shape))

        nbytes = sum(layout.lengths) * self.tensors[0].element_size()
        last: Callable[[], None] | None = after if divide or self._back else None
        call = Call(collective, algorithm, layout, self.tensors, nbytes, describe, root, combine, last)
        return communicator.run(call, async_op, timeout, check)
