"""Mixed precision: fast rounded numbers for forward and backward, exact ones where small steps add up.

    fp32 master ──round──▶ fp16 parameters ─forward─▶ loss ─× scale─▶ backward ─▶ fp16 gradients
        ▲                                                                              │ ÷ scale, in fp32
        └────────── optimizer: fp32 mean and variance ◀── any infinite, on any rank? ──┘
                                                          yes: no step, scale / 2; no, often enough: scale · 2

fp16 ends at 65504 and below 6·10⁻⁸ there is nothing: without a scale small gradients vanish, and without a master copy
an update below 1/2048 of a weight does. bf16 has the range of fp32, so it needs the master copy only.

The scale is applied where gradients enter the network, at its outputs: ``loss.backward()`` stays what it was, and the
loss is its true value. Source: Micikevicius et al., "Mixed precision training", 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_map_only

import collectives

from .mesh import Mesh

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
Factory = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


@dataclass(frozen=True, slots=True)
class Precision:
    """In which numbers to compute, and to add up gradients.

    compute: ``"fp32"``, ``"bf16"`` or ``"fp16"``: parameters, activations, gradients.
    reduce: in which gradients are summed over ranks and microbatches, and kept; None is ``compute``.
    scale: where the loss scale begins, fp16 only.

    Raises:
        ValueError: another name.
    """

    compute: str = "fp32"
    reduce: str | None = None
    scale: float = 2.0**16

    def __post_init__(self) -> None:
        for name, value in (("compute", self.compute), ("reduce", self.reduce or self.compute)):
            if value not in DTYPES:
                raise ValueError(f"{name}={value!r}: give one of {', '.join(DTYPES)}")

    @classmethod
    def of(cls, precision: Precision | str | None) -> Precision | None:
        """A precision by itself or by the name of its ``compute``; None leaves everything as it is.

        Raises:
            ValueError: another name.
        """
        if isinstance(precision, str) and precision not in DTYPES:
            raise ValueError(f"precision={precision!r}: give one of {', '.join(DTYPES)}, or a Precision")
        return cls(precision) if isinstance(precision, str) else precision

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.compute]

    @property
    def wire(self) -> torch.dtype | None:
        return None if self.reduce is None else DTYPES[self.reduce]

    def loss_scale(self) -> LossScale | None:
        return LossScale(self.scale) if self.compute == "fp16" else None


class LossScale:
    """A power of two that keeps fp16 gradients in range: halved by an overflow, doubled after many steps without.

    Args:
        value: where it begins; interval: steps without an overflow until it doubles.
    """

    def __init__(self, value: float = 2.0**16, interval: int = 2000) -> None:
        if not value >= 1 or interval < 1:
            raise ValueError(
                f"value={value!r}, interval={interval!r}: give a scale and a number of steps of at least 1"
            )
        self.value, self.interval, self.good = value, interval, 0

    def update(self, overflow: bool) -> None:
        """A step was taken, or left out because of an overflow.

        Raises:
            FloatingPointError: gradients are not finite even with scale 1: smaller scales do not help.
        """
        if overflow and self.value <= 1:
            raise FloatingPointError(
                "gradients are infinite or NaN with loss scale 1: the loss itself diverges; "
                "lower the learning rate, or look for the first NaN"
            )
        self.good = 0 if overflow else self.good + 1
        if overflow:
            self.value = max(1.0, self.value / 2)
        elif self.good == self.interval:
            self.value, self.good = self.value * 2, 0

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value, "good": self.good}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.value, self.good = state["value"], int(state["good"])


class _Leave(torch.autograd.Function):
    """The network's output in fp32; backward: the gradient times the loss scale, in the output's own dtype."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, scale: LossScale | None) -> torch.Tensor:
        ctx.scale, ctx.dtype = scale, output.dtype
        with torch.enable_grad():  # so that a ledger takes it for the activation that it is
            return output.detach().to(torch.promote_types(output.dtype, torch.float32), copy=True)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        factor = 1.0 if ctx.scale is None else ctx.scale.value
        return (gradients[0] * factor).to(ctx.dtype), None


