"""Slices put together again, and whole state cut: what is saved does not know how many ranks there were.

3 ranks   ┌──┬──┬──┐  state_dict    {"module": …, "optimizer": …}      load_state_dict   ┌────┬────┐   2 ranks
          └──┴──┴──┘ ─────────────▶ as one process would save them ────────────────────▶ └────┴────┘
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

import collectives

from ..wire import NOTHING, is_nothing
from .exchange import Exchange
from .flat import Flat

State = dict[str, Any]


def whole(flat: Flat, own: torch.Tensor) -> list[torch.Tensor]:
    """What every rank has a slice of, by parameter; all ranks call it."""
    out = own.new_empty(flat.partition.padded)
    collectives.all_gather_into_tensor(out, own.detach(), flat.exchange.shard)
    return [view.clone() for view in flat.views(out)]


def whole_gradients(flats: Sequence[Flat]) -> dict[str, torch.Tensor | None]:
    """The gradients that the pieces have, by name; None where no rank has one."""
    found: dict[str, torch.Tensor | None] = {}
    for flat in (flat for flat in flats if flat.trainable):
        own = torch.full_like(flat.master, NOTHING)
        for piece, (low, high) in zip(flat.pieces, flat.spans, strict=True):
            if piece.grad is not None:
                own[low:high] = piece.grad.flatten() + 0.0
        for name, gradient in zip(flat.names, whole(flat, own), strict=True):
            found[name] = None if is_nothing(gradient).all() else gradient
    return found


def whole_module(module: nn.Module, flats: Sequence[Flat]) -> State:
    """The module's state with the masters for parameters; buffers are this rank's."""
    values = {
        id(parameter): value
        for flat in flats
        for parameter, value in zip(flat.parameters, whole(flat, flat.master), strict=True)
    }
    state = module.state_dict(keep_vars=True)
    return {name: values[id(held)] if id(held) in values else held.detach().clone() for name, held in state.items()}


def load_module(module: nn.Module, flats: Sequence[Flat], state: State) -> None:
    """The reverse; all ranks call it.

    Raises:
        ValueError: names or shapes that are not the module's; nothing was changed.
    """
    held = module.state_dict(keep_vars=True)
    shapes = {id(p): shape for flat in flats for p, shape in zip(flat.parameters, flat.shapes, strict=True)}
    wanted = {name: tuple(shapes.get(id(value), value.shape)) for name, value in held.items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    if given != wanted:
        wrong = sorted(name for name in {*given, *wanted} if given.get(name) != wanted.get(name))
        raise ValueError(
            f'state["module"]: {", ".join(wrong)}: missing, unknown, or of another shape; load the same model\'s'
        )
    with torch.no_grad():
        for flat in flats:
            all_of_it = flat.master.new_zeros(flat.partition.padded)
            for name, view in zip(flat.names, flat.views(all_of_it), strict=True):
                view.copy_(state[name])
            flat.master.copy_(all_of_it.chunk(flat.exchange.size)[flat.exchange.rank])
            flat.publish()
        for name, value in held.items():
            if id(value) not in shapes:
                value.copy_(state[name])


def whole_optimizer(optimizer: torch.optim.Optimizer, homes: dict[int, tuple[Flat, int]], exchange: Exchange) -> State:
    """The optimizer's state as one process has it; all ranks call it.

    Args:
        homes: where each of the optimizer's pieces belongs, by ``id``.

    Raises:
        ValueError: an optimizer that keeps parameters of its own, or states that are not cut as its pieces are.
    """
    packed, pieces = optimizer.state_dict(), _pieces(optimizer, homes)
    mine = [packed["state"].get(i, {}) for i in range(len(pieces))]
    reports = _from_all(exchange, [_report(piece, own) for piece, own in zip(pieces, mine, strict=True)])
    known: list[State] = [next((each for each in of_all if each), {}) for of_all in zip(*reports, strict=True)]
    state = {i: dict(entries) for i, entries in enumerate(known) if entries}
    numbers = {homes[id(piece)]: i for i, piece in enumerate(pieces)}
    for flat in dict.fromkeys(flat for flat, _ in homes.values()):
        here = [(index, numbers[flat, index]) for index in range(len(flat.pieces)) if (flat, index) in numbers]
        keys = {(key, e.dtype) for _, i in here for key, e in known[i].items() if isinstance(e, _Cut)}
        for key, dtype in sorted(keys, key=str):
            own = torch.zeros(flat.partition.length, dtype=dtype, device=flat.master.device)
            for index, i in here:
                if key in mine[i]:
                    own[slice(*flat.spans[index])] = mine[i][key].flatten()
            views = whole(flat, own)
            for index, i in here:
                if isinstance(known[i].get(key), _Cut):
                    state[i][key] = views[index]
    return {"state": state, "param_groups": packed["param_groups"]}


def load_optimizer(optimizer: torch.optim.Optimizer, homes: dict[int, tuple[Flat, int]], state: State) -> None:
    """The reverse, of this rank alone.

    Raises:
        ValueError: groups of other sizes than the optimizer's.
    """
    pieces = _pieces(optimizer, homes)
    mine = {i: cut_state(entries, *homes[id(pieces[i])]) for i, entries in state["state"].items()}
    optimizer.load_state_dict({"state": mine, "param_groups": state["param_groups"]})


def cut_state(entries: State, flat: Flat, index: int) -> State:
    """One parameter's optimizer state: what has the parameter's shape becomes this rank's piece, the rest stays."""
    low, high = flat.partition.within(flat.exchange.rank)[index]
    return {
        key: value.flatten()[low:high].view_as(flat.pieces[index]).clone()
        if isinstance(value, torch.Tensor) and key != "step" and value.shape == flat.shapes[index]
        else value
        for key, value in entries.items()
    }


