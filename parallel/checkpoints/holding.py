"""What a rank holds of a model and its optimizer, by names that no mesh changes.

    blocks.3.mlp.up.weight          weight        fp32 master, or the parameter itself where nothing is rounded
                                    exp_avg       one tensor an optimizer state that has the parameter's shape
                                    exp_avg_sq
                                    step = 17.0   numbers: the same on all ranks that hold a piece

A stage of a pipeline names its layers as the whole model does, a split weight says where it was cut, a slice of ZeRO is
a run of what that leaves. So who writes a checkpoint and who reads it need be neither as many nor in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..clip import counts
from ..mesh import Mesh
from ..offload import OnHost
from ..precision import MixedPrecision
from ..tensor import split_of
from ..zero import Zero
from .place import Place

WEIGHT = "weight"
_MASTER = "master"  # how ``OnHost`` calls its fp32 copies among the states
Trained = torch.optim.Optimizer | MixedPrecision | Zero


@dataclass(frozen=True, slots=True)
class Holding:
    """One parameter on this rank, or its piece of one.

    name: in the whole model. place: where in it. weight: what is trained, alive: the parameter, its fp32 master, or a
    piece of either. optimizer: who has states for it. first: whether this rank saves it, of those that hold the same.
    """

    name: str
    place: Place
    weight: Tensor
    optimizer: torch.optim.Optimizer
    first: bool

    def tensors(self) -> dict[str, Tensor]:
        """All that is saved as tensors, by key, alive."""
        cut = {key: value for key, value in self._states().items() if self._is_cut(key, value)}
        return {WEIGHT: cut.pop(_MASTER, self.weight.detach()), **cut}

    def numbers(self) -> dict[str, float]:
        """All that is a number: counters of steps, mostly.

        Raises:
            ValueError: a state that is neither a number nor shaped as the parameter.
        """
        found = {}
        for key, value in self._states().items():
            if value is None or self._is_cut(key, value):
                continue
            if isinstance(value, Tensor) and value.numel() != 1:
                raise ValueError(
                    f"{self.name}: the optimizer's {key!r} has shape {tuple(value.shape)}, not the parameter's "
                    f"{tuple(self.weight.shape)}: other meshes could not read it; use SGD, Adam, AdamW or their like"
                )
            found[key] = float(value)
        return found

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, float]) -> None:
        """Take these, flat, as what :meth:`tensors` and :meth:`numbers` gave."""
        states: dict[str, Any] = {key: torch.tensor(value) for key, value in numbers.items()}
        on_host = isinstance(self.optimizer, OnHost)
        for key, flat in tensors.items():
            value = flat.view_as(self.weight)
            if key == WEIGHT:
                self.weight.copy_(value)
            if on_host and key == WEIGHT:
                states[_MASTER] = value.float()
            elif key != WEIGHT:
                states[key] = value.to("cpu" if on_host else self.weight.device, copy=True)
        if states:
            self.optimizer.state[self.weight] = states
        else:
            self.optimizer.state.pop(self.weight, None)

    def _states(self) -> Mapping[str, Any]:
        states: Mapping[str, Any] = self.optimizer.state.get(self.weight, {})
        return states

    def _is_cut(self, key: str, value: Any) -> bool:
        return isinstance(value, Tensor) and key != "step" and value.shape == self.weight.shape


def holdings_of(
    module: nn.Module | Zero, optimizer: Trained, mesh: Mesh | None = None, names: Mapping[str, str] | None = None
) -> list[Holding]:
    """What this rank holds.

    Args:
        module: not a data-parallel wrapper; or ``Zero``. optimizer: of its parameters; with ``Zero`` that itself.
        mesh: where ranks hold the same as others; None: every rank holds all (or its slice) and the first saves it.
        names: names in the whole model, by those in this one, where they differ.

    A tied parameter has one name, that of its first use.
    """
    if isinstance(module, Zero):
        return list(_of_zero(module, mesh, names or {}))
    inner = optimizer if isinstance(optimizer, torch.optim.Optimizer) else optimizer.optimizer
    parameters = dict(module.named_parameters())
    masters: dict[int, nn.Parameter] = optimizer.masters() if isinstance(optimizer, MixedPrecision) else {}
    return [
        Holding(
            (names or {}).get(name, name),
            place_of(parameter, mesh),
            masters.get(id(parameter), parameter),
            inner,
            _first(parameter, mesh, ("dp", "dp_replicate", "dp_shard")),
        )
        for name, parameter in parameters.items()
    ]


def _of_zero(zero: Zero, mesh: Mesh | None, names: Mapping[str, str]) -> Iterable[Holding]:
    """Pieces of its slices; every slice is on one rank of ``dp_shard``."""
    for flat in zero.flats:
        rank = flat.exchange.rank
        spans = zip(flat.partition.pieces(rank), flat.partition.within(rank), strict=True)
        for i, ((low, high), run) in enumerate(spans):
            if high == low:
                continue
            parameter, shape = flat.parameters[i], flat.shapes[i]
            weight = flat.pieces[i] if flat.trainable else flat.master[low:high]
            first = _first(parameter, mesh, ("dp_replicate",))
            place = place_of(parameter, mesh, shape, run)
            yield Holding(names.get(flat.names[i], flat.names[i]), place, weight, zero.optimizer, first)


def place_of(
    parameter: nn.Parameter, mesh: Mesh | None, shape: torch.Size | None = None, run: tuple[int, int] | None = None
) -> Place:
    """Where a parameter of this rank, or a run of it, lies in the whole one."""
    whole, split = list(shape or parameter.shape), split_of(parameter)
    if split is None or mesh is None:
        return Place.of(whole, run)
    whole[split.dim] = sum(split.parts)
    return Place.of(whole, run, split, mesh.coordinates()[split.axis], mesh.axes[split.axis])


def _first(parameter: nn.Parameter, mesh: Mesh | None, alike: tuple[str, ...]) -> bool:
    """Whether this rank is the first of those that hold the same: along the axes ``alike``, and as clipping counts."""
    if mesh is None or mesh.rank is None:
        return True
    here = mesh.coordinates()
    return counts(parameter, mesh) and all(here.get(axis, 0) == 0 for axis in alike)
