"""The flight record: what every rank did last, written down when something goes wrong, and what that means.

============================  ==============================================================================
``flight``, ``entry``         what a rank keeps of its operations; ``watcher`` has it written while it hangs
``records``, ``pytorch``      files read back: ours, and those of PyTorch's own flight recorder
``meeting``, ``explanation``  what the ranks' records say together; ``lateness`` who did not come,
                              ``disagreement`` who called something else, ``words`` how it is said
============================  ==============================================================================

Only ``flight`` needs torch: names are loaded when they are used, so that records can be read anywhere.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .explanation import explain
    from .flight import Flight, current, record
    from .pytorch import read_dumps
    from .records import read_flights

_HOME = {
    "Flight": "flight",
    "current": "flight",
    "explain": "explanation",
    "read_dumps": "pytorch",
    "read_flights": "records",
    "record": "flight",
}

__all__ = ["Flight", "current", "explain", "read_dumps", "read_flights", "record"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value
