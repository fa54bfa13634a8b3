"""Methods that ``torch.compile`` leaves alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def eager(method: Callable[P, T]) -> Callable[P, T]:
    """A method of a process group that Dynamo neither traces nor follows: it cannot look into the group.

    Dynamo takes seconds to load, so it is not loaded for this; a program that has never loaded it does not trace.
    """
    untraced: list[Callable[P, T]] = []

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not untraced:
            disable: Any = getattr(sys.modules.get("torch._dynamo"), "disable", None)
            if disable is None:
                return method(*args, **kwargs)
            untraced.append(disable(method))
        return untraced[0](*args, **kwargs)

    return call
