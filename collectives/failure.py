"""When a rank fails: tell the others at once, and say in one sentence what happened and who began it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist

from .errors import CollectiveError
from .executor import StepFailure
from .heartbeat import Sign

if TYPE_CHECKING:
    from .supervision import Supervision

T = TypeVar("T")

_KEY = "collectives/gave-up"
_PROBE = 2**31 - 1  # a tag that nobody sends with
_NOWHERE = torch.empty(1, dtype=torch.uint8)
_COURTESY = 0.3  # seconds in which the next rank in the chain of waits may still say why it gave up
_PATIENCE = 1.0  # seconds for the store, which may have died with its host
_LONGEST_CHAIN = 64
_CHECK = "check=True, or COLLECTIVES_CHECK=1, compares the calls"
_SILENT = f"is stalled, or called something else ({_CHECK})"


def give_up(communicator: Supervision, call: str, algorithm: str, stop: StepFailure) -> CollectiveError:
    """End this rank's part in a failed operation, and return the error for the caller.

    The rank leaves a word in the group's store: for whom it waited. It closes its connections, so that who waits for it
    raises within moments instead of at its timeout. Then it follows the others' words back to where it began.
    """
    closed = [] if _is_timeout(stop) else closed_peers(communicator)  # a timeout has closed this rank's own
    first = stop.peer if stop.culprit is None else stop.culprit
    if _is_closed(stop) and first not in closed:
        closed.append(first)
    word = {"peer": stop.peer, "call": call, "closed": closed}
    patiently(lambda: communicator.link.store.set(f"{_KEY}/{communicator.rank}", json.dumps(word)))
    close_connections(communicator)
    chain = patiently(lambda: _follow(communicator.link.store, communicator.rank, first)) or []
    where = f" at step {stop.step}" if algorithm else ""
    text = (
        f"{call}{algorithm and f' (algorithm {algorithm})'} failed on rank {communicator.rank}{where}: it waited "
        f"{stop.waited:.2f} s to {stop.verb} rank {stop.peer}; {'' if stop.culprit is None else 'meanwhile '}"
    )
    return CollectiveError(
        text + _in_words(communicator.rank, stop, closed, chain) + _disagreement(call, chain),
        operation=call.split(" ")[0],
        algorithm=algorithm,
        step=stop.step,
        peer=stop.peer if stop.culprit is None else (chain[-1][1]["peer"] if chain else stop.culprit),
        waited=stop.waited,
        cause=_cause(stop),
    )


def seen(rank: int, call: str, algorithm: str, waited: float, sign: Sign) -> CollectiveError:
    """The error of an operation that was under way on a device for ``waited`` seconds when ``sign`` was seen."""
    how = f" (algorithm {algorithm})" if algorithm else ""
    return CollectiveError(
        f"{call}{how} failed on rank {rank}, {waited:.2f} s after it was issued: {sign.words}",
        operation=call.split(" ")[0],
        algorithm=algorithm,
        peer=sign.rank,
        waited=waited,
        cause=sign.cause,
    )


def closed_peers(communicator: Supervision) -> list[int]:
    """Peers whose connection is closed: a receive from them cannot even be posted. (From others it can; nobody ever
    sends to it, and gloo forgets it with its handle.)"""
    if communicator.backend != "gloo" or communicator.destroyed:
        return []
    closed = []
    for peer in range(communicator.size):
        if peer != communicator.rank:
            try:
                communicator.link.wire.recv([_NOWHERE], peer, _PROBE)
            except RuntimeError:
                closed.append(peer)
    return closed


def who_gave_up(communicator: Supervision, ranks: list[int]) -> list[int]:
    """Those of the ranks that have left a word, and did not just leave when they had done their part."""
    return patiently(lambda: [r for r in ranks if communicator.link.store.check([f"{_KEY}/{r}"])]) or []


def close_connections(communicator: Supervision) -> None:
    """gloo closes the connections of a group when one of its waits times out, and only then."""
    if communicator.backend != "gloo" or communicator.destroyed:
        return
    for peer in range(communicator.size):
        if peer != communicator.rank:
            with contextlib.suppress(RuntimeError):
                communicator.link.wire.recv([_NOWHERE], peer, _PROBE).wait(timedelta(milliseconds=1))


def _follow(store: Any, rank: int, peer: int) -> list[tuple[int, dict[str, Any]]]:
    """The words of ``peer``, of the one it waited for, and so on, to one who has left none or has come before."""
    chain: list[tuple[int, dict[str, Any]]] = []
    until = time.monotonic() + _COURTESY
    while peer != rank and all(peer != before for before, _ in chain) and len(chain) < _LONGEST_CHAIN:
        key = f"{_KEY}/{peer}"
        while not store.check([key]) and time.monotonic() < until:
            time.sleep(0.01)
        if not store.check([key]):
            break
        word = json.loads(store.get(key))
        chain.append((peer, word))
        peer = word["peer"]
    return chain


def _in_words(rank: int, stop: StepFailure, closed: list[int], chain: list[tuple[int, dict[str, Any]]]) -> str:
    if not chain and not _is_timeout(stop) and not _is_closed(stop):
        said = str(stop.cause).splitlines()
        return ": ".join([type(stop.cause).__name__, *said[:1]])
    last = chain[-1][1]["peer"] if chain else stop.peer if stop.culprit is None else stop.culprit
    start = "".join(
        f"rank {peer} gave up, waiting for " if i == 0 else f"rank {peer}, which gave up, waiting for "
        for i, (peer, _) in enumerate(chain)
    )
    if last == rank:
        return f"{start}this one: it came too late, or the ranks do not make the same calls ({_CHECK})"
    if any(last == peer for peer, _ in chain):
        return f"{start}rank {last}: the ranks do not make the same calls ({_CHECK})"
    dead = last in closed or any(last in word["closed"] for _, word in chain)
    ending = "closed the connection without a word: it died or left the group" if dead else _SILENT
    if chain:
        return f"{start}rank {last}, which {ending}"
    return f"rank {last} {ending}" if dead else f"nothing happened before the timeout ended: rank {last} {ending}"


def _disagreement(call: str, chain: list[tuple[int, dict[str, Any]]]) -> str:
    others = [f"rank {peer} was in {word['call']}" for peer, word in chain if word["call"] != call]
    return f". The ranks disagree: {'; '.join(others)}" if others else ""


def _cause(stop: StepFailure) -> str:
    if stop.culprit is not None:
        return "others"
    return "timeout" if _is_timeout(stop) else "closed" if _is_closed(stop) else "error"


def _is_timeout(stop: StepFailure) -> bool:
    return "imed out" in str(stop.cause) or "Application timeout" in str(stop.cause)


def _is_closed(stop: StepFailure) -> bool:
    return any(word in str(stop.cause) for word in ("closed by peer", "reset by peer", "Broken pipe", "refused"))


def patiently(ask: Callable[[], T]) -> T | None:
    """The answer of the store, or None if there is none soon."""
    answer: list[T] = []

    def run() -> None:
        # no store, no word: the failure is told all the same
        with contextlib.suppress(dist.DistError, RuntimeError, ValueError, KeyError):
            answer.append(ask())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return answer[0] if answer else None