def _pieces(optimizer: torch.optim.Optimizer, homes: dict[int, tuple[Flat, int]]) -> list[nn.Parameter]:
    pieces = [piece for group in optimizer.param_groups for piece in group["params"]]
    if any(id(piece) not in homes for piece in pieces):
        raise ValueError(
            f"optimizer={type(optimizer).__name__}: it keeps parameters of its own, which cannot be put together: "
            "save and load its state_dict on every rank by itself"
        )
    return pieces


class _Cut:
    """Stands for a tensor of which every rank has its piece."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype


def _report(piece: nn.Parameter, entries: State) -> State:
    """What a rank knows of one parameter; nothing where it has none of it."""
    if not piece.numel():
        return {}
    known: State = {}
    for key, value in entries.items():
        cut = isinstance(value, torch.Tensor) and key != "step" and value.shape == piece.shape
        if not cut and isinstance(value, torch.Tensor) and value.dim():
            raise ValueError(
                f"the optimizer's state {key!r} has shape {tuple(value.shape)}, not the piece's {tuple(piece.shape)}, "
                "so it cannot be put together: save and load the optimizer's state_dict on every rank by itself"
            )
        known[key] = _Cut(value.dtype) if cut else value
    return known


def _from_all(exchange: Exchange, thing: Any) -> list[Any]:
    """Every rank's thing."""
    mine = torch.frombuffer(bytearray(pickle.dumps(thing)), dtype=torch.uint8).to(exchange.device)
    sizes = [torch.zeros(1, dtype=torch.int64, device=exchange.device) for _ in range(exchange.size)]
    collectives.all_gather(sizes, torch.tensor([mine.numel()], device=exchange.device), exchange.shard)
    parts = [torch.empty(int(size), dtype=torch.uint8, device=exchange.device) for size in sizes]
    collectives.all_gather(parts, mine, exchange.shard)
    return [pickle.loads(part.cpu().numpy().tobytes()) for part in parts]