def at_the_edge(
    module: nn.Module, precision: Precision, scale: LossScale | None, edge: nn.Module | None = None
) -> None:
    """Cast the buffers and what goes into a module; its floating outputs are fp32, and their gradients scaled.

    Args:
        edge: what goes in, and comes out, of this part of the module instead.
    """
    for holder in module.modules():
        for name, buffer in holder._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                holder._buffers[name] = buffer.to(precision.dtype)

    def enter(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return tree_map_only(torch.Tensor, partial(_cast, dtype=precision.dtype), (args, kwargs))

    def leave(module: nn.Module, args: Any, outputs: Any) -> Any:
        return tree_map_only(torch.Tensor, partial(_leave, scale=scale), outputs)

    (edge or module).register_forward_pre_hook(enter, with_kwargs=True)
    (edge or module).register_forward_hook(leave)


def _leave(output: torch.Tensor, scale: LossScale | None) -> torch.Tensor:
    if not output.is_floating_point():
        return output
    out: torch.Tensor = _Leave.apply(output, scale)  # type: ignore[no-untyped-call]
    return out


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


class MixedPrecision:
    """Rounded parameters, fp32 masters and loss scaling for one process or a data-parallel wrapper.

    Args:
        module: its parameters and buffers become those of the group's first rank, rounded. Wrap *it* for data parallel
            afterwards (``DistributedDataParallel(module)``).
        optimizer: makes an optimizer of a list of parameters, the fp32 masters.
        precision: a name or a ``Precision``. Its ``reduce`` must be None: the wrapper reduces.
        group: the ranks that have the same parameters, and skip a step together; None is the default group, if there is
            one. Beside tensor or pipeline parallelism a ``Mesh``: its axis dp has the same, all of it skips together.
        edge: the part of the module through which data leave the network, where that is not all of it: the last chunk
            of a pipeline; on ranks without it, any other module.

    Attributes:
        optimizer: for schedulers; scale: the ``LossScale`` of fp16, else None; skips_overflow: whether ``step`` leaves
            out gradients that are not finite.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Factory,
        precision: Precision | str = "fp16",
        group: dist.ProcessGroup | Mesh | None = None,
        edge: nn.Module | None = None,
    ) -> None:
        chosen = Precision.of(precision)
        if chosen is None or chosen.reduce is not None:
            raise ValueError(f"precision={precision!r}: give a name, or a Precision whose reduce is None")
        others = group.model_groups() if isinstance(group, Mesh) else []
        alike = group.group("dp") if isinstance(group, Mesh) else group
        self._together = [alike, *others] if dist.is_initialized() else []
        named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        self._names, self._rounded = list(named), list(named.values())
        if not self._rounded:
            raise ValueError("module has no trainable parameter: nothing to optimize")
        for tensor in [*module.parameters(), *module.buffers()] if self._together else []:
            collectives.broadcast(tensor.detach(), group=alike, group_src=0, check=True)
        self._masters = [nn.Parameter(parameter.detach().float().clone()) for parameter in self._rounded]
        for parameter, master in zip(self._rounded, self._masters, strict=True):
            master.__dict__.update(parameter.__dict__)  # who else has it, for clipping
        for parameter in module.parameters():
            parameter.data = _cast(parameter.data, chosen.dtype)
        self.optimizer = optimizer(self._masters)
        self.scale = chosen.loss_scale()
        self.skips_overflow = self.scale is not None
        self._note_versions()
        at_the_edge(module, chosen, self.scale, edge)

    def parameters(self) -> Iterable[nn.Parameter]:
        """The fp32 masters, with the gradients so far in true size: for clipping."""
        self._unscale()
        return iter(self._masters)

    def _unscale(self) -> None:
        factor = 1.0 if self.scale is None else 1.0 / self.scale.value
        for rounded, master in zip(self._rounded, self._masters, strict=True):
            if rounded.grad is not None:
                fresh = rounded.grad.float() * factor
                master.grad = fresh if master.grad is None else master.grad + fresh
                rounded.grad = None

    def step(self) -> bool:
        """Update masters and parameters; False: left out, as a gradient is not finite on some rank.

        Raises:
            FloatingPointError: not finite even with loss scale 1.
            ValueError: a parameter has been written to since it was rounded; the next rounding would undo that.
        """
        self._unwritten()
        self._unscale()
        if self.scale is not None:
            wrong = any(not m.grad.isfinite().all() for m in self._masters if m.grad is not None)
            flag = torch.tensor([wrong], dtype=torch.uint8, device=self._masters[0].device)
            for group in self._together:
                collectives.all_reduce(flag, dist.ReduceOp.MAX, group)
            self.scale.update(bool(flag))
            if flag:
                return False
        self.optimizer.step()
        self.publish()
        return True

    @torch.no_grad()
    def publish(self) -> None:
        """The masters have changed: round them into the parameters."""
        for rounded, master in zip(self._rounded, self._masters, strict=True):
            rounded.copy_(master)
        self._note_versions()

    def _note_versions(self) -> None:
        """Whatever writes to a parameter in place counts it up."""
        self._versions = [parameter._version for parameter in self._rounded]

    def _unwritten(self) -> None:
        for name, rounded, master, version in zip(
            self._names, self._rounded, self._masters, self._versions, strict=True
        ):
            alike = partial(torch.allclose, rtol=0.0, atol=0.0, equal_nan=True)
            if rounded._version != version and not alike(rounded, master.to(rounded.dtype)):
                raise ValueError(
                    f"{name} has been changed since it was rounded, and that would be lost: change what state_dict() "
                    "gives, and load_state_dict() it"
                )

    def masters(self) -> dict[int, nn.Parameter]:
        """Each trainable parameter's fp32 master, by the parameter's ``id``."""
        return dict(zip(map(id, self._rounded), self._masters, strict=True))

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in [*self._rounded, *self._masters]:
            parameter.grad = None

    def holdings(self) -> dict[str, list[torch.Tensor]]:
        """For :class:`Ledger`: masters and states, and the masters' gradients until they are forgotten."""
        states = [value for state in self.optimizer.state.values() for value in state.values()]
        tensors = [value for value in states if isinstance(value, torch.Tensor)]
        return {
            "gradients": [master.grad for master in self._masters if master.grad is not None],
            "optimizer": [*self._masters, *(tensor for tensor in tensors if tensor.dim())],
            "other": [tensor for tensor in tensors if not tensor.dim()],
        }

    def state_dict(self) -> dict[str, Any]:
        """Masters, optimizer and loss scale."""
        return {
            "masters": [master.detach().clone() for master in self._masters],
            "optimizer": self.optimizer.state_dict(),
            "scale": self.scale and self.scale.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What ``state_dict`` gave; parameters become the rounded masters.

        Raises:
            ValueError: of a model with other parameters.
        """
        shapes = [tuple(value.shape) for value in state["masters"]]
        wanted = [tuple(master.shape) for master in self._masters]
        if shapes != wanted:
            raise ValueError(f"state has parameters of shapes {shapes}, but the module {wanted}")
        with torch.no_grad():
            for master, value in zip(self._masters, state["masters"], strict=True):
                master.copy_(value)
        self.publish()
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scale is not None and state["scale"] is not None:
            self.scale.load_state_dict(state["scale"])
