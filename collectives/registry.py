"""Algorithms by name: the built-in ones, and a user's own from a file or a module."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .combinators import ordered, rings
from .contract import CONTRACTS, contract_of
from .schedule import ChunkCount, Program, Schedule, Symmetric, _per_rank
from .sentence import Sentence

BUILT_IN = (
    "ring",
    "chain",
    "binomial",
    "double_tree",
    "recursive_doubling",
    "halving_doubling",
    "direct",
    "bruck",
    "hierarchical",
    "dissemination",
    "naive",
)

_registered: dict[tuple[str, str], Schedule] = {}


def register(
    collective: str, *, name: str = "", chunks: ChunkCount = _per_rank, symmetric: Symmetric = False, **options: Any
) -> Callable[[Program | Sequence[Program]], Schedule]:
    """Decorate ``program(rank, size, **options)`` and make it an algorithm that every command knows by ``name``.

    Returns a decorator that returns the ``Schedule``, which can still be called like the program. A later
    registration under the same name replaces an earlier one, save the built-in ones.

    Raises:
        ValueError: an unknown collective, or the name of a built-in algorithm.
    """
    contract_of(collective)

    def decorate(program: Program | Sequence[Program]) -> Schedule:
        schedule = Schedule(collective, program, chunks, name, symmetric, **options)
        if not _is_built_in(schedule) and (
            schedule.name in (*BUILT_IN, "auto", "all")
            or any(s.name == schedule.name and _is_built_in(s) for s in algorithms(collective))
        ):
            raise ValueError(
                Sentence(
                    "registry.name_taken",
                    "name={name} is a built-in algorithm or a word of its own: choose another",
                    name=repr(schedule.name),
                )
            )
        _registered[collective, schedule.name] = schedule
        return schedule

    return decorate


def _is_built_in(schedule: Schedule) -> bool:
    return getattr(schedule.programs[0], "__module__", "").startswith(f"{__package__}.")


def algorithms(collective: str | None = None) -> list[Schedule]:
    """Every registered schedule (of one collective), the built-in ones first."""
    for name in BUILT_IN:
        importlib.import_module(f".{name}", __package__)
    order = {name: i for i, name in enumerate(BUILT_IN)}
    found = [s for s in _registered.values() if collective in (None, s.collective)]
    kinds = list(CONTRACTS)
    return sorted(found, key=lambda s: (order.get(s.name, len(order)), s.name, kinds.index(s.collective)))


def find(collective: str, algorithm: str | Schedule) -> Schedule:
    """The schedule that a user means.

    Args:
        collective: what it must do.
        algorithm: a ``Schedule``; ``NAME[:option=value,…]``; ``FILE.py:name[:…]`` or ``module:name[:…]``, where the
            name is a schedule or a bare program. The options ``chunks`` and ``channels`` go with every algorithm.

    Raises:
        ValueError: nothing of that name (the nearest names are listed), a wrong option, or another collective.
    """
    contract_of(collective)
    if isinstance(algorithm, Schedule):
        schedule, options = algorithm, ""
    elif not isinstance(algorithm, str):
        if not callable(algorithm):
            raise ValueError(f"algorithm={algorithm!r}: give a name, FILE.py:name, a Schedule or a program(rank, size)")
        schedule, options = _as_schedule(collective, algorithm, getattr(algorithm, "__name__", "program")), ""
    else:
        schedule, options = _look_up(collective, algorithm)
    if schedule.collective != collective:
        raise ValueError(f"algorithm {schedule} does {schedule.collective}, not {collective}: choose another")
    return schedule.with_options(**_parse(options, algorithm)) if options else schedule


def arranged(algorithm: str, collective: str, orders: Sequence[Sequence[int]]) -> str | Schedule:
    """The algorithm with its ranks in these orders; ``auto`` keeps its own.

    Args:
        orders: none leaves it as it is. Of several, plain ``ring`` runs one ring each; they are for rings
            only, so the others keep the natural one.

    Raises:
        ValueError: there is no such algorithm.
    """
    if not orders or algorithm == "auto":
        return algorithm
    if len(orders) > 1:
        return rings(orders, collective) if algorithm == "ring" else algorithm
    return ordered(find(collective, algorithm), orders[0])


def find_all(algorithm: str, collective: str | None = None) -> list[Schedule]:
    """Every schedule that ``algorithm`` names: for one collective, or for each that it serves.

    Raises:
        ValueError: there is none. A bare program in a file does not say what it does, so it needs ``collective``.
    """
    if collective is not None:
        return [find(collective, algorithm)]
    head = algorithm.partition(":")[0]
    served = [s.collective for s in algorithms() if s.name == head]
    if served:
        return [find(name, algorithm) for name in served]
    try:
        schedule, options = _look_up("all_reduce", algorithm)
    except ValueError as error:
        if ".py:" in algorithm or ":" in algorithm:
            raise
        names = sorted({s.name for s in algorithms()})
        near = difflib.get_close_matches(algorithm, names, n=3) or names
        raise ValueError(f"algorithm {algorithm!r} is unknown: use {', '.join(near)}, or FILE.py:name") from error
    return [schedule.with_options(**_parse(options, algorithm)) if options else schedule]


def _look_up(collective: str, text: str) -> tuple[Schedule, str]:
    head, _, options = text.partition(":")
    for schedule in algorithms(collective):
        if schedule.name == head:
            return schedule, options
    if ".py:" in text:
        path, _, rest = text.partition(".py:")
        name, _, options = rest.partition(":")
        return _as_schedule(collective, attribute(load(Path(path + ".py")), name, text), name), options
    if options and "=" not in options.partition(":")[0]:
        name, _, more = options.partition(":")
        try:
            module = importlib.import_module(head)
        except ImportError as error:
            raise ValueError(f"algorithm {text!r}: module {head!r} cannot be imported ({error})") from error
        return _as_schedule(collective, attribute(module, name, text), name), more
    names = [schedule.name for schedule in algorithms(collective)]
    near = difflib.get_close_matches(head, names, n=3) or names
    raise ValueError(
        f"algorithm {text!r} is unknown for {collective}: use {', '.join(near)}, or FILE.py:name for your own"
    )


def load(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"algorithm file {str(path)!r} does not exist")
    name = f"_schedule_{path.stem}_{abs(hash(path.resolve())):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"algorithm file {str(path)!r} does not load: {type(error).__name__}: {error}") from error
    return module


def attribute(module: Any, name: str, text: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        near = difflib.get_close_matches(name, vars(module), n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "define it there"
        raise ValueError(f"algorithm {text!r}: there is no {name!r} in it; {hint}") from None


def _as_schedule(collective: str, found: Any, name: str) -> Schedule:
    if isinstance(found, Schedule):
        return found
    if callable(found):
        return Schedule(collective, found, name=name)
    raise ValueError(f"{name!r} is of type {type(found).__name__}: use a Schedule or a function program(rank, size)")


def _parse(options: str, text: object) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for item in options.split(","):
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"option {item!r} of algorithm {str(text)!r}: write NAME:option=value,option=value")
        parsed[name] = _number(value)
    return parsed


def _number(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
