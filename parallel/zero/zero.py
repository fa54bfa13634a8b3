"""``Zero``: a module and its optimizer, cut into slices; what one uses of ZeRO.

step of stage 3        forward     gather a layer, run it, free it
                       backward    gather it again, run, free; reduce-scatter its gradients
                       step        each rank updates its pieces; nothing is sent
of stage 2             backward    reduce-scatter a layer's gradients, and keep the slice
                       step        each rank updates its pieces; all-gather the parameters
of stage 1             backward    nothing: gradients add up on each rank
                       step        reduce-scatter; each rank updates its pieces; all-gather
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ..alike import check_alike
from ..mesh import Mesh
from ..precision import Factory, Precision, at_the_edge
from .arguments import check_arguments, check_optimizer
from .exchange import Exchange
from .flat import Flat
from .layers import Layer, find_layers
from .passes import Passes
from .saving import cut_state, load_module, load_optimizer, whole_gradients, whole_module, whole_optimizer


class Zero:
    """Data parallel with sharded state. Call it like the module; gradients are averaged over all ranks.

    Args:
        module: every rank's becomes that of the group's first rank. Layers are the elements of its lists (see
            ``layers``). Use it through this object or as before; only never a parameter outside of a forward
            (stage 3: it is empty then; see ``whole``).
        optimizer: makes an optimizer of a list, in any groups: this rank's pieces of the trainable parameters in the
            order of ``named_parameters``, with as many dimensions (n, 1, …) as those. If it takes the module's own
            parameters, they are replaced by their pieces. Its update must treat each element by itself (SGD, Adam,
            AdamW, Adagrad, … do).
        stage: 1 cuts optimizer states, 2 gradients too, 3 parameters too.
        group: None (all ranks), a process group, or a ``Mesh`` (with dp_shard and dp_replicate: hybrid sharding).
            Beside tp or pp give the mesh: an overflow is one for all of it.
        gather: stage 3 and the end of a step: ``"all_gather"``, or ``"broadcast"`` from each owner in turn.
        prefetch: layers fetched ahead of the one that runs; with 0 nothing overlaps, and least memory is used.
        precision: None leaves dtypes as they are; ``"fp32"``, ``"bf16"``, ``"fp16"`` or a ``Precision``. The rounded
            ones have fp32 masters, fp16 a loss scale; inputs are cast, outputs fp32.
        edge: with a precision, the part of the module through which data leave the network, where that is not all of
            it: see ``MixedPrecision``.
        reshard_after_forward: stage 3: False keeps parameters whole until the backward has used them: a third less is
            sent, and all are whole at once.

    Attributes:
        module; optimizer: for schedulers; scale: the loss scale of fp16, else None; shard_group: who has the slices.

    Elements sent a step with m microbatches, each × (N−1)/N, Ψ parameters with padding: stage 1 2Ψ; stage 2 Ψ·m + Ψ;
    stage 3 2Ψ·m + Ψ·m, or Ψ·m + Ψ·m without resharding. Under ``no_sync`` the gradients' Ψ·m is Ψ once, and whole
    gradients stay meanwhile.

    Raises:
        ValueError: a stage that is not 1, 2 or 3; no trainable parameter; an optimizer that cannot work on pieces or
            has other parameters; no process group; ranks with different models or settings (all raise it).
    """

    gradient_scale = 1.0  # gradient_shards gives true sizes

    def __init__(
        self,
        module: nn.Module,
        optimizer: Factory,
        stage: int = 3,
        group: dist.ProcessGroup | Mesh | None = None,
        gather: str = "all_gather",
        prefetch: int = 1,
        precision: Precision | str | None = None,
        reshard_after_forward: bool = True,
        edge: nn.Module | None = None,
    ) -> None:
        check_arguments(module, optimizer, stage, prefetch)
        chosen = Precision.of(precision)
        self.module, self.stage, self.exchange = module, stage, Exchange(group, gather)
        self.shard_group: dist.ProcessGroup | None = self.exchange.shard
        self.scale = chosen.loss_scale() if chosen is not None else None
        self.skips_overflow = self.scale is not None
        self._overflow = False
        settings = f"stage={stage}, gather={gather}, prefetch={prefetch}, precision={chosen}"
        check_alike(module, f"{settings}, reshard_after_forward={reshard_after_forward}", self.exchange.everyone)
        for buffer in module.buffers():
            self.exchange.spread(buffer)
        layers = find_layers(module)
        flats = [self._cut(layer, chosen) for layer in layers]
        self.flats = [flat for layer in flats for flat in layer]
        self._homes = {id(piece): (flat, i) for flat in self.flats for i, piece in enumerate(flat.pieces)}
        self.optimizer = self._made(optimizer)
        for flat in self.flats:
            flat.free()
        self._known = {id(p): (p.requires_grad, p.dtype, p.device) for p in module.parameters()}
        self._note_versions()
        if chosen is not None:
            at_the_edge(module, chosen, self.scale, edge)
        self._passes = Passes([layer.module for layer in layers], flats, stage, prefetch, reshard_after_forward)
        module.register_forward_pre_hook(self._unchanged, prepend=True)  # before anything is gathered

    def _cut(self, layer: Layer, precision: Precision | None) -> list[Flat]:
        """A layer's parameters in as few flats as possible: trainable and frozen ones apart, and each dtype."""
        kinds: dict[Any, dict[str, nn.Parameter]] = {}
        for name, parameter in layer.parameters.items():
            kind = not parameter.requires_grad, str(parameter.dtype), str(parameter.device)
            kinds.setdefault(kind, {})[name] = parameter
        compute, wire = (None, None) if precision is None else (precision.dtype, precision.wire)
        return [Flat(kinds[kind], self.exchange, self.stage == 3, compute, wire) for kind in sorted(kinds)]

    def _made(self, factory: Factory) -> torch.optim.Optimizer:
        """The optimizer of this rank's pieces."""
        places = {id(p): (flat, i) for flat in self.flats for i, p in enumerate(flat.parameters) if flat.trainable}
        trainable = [places[id(p)] for p in self.module.parameters() if p.requires_grad]
        optimizer = factory([flat.pieces[i] for flat, i in trainable])
        check_optimizer(optimizer, {*places, *self._homes})
        for group in optimizer.param_groups:
            for position, parameter in enumerate(group["params"]):
                if id(parameter) in places:
                    flat, index = places[id(parameter)]
                    group["params"][position] = flat.pieces[index]
                    if parameter in optimizer.state:  # Adagrad's, for instance
                        optimizer.state[flat.pieces[index]] = cut_state(optimizer.state.pop(parameter), flat, index)
        return optimizer

    def _note_versions(self) -> None:
        """Whatever writes to a parameter in place counts it up; what is done here does not."""
        self._versions = {id(p): p._version for p in self.module.parameters()}

    def _unchanged(self, module: nn.Module, inputs: object) -> None:
        for name, parameter in module.named_parameters():
            if id(parameter) not in self._known:
                raise ValueError(f"{name} is a new parameter since the module was wrapped: wrap it when it is complete")
            trainable, dtype, device = self._known[id(parameter)]
            if (parameter.dtype, parameter.device) != (dtype, device):
                raise ValueError(
                    f"{name} was {dtype} on {device} when the module was wrapped, and is {parameter.dtype} on "
                    f"{parameter.device}: convert it before, or give a precision"
                )
            if parameter.requires_grad and not trainable:
                raise ValueError(
                    f"{name} was frozen when the module was wrapped: let it be trainable before, then freeze"
                )
        for flat in self.flats:
            for index, (name, parameter) in enumerate(zip(flat.names, flat.parameters, strict=True)):
                written = flat.is_copy and parameter._version != self._versions[id(parameter)]
                if written or not flat.in_place(index):
                    raise ValueError(
                        f"{name} has been changed since the module was wrapped, and that would be lost, as the state "
                        "is kept elsewhere: change what state_dict() gives, and load_state_dict() it"
                    )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward."""
        return self.module(*args, **kwargs)

    # A step.

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes that begin in it only add up on this rank; the next one outside of it reduces the sum."""
        before, self._passes.enabled = self._passes.enabled, False
        try:
            yield
        finally:
            self._passes.enabled = before

    @torch.no_grad()
    def gradient_shards(self) -> list[tuple[nn.Parameter, torch.Tensor]]:
        """This rank's piece of each reduced gradient, flat, in true size, to be scaled in place; all ranks call it.

        Over ``shard_group`` each element is there once.
        """
        self._passes.reduce_all()
        factor = 1.0 if self.scale is None else 1.0 / self.scale.value
        fresh = [gradient for flat in self.flats if (gradient := flat.take(factor)) is not None]
        if self.scale is not None and fresh:
            self._overflow |= self.exchange.any(any(not bool(each.isfinite().all()) for each in fresh))
        pairs = [pair for flat in self.flats for pair in zip(flat.parameters, flat.pieces, strict=False)]
        return [(parameter, piece.grad) for parameter, piece in pairs if piece.grad is not None]

    @torch.no_grad()
    def step(self) -> bool:
        """Update parameters with the gradients since ``zero_grad``; all ranks call it.

        Returns:
            False: left out, as an fp16 gradient is not finite on some rank; the loss scale is halved.

        Raises:
            FloatingPointError: not finite even with loss scale 1; on all ranks.
        """
        self.gradient_shards()
        if self.scale is not None:
            self.scale.update(self._overflow)
        if self._overflow:
            return False
        self.optimizer.step()
        self.publish()
        self._passes.forget()
        return True

    def publish(self) -> None:
        """The pieces have changed: parameters follow; all ranks call it."""
        trained = [flat for flat in self.flats if flat.trainable]
        for flat in trained:
            flat.publish()
        for flat in trained:
            if not flat.sharded:
                flat.arrive()

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self._overflow = False
        for flat in self.flats:
            flat.drop()
        self._passes.deferred = False

    # Looking inside.

    @contextlib.contextmanager
    def whole(self) -> Iterator[nn.Module]:
        """The module with all parameters whole on every rank, to be read; all ranks enter it."""
        for flat in self.flats:
            flat.arrive()
        try:
            yield self.module
        finally:
            for flat in self.flats:
                flat.free()

    def gradients(self) -> dict[str, torch.Tensor | None]:
        """The reduced gradients, whole, by parameter name; None of one that no rank has used. All ranks call it."""
        self.gradient_shards()
        return whole_gradients(self.flats)

    def holdings(self) -> dict[str, list[torch.Tensor]]:
        """All tensors that this rank holds now: parameters, gradients, optimizer (masters and states), buffers, other.

        other are the optimizer's counters: 4 bytes a parameter tensor with Adam.
        """
        found: dict[str, list[torch.Tensor]] = {kind: [] for kind in ("parameters", "gradients", "optimizer", "other")}
        for flat in self.flats:
            for kind, tensors in flat.holdings().items():
                found[kind] += tensors
        for value in (value for entries in self.optimizer.state.values() for value in entries.values()):
            if isinstance(value, torch.Tensor):
                found["optimizer" if value.dim() else "other"].append(value)
        return {**found, "buffers": list(self.module.buffers())}

    def memory(self) -> dict[str, int]:
        """Bytes that this rank holds now, by kind."""
        return {
            kind: sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
            for kind, tensors in self.holdings().items()
        }

    # Saving.

    def state_dict(self) -> dict[str, Any]:
        """Whole and the same on every rank, on any number of ranks: all ranks call it.

        Returns:
            ``module`` (masters for parameters), ``optimizer`` (as one process would have it), ``scale``.
        """
        return {
            "module": whole_module(self.module, self.flats),
            "optimizer": whole_optimizer(self.optimizer, self._homes, self.exchange),
            "scale": self.scale and self.scale.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What ``state_dict`` gave on any number of ranks and in any stage; all ranks call it.

        Raises:
            ValueError: another model's, or another optimizer's.
        """
        for flat in self.flats:
            flat.drop()
        load_module(self.module, self.flats, state["module"])
        for flat in self.flats:
            if not flat.sharded:
                flat.arrive()
        self._note_versions()
        load_optimizer(self.optimizer, self._homes, state["optimizer"])
        if self.scale is not None and state.get("scale") is not None:
            self.scale.load_state_dict(state["scale"])
