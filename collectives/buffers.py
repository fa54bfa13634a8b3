"""A caller's tensors as the executor wants them, flat and contiguous, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .call import Call, Description, Seconds
from .communicator import Communicator
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
        self._read_only: list[int] = []
        self._written: list[int] = []
        self._inference = False

    def add(self, tensor: torch.Tensor, reads: bool, writes: bool) -> int:
        """The tensor's number. A contiguous one is used as it lies; of another, only what is read is copied in, and
        only what is written is copied back.

        Raises:
            ValueError: a tensor to write whose elements share memory (as ``expand`` makes them).
        """
        if tensor.requires_grad:
            tensor = tensor.detach()
        self._inference = self._inference or tensor.is_inference()
        (self._written if writes else self._read_only).append(len(self.tensors))
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
        describe: Description,
        *,
        algorithm: str | Schedule,
        async_op: bool,
        timeout: Seconds | None,
        check: bool | None,
        root: int = 0,
        combine: Combine | None = None,
        divide: Sequence[int] = (),
        splits: tuple[list[int], list[int]] | None = None,
    ) -> Handle:
        """Run the call, or start it.

        Args:
            layout: where the blocks lie in the tensors, by number.
            describe: says the call in words, the same on all ranks.
            divide: numbers of the tensors to divide by the number of ranks in the end (an average).
            splits: elements given to and taken from every rank, where they may differ.
        """
        for number in self._read_only:
            if any(_overlap(self.tensors[number], self.tensors[other]) for other in self._written):
                self.tensors[number] = self.tensors[number].clone()  # as it was before anything is written

        def after() -> None:
            for number in divide:
                self.tensors[number].div_(communicator.size)
            for tensor, work in self._back:
                tensor.copy_(work.view(tensor.shape))

        nbytes = sum(layout.lengths) * self.tensors[0].element_size()
        last: Callable[[], None] | None = after if divide or self._back else None
        call = Call(collective, algorithm, layout, self.tensors, nbytes, describe, root, combine, last, splits)
        call.inference = self._inference
        return communicator.run(call, async_op, timeout, check)


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two contiguous tensors share memory."""
    first, second = one.data_ptr(), other.data_ptr()
    return first < second + other.nbytes and second < first + one.nbytes
