"""One operation as the profiler sees it: from its issue to its end, in the thread of the operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch.autograd.profiler import record_function
from torch.futures import Future

from ..buffers import Handle
from ..communicator import Communicator
from ..work import StreamWork


def profiled(name: str, communicator: Communicator, issue: Callable[[], Handle]) -> Handle:
    """Issue an operation as a span of the profiler.

    The handle is over when the span is: whoever hears of the end may stop the profiler, and a span that ends only then
    is written into memory which the profiler has given back.
    """
    over: Future[None] = Future()
    with record_function(name) as span:
        handle = issue()
        span._call_end_callbacks_on_future(over)
    seen = communicator.in_turn(partial(_end, over, handle))
    if isinstance(handle, StreamWork):
        return handle
    if handle is not None:
        return seen
    seen.wait()
    return None


def _end(over: Future[None], handle: Handle) -> None:
    over.set_result(None)  # the span ends in here; a wait for ``over`` could return before that
    if handle is not None and (error := handle.exception()) is not None:
        raise error
