"""Clipping by the norm of the whole gradient, wherever its pieces are: one function, right on every mesh.

    norm² = Σ over all parameters, each element once       a rank that adds what another adds too would make
                                                           0.8 into 1.13 on two ranks
    pieces     data parallel            the same on all ranks: nothing to add
               sharded (ZeRO)           every rank has its own piece: add over the shard group
               tensor parallel          split weights: add over tp; norms, biases of rows: only tp 0 counts them
               pipeline                 every stage has its own: add over pp; a tied copy: only the first stage

Powers first, then the sum, then the root; one factor for all, so every rank scales alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from torch import nn

import collectives
from collectives.buffers import Handle

from .mesh import Mesh

Piece = tuple[nn.Parameter, torch.Tensor]

_MODEL = ("tp", "pp")  # axes along which ranks have other parameters
OWN = ("pp",)  # a parameter that says nothing else belongs to its stage, and is the same on all of tp


@runtime_checkable
class Sharded(Protocol):
    """A module whose gradients are in pieces, each element on one rank of a group.

    shard_group: those ranks; None is the default group.
    gradient_scale: what the pieces are multiplied with now (a loss scale); 1.0 without.
    skips_overflow: its step leaves out gradients that are not finite, on all ranks alike.
    """

    shard_group: dist.ProcessGroup | None
    gradient_scale: float
    skips_overflow: bool

    def gradient_shards(self) -> Iterable[tuple[nn.Parameter, torch.Tensor]]:
        """This rank's piece of each parameter's gradient, to be scaled in place."""


def clip_grad_norm_(module: nn.Module | Sharded, max_norm: float, mesh: Mesh | None = None) -> torch.Tensor:
    """Scale all gradients so that their norm is at most ``max_norm``; every rank of the mesh calls it.

    Args:
        module: any module, wrapped or not; a parameter's attribute ``split_over`` names the axes of the mesh along
            which ranks have different pieces of it (default ``("pp",)``; of a split weight ``("pp", "tp")``; of a
            tied embedding on two stages ``()``). Ranks without gradients take part as well.
        max_norm: the 2-norm that is allowed; ``inf`` only measures.
        mesh: where tensor or pipeline parallel ranks have other parameters; None otherwise.

    Returns:
        The norm before clipping, the same on all ranks: a scalar, fp32 or the gradients' dtype if that is wider.

    Raises:
        ValueError: a max_norm that is no number of at least 0.
        FloatingPointError: a gradient is not finite, on any rank; all ranks raise it, and nothing was scaled. Not where
            the module's step skips such gradients: then the norm is returned, and the gradients are as they were.
    """
    check_max_norm(max_norm)
    norm = Norm(module, mesh)
    if norm.value.isfinite():
        norm.scale(max_norm)
    elif not getattr(module, "skips_overflow", False):
        raise FloatingPointError(norm.not_finite())
    return norm.value


class Norm:
    """The norm of a whole gradient, as it is now; every rank of the mesh makes one.

    Args:
        module, mesh: as of ``clip_grad_norm_``.
        later: the sum over stages is left to the background: do not wait for a stage that has not ended.

    Attributes:
        pieces: of this rank, each with its parameter.
    """

    def __init__(self, module: nn.Module | Sharded, mesh: Mesh | None = None, later: bool = False) -> None:
        self._module, sharded = module, module if isinstance(module, Sharded) else None
        self.pieces = _whole(module) if sharded is None else list(sharded.gradient_shards())
        self._scale = 1.0 if sharded is None else sharded.gradient_scale
        self._total = _squares(self.pieces, mesh)
        self._handle: Handle = None
        if sharded is not None:
            collectives.all_reduce(self._total, group=sharded.shard_group)
        for axis in _MODEL if mesh is not None else ():
            if mesh is not None and mesh.axes.get(axis, 1) > 1:
                self._handle = collectives.all_reduce(
                    self._total, group=mesh.group(axis), async_op=later and axis == _MODEL[-1]
                )

    @cached_property
    def _exact(self) -> torch.Tensor:
        if self._handle is not None:
            self._handle.wait()
        return self._total.sqrt() / self._scale

    @property
    def value(self) -> torch.Tensor:
        """A scalar, the same on all ranks: fp32, or the gradients' dtype if that is wider."""
        wide = [torch.promote_types(gradient.dtype, torch.float32) for _, gradient in self.pieces]
        return self._exact.to(wide[0] if wide else torch.float32)

    def exceeds(self, max_norm: float) -> bool:
        return bool(self._exact > max_norm)

    def scale(self, max_norm: float) -> None:
        """The pieces, times what makes the norm ``max_norm``, if it is more."""
        if self.exceeds(max_norm):
            for _, gradient in self.pieces:
                gradient.mul_((max_norm / (self._exact + 1e-6)).to(gradient.dtype))

    def not_finite(self) -> str:
        """Which gradients are not, in words."""
        return _not_finite(self._module, self.pieces)


def check_max_norm(max_norm: float) -> None:
    """Raises:
    ValueError: it is no number of at least 0.
    """
    if not isinstance(max_norm, (int, float)) or not max_norm >= 0:
        raise ValueError(f"max_norm={max_norm!r}: give a number of at least 0")


def _whole(module: Any) -> list[Piece]:
    return [(p, p.grad) for p in module.parameters() if p.grad is not None]


def _squares(pieces: list[Piece], mesh: Mesh | None) -> torch.Tensor:
    """Σ of the squares that this rank counts; float64, so that all ranks have the same dtype whatever they hold."""
    device = pieces[0][1].device if pieces else _default_device(mesh)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for parameter, gradient in pieces:
        if counts(parameter, mesh):
            wide = torch.promote_types(gradient.dtype, torch.float32)
            total += torch.linalg.vector_norm(gradient, dtype=wide).double().square()
    return total


def counts(parameter: nn.Parameter, mesh: Mesh | None) -> bool:
    """Whether this rank is the one that adds what it holds of the parameter: the first of those that hold the same."""
    if mesh is None:
        return True
    here, split = mesh.coordinates(), getattr(parameter, "split_over", OWN)
    return all(here.get(axis, 0) == 0 for axis in _MODEL if axis not in split)


def _default_device(mesh: Mesh | None) -> str:
    return "cuda" if mesh is not None and mesh.size > 1 and dist.get_backend() == "nccl" else "cpu"


def _not_finite(module: Any, pieces: list[Piece]) -> str:
    inside = module if isinstance(module, nn.Module) else getattr(module, "module", None)
    names = {id(p): name for name, p in inside.named_parameters()} if isinstance(inside, nn.Module) else {}
    bad = [names.get(id(p), f"a parameter of shape {tuple(p.shape)}") for p, g in pieces if not g.isfinite().all()]
    here = f"on this rank in {', '.join(bad[:3])}{' …' if len(bad) > 3 else ''}" if bad else "on another rank"
    return f"a gradient is not finite: {here}; nothing was scaled. Leave this step out, or find what diverges"
