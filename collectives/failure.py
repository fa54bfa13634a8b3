"""When a rank fails: say so to the others at once, and say in one sentence what happened."""

from __future__ import annotations

import contextlib
import json
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_process_group_store

from .errors import CollectiveError
from .executor import StepFailure

if TYPE_CHECKING:
    from .communicator import Communicator

_KEY = "collectives/first-failure"
_PROBE = 2**31 - 1  # a tag that nobody sends with
_NOWHERE = torch.empty(1, dtype=torch.uint8)
_PATIENCE = 1.0  # seconds for the store, which may have died with its host


def give_up(communicator: Communicator, call: str, algorithm: str, stop: StepFailure) -> CollectiveError:
    """End this rank's part in a failed operation, and return the error for the caller.

    A word in the store tells the others who failed first and why; closing this rank's connections makes whoever waits
    for it raise within moments instead of at its timeout.
    """
    what = (
        f"at step {stop.step} of {call} it waited {stop.waited:.2f} s to {stop.verb} rank {stop.peer}; {_cause(stop)}"
    )
    closed = [peer for peer in closed_peers(communicator) if peer != stop.peer]
    word = json.dumps({"rank": communicator.rank, "what": what, "call": call})
    first: Any = _patiently(lambda: _leave_word(_get_process_group_store(communicator.group), word))
    _close_connections(communicator)
    text = (
        f"{call} (algorithm {algorithm}) failed on rank {communicator.rank} at step {stop.step}: it waited "
        f"{stop.waited:.2f} s to {stop.verb} rank {stop.peer}; {_cause(stop)}"
    )
    if closed:
        text += "".join(f"; rank {peer} closed the connection, too" for peer in closed)
    if first and first["rank"] != communicator.rank:
        text += f". Rank {first['rank']} failed first: {first['what']}"
        if first["call"] != call:
            text += f". The ranks disagree: rank {first['rank']} was in {first['call']}"
    return CollectiveError(
        text,
        operation=call.split(" ")[0],
        algorithm=algorithm,
        step=stop.step,
        peer=stop.peer,
        waited=stop.waited,
    )


def _leave_word(store: Any, word: str) -> Any:
    """The first word that any rank left; ``word`` itself if there was none."""
    store.compare_set(_KEY, "", word)
    return json.loads(store.get(_KEY))


def _close_connections(communicator: Communicator) -> None:
    """gloo closes the connections of a group when one of its waits times out, and only then."""
    if communicator.backend != "gloo":
        return
    for peer in range(communicator.size):
        if peer != communicator.rank:
            with contextlib.suppress(RuntimeError):
                communicator.group.recv([_NOWHERE], peer, _PROBE).wait(timedelta(milliseconds=1))


def closed_peers(communicator: Communicator) -> list[int]:
    """Peers whose connection is closed: a receive from them cannot even be posted. (From others it can; nobody ever
    sends to it, and gloo forgets it with its handle.)"""
    if communicator.backend != "gloo":
        return []
    closed = []
    for peer in range(communicator.size):
        if peer != communicator.rank:
            try:
                communicator.group.recv([_NOWHERE], peer, _PROBE)
            except RuntimeError:
                closed.append(peer)
    return closed


def _cause(stop: StepFailure) -> str:
    said = str(stop.cause)
    if "imed out" in said or "Application timeout" in said:
        return (
            f"nothing happened in that time: rank {stop.peer} is stalled, or called something else "
            "(check=True compares the calls)"
        )
    if any(word in said for word in ("closed by peer", "reset by peer", "Broken pipe", "refused")):
        return f"rank {stop.peer} closed the connection: it died or gave up"
    return said.splitlines()[0]


def _patiently(ask: Any) -> Any:
    """The answer of the store, or None if there is none soon."""
    answer: list[Any] = []

    def run() -> None:
        try:
            answer.append(ask())
        except (dist.DistError, RuntimeError, ValueError):
            return  # no store, no word: the failure itself is reported all the same

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return answer[0] if answer else None
