"""Collectives written once as schedules: proved, priced, drawn, and run over ``torch.distributed`` send and receive.

Everything public imports from here. Schedules need no torch; it is imported when a collective is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy

if TYPE_CHECKING:
    from .auto import choose
    from .combinators import place, rings, split
    from .communicator import Communicator
    from .cost import Machine
    from .errors import CollectiveError, MismatchError, ScheduleError
    from .flight import Flight, record
    from .graph import captured
    from .moving import (
        all_gather,
        all_gather_into_tensor,
        all_to_all,
        all_to_all_single,
        broadcast,
        gather,
        scatter,
    )
    from .proof import Proof, prove
    from .reducing import all_reduce, barrier, reduce, reduce_scatter, reduce_scatter_tensor
    from .registry import algorithms, find, register
    from .schedule import Buffer, Recv, Reduce, Schedule, Send
    from .work import Work

__version__ = "0.1.0"

_HOME = {
    "auto": ("choose",),
    "combinators": ("place", "rings", "split"),
    "communicator": ("Communicator",),
    "cost": ("Machine",),
    "errors": ("CollectiveError", "MismatchError", "ScheduleError"),
    "flight": ("Flight", "record"),
    "graph": ("captured",),
    "moving": (
        "all_gather",
        "all_gather_into_tensor",
        "all_to_all",
        "all_to_all_single",
        "broadcast",
        "gather",
        "scatter",
    ),
    "proof": ("Proof", "prove"),
    "reducing": ("all_reduce", "barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor"),
    "registry": ("algorithms", "find", "register"),
    "schedule": ("Buffer", "Recv", "Reduce", "Schedule", "Send"),
    "work": ("Work",),
}

__all__ = [
    "Buffer",
    "CollectiveError",
    "Communicator",
    "Flight",
    "Machine",
    "MismatchError",
    "Proof",
    "Recv",
    "Reduce",
    "Schedule",
    "ScheduleError",
    "Send",
    "Work",
    "algorithms",
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "captured",
    "choose",
    "find",
    "gather",
    "place",
    "prove",
    "record",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "register",
    "rings",
    "scatter",
    "split",
]

__getattr__, __dir__ = lazy(__name__, _HOME)
