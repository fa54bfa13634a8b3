"""Runs that hang, made anew for every check: what the learner's functions say of their flight records."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..answer import Answer
from ..catalogue import Catalogue
from ..said import Finding, Passed, Said, Shown
from .shows import Shows

RANKS = 4
PATIENCE = 1.5  # seconds after which a wait gives up
SECONDS = 20.0  # for each run


class Hung(Shows):
    """``blame`` and ``differing`` of the file, on runs of the library that hang; beside it what ``explain`` says."""

    def measure(self, answer: Answer, say: Catalogue) -> Iterator[Said | Shown | Passed | Finding]:
        import collectives.flight.flight  # noqa: F401  # here, and not in every rank

        from .references.hangs import blame, differing

        for name, run in RUNS.items():
            yield Said("hangs.runs", {"what": Said(f"hangs.run.{name}")})
            with tempfile.TemporaryDirectory(prefix="flight-") as folder:
                _launch(run, folder)
                paths = sorted(Path(folder).glob("rank*.json"))
                records = [json.loads(path.read_text("utf-8")) for path in paths]
                explained = _explained(paths)
            for function, right in (("blame", blame(records)), ("differing", differing(records))):
                said = _settled(getattr(answer.module, function)(records))
                fields = {"what": Said(f"hangs.run.{name}"), "function": function}
                if said != _settled(right):
                    numbers = {"said": repr(said), "right": repr(_settled(right))}
                    yield Finding(Said("hangs.other", {**fields, **numbers}), function, RANKS)
                    return
                yield Passed(Said("hangs.same", {**fields, "said": repr(said)}), function, (RANKS,))
            yield Shown(Said("hangs.explained", {"what": Said(f"hangs.run.{name}")}), (), tuple(explained))


def _explained(paths: list[Path]) -> list[Any]:
    """The library's own sentences, as ``python -m collectives explain`` has them."""
    from collectives.flight.explanation import explain
    from collectives.flight.records import read_flights

    return [found.sentence for found in explain(read_flights(paths))]


def _settled(value: Any) -> Any:
    """In an order of its own, as tuples."""
    try:
        return sorted(tuple(one) for one in value)
    except TypeError:
        return value


def _launch(run: Callable[[str], None], folder: str) -> None:
    from collectives import launch

    launch.run(run, RANKS, folder, timeout=SECONDS, grace=0.1)


# In a rank.


def _gives_up(call: Callable[[], object]) -> None:
    """Make a call that will not come to its end."""
    from collectives.errors import CollectiveError

    with contextlib.suppress(CollectiveError):
        call()


def _skips(folder: str) -> None:
    """Rank 2 looks at its own data, and leaves a call out."""
    import torch
    import torch.distributed as dist

    import collectives

    collectives.record(folder)
    collectives.all_reduce(torch.ones(7))
    if dist.get_rank() == 2:
        time.sleep(2 * PATIENCE)
    else:
        _gives_up(lambda: collectives.all_reduce(torch.ones(10), algorithm="ring", timeout=PATIENCE))


def _differs(folder: str) -> None:
    """Rank 1 calls something else."""
    import torch
    import torch.distributed as dist

    import collectives

    collectives.record(folder)
    collectives.all_reduce(torch.ones(7))
    if dist.get_rank() == 1:
        _gives_up(lambda: collectives.broadcast(torch.ones(12), 0, timeout=PATIENCE))
    else:
        _gives_up(lambda: collectives.all_reduce(torch.ones(12), algorithm="ring", timeout=PATIENCE))


def _crosses(folder: str) -> None:
    """Two groups of the same ranks: rank 0 calls in one first, the others in the other."""
    import torch
    import torch.distributed as dist

    import collectives

    groups = [dist.new_group(list(range(RANKS))) for _ in range(2)]
    collectives.record(folder)
    collectives.all_reduce(torch.ones(7))
    first = groups[0 if dist.get_rank() == 0 else 1]
    _gives_up(lambda: collectives.all_reduce(torch.ones(12), group=first, algorithm="ring", timeout=PATIENCE))


RUNS: Mapping[str, Callable[[str], None]] = {"skips": _skips, "differs": _differs, "crosses": _crosses}
