"""Environment variables for a while: libraries read theirs when something of them is made. Needs no torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def surroundings(variables: Mapping[str, str]) -> Iterator[None]:
    """These environment variables for a while; what was there before comes back."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
