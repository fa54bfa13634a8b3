"""When a rank fails: say so to the others at once, and say in one sentence what happened."""

from __future__ import annotations

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
_PATIENCE = 0.5  # seconds for the store, which may have died with its host


def give_up(communicator: Communicator, call: str, stop: StepFailure) -> None:
    """Leave a word in the store, if nobody has, and close this rank's connections, so that whoever waits for it
    raises within moments instead of at its timeout."""
    if communicator.size == 1:
        return
    word = json.dumps({"rank": communicator.rank, "what": _what(call, stop), "call": call})
    _patiently(lambda: _get_process_group_store(communicator.group).compare_set(_KEY, "", word))
    if communicator.backend != "gloo":
        return
    for peer in range(communicator.size):
        if peer != communicator.rank:
            try:  # gloo closes the connections of a group when one of its waits times out, and only then
                communicator.group.recv([_NOWHERE], peer, _PROBE).wait(timedelta(milliseconds=1))
            except RuntimeError:
                continue


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


def explain(communicator: Communicator, call: str, algorithm: str, stop: StepFailure) -> CollectiveError:
    """The error that the caller gets: operation, algorithm, step, peer, wait, and who failed first."""
    text = (
        f"{call} (algorithm {algorithm}) failed on rank {communicator.rank} at step {stop.step}: it waited "
        f"{stop.waited:.2f} s to {stop.verb} rank {stop.peer}; {_cause(stop)}"
    )
    found: Any = _patiently(lambda: json.loads(_get_process_group_store(communicator.group).get(_KEY)))
    if found and found["rank"] != communicator.rank:
        text += f". Rank {found['rank']} failed first: {found['what']}"
        if found["call"] != call:
            text += f". The ranks disagree: rank {found['rank']} was in {found['call']}"
    return CollectiveError(
        text,
        operation=call.split(" ")[0],
        algorithm=algorithm,
        step=stop.step,
        peer=stop.peer,
        waited=stop.waited,
    )


def _what(call: str, stop: StepFailure) -> str:
    return f"at step {stop.step} of {call} it waited {stop.waited:.2f} s to {stop.verb} rank {stop.peer}; {_cause(stop)}"


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
