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

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .explanation import explain
    from .flight import Flight, current, record
    from .pytorch import read_dumps
    from .records import read_flights

_HOME = {
    "explanation": ("explain",),
    "flight": ("Flight", "current", "record"),
    "pytorch": ("read_dumps",),
    "records": ("read_flights",),
}

__all__ = ["Flight", "current", "explain", "read_dumps", "read_flights", "record"]

__getattr__, __dir__ = lazy(__name__, _HOME)
