"""The report of all runs, in Markdown."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Iterator

import torch

from .modes import MODES, Mode
from .outcomes import KINDS, Outcome

Run = dict[str, Outcome]
Runs = dict[tuple[str, str, int], Run]  # by mode, backend and world

REASONS = {
    "test_get_backend": "asserts the name that this mode replaces (`ring` is not `gloo`); passes in mode plugin",
    "test_monitored_barrier": "`monitored_barrier` is gloo's own call: torch.distributed refuses it for any other name",
}
UNEXPLAINED = "**unexplained**"


def reference(mode: Mode) -> str:
    """The mode of gloo's run to compare with: gloo taken for gloo is gloo."""
    return "plugin" if mode.taken_for == "gloo" and not mode.shim else mode.name


def reason_for(test: str) -> str:
    return next((reason for start, reason in REASONS.items() if test.startswith(start)), UNEXPLAINED)


def missed(runs: Runs, mode: Mode, world: int) -> dict[str, Outcome]:
    """What gloo passes and ring does not; in mode plugin only what ring fails, since there its name skips the rest."""
    ours, gloos = runs[mode.name, "ring", world], runs[reference(mode), "gloo", world]
    wanted = {test for test in ours if test in gloos and gloos[test].kind == "pass"}
    wrong = ("fail",) if mode.taken_for is None else ("fail", "skip")
    return {test: ours[test] for test in sorted(wanted) if ours[test].kind in wrong}


def report(runs: Runs, command: str) -> str:
    worlds = sorted({world for _, _, world in runs})
    return "\n".join(
        [
            *_head(command),
            *_counts(runs, worlds),
            *_misses(runs, worlds),
            *_kept_for_gloo(runs, worlds),
            *_only_ring(runs, worlds),
            *_fail_on_both(runs, worlds),
            *_why_skipped(runs, worlds[0]),
            "",
        ]
    )


HEAD = """\
# PyTorch's own distributed tests on backend `ring`

torch's wheel holds the tests of its distributed package (`torch.testing._internal.distributed`). They run here
unchanged, on ranks that are forked, against backend `ring` and against gloo. Most of them ask for the name of the
backend first, so there are four ways to run them; the process group is always the one named in the row, and no
assertion is touched.

| mode | what the suite is told |
|---|---|
| plugin | the backend's own name, and through PyTorch's hooks for backends from elsewhere what it can do |
| as-gloo | its name is gloo: opens timeouts, futures, sparse sums |
| as-mpi | its name is mpi: opens all-to-all on the CPU and groups in small worlds (these tests only) |
| shim | its name is gloo, and every rank has a GPU (which is the CPU): opens most of DDP |

torch {torch}, Python {python}, {system}, no GPU. Made by

    {command}
"""


def _head(command: str) -> Iterator[str]:
    yield HEAD.format(
        torch=torch.__version__, python=platform.python_version(), system=platform.system(), command=command
    )


def _counts(runs: Runs, worlds: list[int]) -> Iterator[str]:
    yield "## How they end"
    yield ""
    yield "| mode | ranks | ring: pass | fail | skip | gloo: pass | fail | skip | missed | seconds, ring / gloo |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for mode in MODES.values():
        for world in worlds:
            both = runs[mode.name, "ring", world], runs[reference(mode), "gloo", world]
            counts = [Counter(outcome.kind for outcome in run.values()) for run in both]
            cells = [str(count[kind]) for count in counts for kind in KINDS]
            seconds = " / ".join(f"{sum(outcome.seconds for outcome in run.values()):.0f}" for run in both)
            misses = len(missed(runs, mode, world))
            yield f"| {mode.name} | {world} | {' | '.join(cells)} | {misses} | {seconds} |"
    yield ""
    yield "Missed: gloo passes it in this mode, ring does not. (In mode plugin: ring fails it; what it skips is below.)"
    yield ""


def _misses(runs: Runs, worlds: list[int]) -> Iterator[str]:
    where: defaultdict[str, list[str]] = defaultdict(list)
    errors: dict[str, str] = {}
    for mode in MODES.values():
        for test, ranks in _by_test(runs, mode, worlds).items():
            where[test].append(f"{mode.name} ({', '.join(map(str, ranks))})")
            errors[test] = missed(runs, mode, ranks[0])[test].reason
    yield f"## Missed: {len(where)} tests"
    yield ""
    yield "| test | mode (ranks) | what it says | why |"
    yield "|---|---|---|---|"
    for test in sorted(where):
        yield f"| {test} | {', '.join(where[test])} | {_cell(errors[test])} | {reason_for(test)} |"
    yield ""


def _by_test(runs: Runs, mode: Mode, worlds: list[int]) -> dict[str, list[int]]:
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for world in worlds:
        for test in missed(runs, mode, world):
            ranks[test].append(world)
    return ranks


def _kept_for_gloo(runs: Runs, worlds: list[int]) -> Iterator[str]:
    yield "## Skipped in mode plugin, because the suite keeps them for gloo by name"
    yield ""
    yield "gloo passes these; what ring does with them is seen in mode as-gloo."
    yield ""
    yield "| test | ring in mode as-gloo |"
    yield "|---|---|"
    tests: dict[str, list[str]] = {}
    for world in worlds:
        ours, gloos = runs["plugin", "ring", world], runs["plugin", "gloo", world]
        for test, outcome in ours.items():
            if outcome.kind == "skip" and gloos[test].kind == "pass":
                tests.setdefault(test, []).append(f"{world}: {runs['as-gloo', 'ring', world][test].kind}")
    for test in sorted(tests):
        yield f"| {test} | {', '.join(tests[test])} |"
    yield ""


def _only_ring(runs: Runs, worlds: list[int]) -> Iterator[str]:
    yield "## Passed by ring, failed by gloo"
    yield ""
    yield "| mode | test | gloo says |"
    yield "|---|---|---|"
    for mode in MODES.values():
        seen: dict[str, str] = {}
        for world in worlds:
            gloos = runs[reference(mode), "gloo", world]
            for test, outcome in runs[mode.name, "ring", world].items():
                if outcome.kind == "pass" and gloos[test].kind == "fail":
                    seen.setdefault(test, gloos[test].reason)
        for test in sorted(seen):
            yield f"| {mode.name} | {test} | {_cell(seen[test])} |"
    yield ""


def _fail_on_both(runs: Runs, worlds: list[int]) -> Iterator[str]:
    yield "## Failed by both"
    yield ""
    yield "The shim is no GPU, and a group of the ranks 1 and 2 needs three ranks."
    yield ""
    yield "| what they say | tests |"
    yield "|---|---|"
    by_error: defaultdict[str, set[str]] = defaultdict(set)
    for mode in MODES.values():
        for world in worlds:
            gloos = runs[reference(mode), "gloo", world]
            for test, outcome in runs[mode.name, "ring", world].items():
                if outcome.kind == gloos[test].kind == "fail":
                    by_error[gloos[test].reason].add(test)
    for error in sorted(by_error):
        yield f"| {_cell(error)} | {', '.join(sorted(by_error[error]))} |"
    yield ""


def _why_skipped(runs: Runs, world: int) -> Iterator[str]:
    yield f"## Why the suite skips the rest (mode plugin, {world} ranks)"
    yield ""
    yield "| reason | ring | gloo |"
    yield "|---|---|---|"
    ours, gloos = (
        Counter(outcome.reason for outcome in runs["plugin", backend, world].values() if outcome.kind == "skip")
        for backend in ("ring", "gloo")
    )
    for reason, _ in (ours + gloos).most_common():
        yield f"| {_cell(reason)} | {ours[reason]} | {gloos[reason]} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
