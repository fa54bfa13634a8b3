"""What a collective of the backend returns: a ``Work`` that tells the truth to Python, to C++ and to autograd."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import Variable
from torch.futures import Future

from ..errors import CollectiveError
from ..work import StreamWork
from .eager import eager

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work

    from ..buffers import Handle
else:
    from torch.distributed import Work

KEPT = 256
SMALL = 1024  # bytes of a result that may live a little longer than anybody wants it


class Kept:
    """The last works that nobody has waited for yet, and of the others those with small results.

    C++ holds only its own half of a work that it got through Python, and a half whose Python part is gone cannot be
    asked anything: DDP's join waits for one and then asks for its future. And the transport forgets a message whose
    handle is dropped.
    """

    def __init__(self) -> None:
        self._works: dict[int, Work] = {}
        self._lock = threading.Lock()

    def add(self, work: Work) -> None:
        with self._lock:
            self._works[id(work)] = work
            if len(self._works) > KEPT:
                del self._works[next(iter(self._works))]

    def drop(self, work: Work) -> None:
        with self._lock:
            self._works.pop(id(work), None)


class CollectiveWork(Work):
    """One collective, or several that were issued together.

    Args:
        handle: of the last of them; None when they are over.
        value: the tensors that hold the result, as ``result()`` and the future give them.
        kept: where to stay until somebody has waited.
    """

    def __init__(self, handle: Handle, value: list[Any], kept: Kept) -> None:
        super().__init__()
        self._handle, self._value, self._kept = handle, value, kept
        self._future: Future[list[Any]] | None = None
        if handle is not None:
            kept.add(self)

    @eager
    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until it is over; of an operation on CUDA: make the current stream wait.

        Args:
            timeout: how long to wait here; 0 waits as long as the operation's own timeout.

        Raises:
            CollectiveError: what went wrong with it, or ``timeout`` passed (the operation goes on).
        """
        try:
            if self._handle is not None:
                self._handle.wait(timeout or None)
        finally:
            if self.is_completed():
                self._release()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._handle is None or self._handle.is_completed()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """What went wrong, if it is over and something did."""
        return None if self._handle is None else self._handle.exception()

    def result(self) -> list[Any]:
        return self._value

    @eager
    def get_future(self) -> Future[list[Any]]:
        """A future of ``result()``; its callbacks run in the thread of the group's operations, before the next one."""
        if self._future is None:
            self._future = self._promise()
        return self._future

    def _promise(self) -> Future[list[Any]]:
        if isinstance(self._handle, StreamWork):
            future: Future[list[Any]] = Future(devices=[self._handle.stream.device])
            with torch.cuda.stream(self._handle.stream):  # whoever waits for the future waits for this stream
                future.set_result(self._value)
            return future
        future = Future()
        if self._handle is None:
            future.set_result(self._value)
            return future
        self._handle.then(partial(self._settle, future))
        if torch._C._current_graph_task_id() != -1:
            # DDP waits for the future in C++, where an error loses its type. Autograd asks us first.
            Variable._execution_engine.queue_callback(self.synchronize)
        return future

    def _release(self) -> None:
        """Somebody has what there is to have."""
        if sum(tensor.numel() * tensor.element_size() for tensor in _flat(self._value)) > SMALL:
            self._kept.drop(self)

    def _settle(self, future: Future[list[Any]]) -> None:
        self._release()
        error = self.exception()
        if error is None:
            future.set_result(self._value)
        else:
            future.set_exception(_Failed(error))  # type: ignore[arg-type]


def _flat(value: list[Any]) -> list[torch.Tensor]:
    """The tensors of a list, or of a list of lists."""
    return [tensor for item in value for tensor in (item if isinstance(item, (list, tuple)) else [item])]


class _Failed(CollectiveError):
    """An error in the place of a future's value.

    Torch stores it as if it were a result, and makes only Python's ``wait`` and ``value`` raise it. C++ looks for the
    tensors in it by pickling it (and would crash if it found none), so that raises, too.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.__dict__.update(vars(cause))
        self.__cause__ = cause

    def __reduce_ex__(self, protocol: object) -> Any:
        raise self.__cause__ or self


_Failed.__name__ = CollectiveError.__name__  # what C++ says of it
