"""Where autograd meets the plan: hooks that say which layer is about to run, and which gradients are complete.

    before a layer's forward      reach(layer) in the plan, wait for its parameters         hook on the module
    after it                      free them, go on in the plan                              hook on the module
    before a layer's backward     reach(layer), wait for its parameters                     hook on the layer's outputs
    a gradient is complete        into the layer's bucket; was it the last: free, go on     hook on the parameter
    after the backward pass       all that is left; wait for everything                     autograd's callback

A layer whose gradients do not all come is over when an earlier call begins: autograd runs backwards through the calls,
so everything of later calls has run by then. (It runs what was recorded last first; all on one device, one thread.)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd import Variable
from torch.utils._pytree import tree_leaves

from ..hooks import current_pass
from . import plan
from .flat import Flat
from .plan import Cursor, Task


class Passes:
    """Runs the plan of every forward and backward pass of one model.

    Args:
        modules, flats: of each layer, layer 0 first.
        stage: 1, 2 or 3; prefetch: layers that are fetched ahead.
        reshard: stage 3: free parameters after the forward, and fetch them again for the backward.

    Attributes:
        enabled: off while microbatches only add up on their ranks; deferred: gradients wait in the parameters for
            ``reduce_all``.
    """

    def __init__(
        self, modules: list[nn.Module], flats: list[list[Flat]], stage: int, prefetch: int, reshard: bool
    ) -> None:
        self._flats, self._stage, self._prefetch, self._reshard = flats, stage, prefetch, reshard
        self._last = len(modules) - 1
        self._order = [*range(self._last, 0, -1), 0]  # in which gradients are complete
        self.enabled, self.deferred = True, False
        self._reduces = False
        self._cursor: Cursor | None = None
        self._in_backward = False
        self._pass = -1  # autograd's number of it
        self._calls: list[int] = []  # layers in the order in which they ran, and whose backward is to come
        self._running: int | None = None
        self._open: set[int] = set()  # layers whose backward has begun, and whose parameters are still whole
        self._lowest = 0
        self._fired: list[set[int]] = [set() for _ in modules]
        self._done: set[int] = set()  # layers all of whose gradients have come
        self._flying: list[Flat] = []  # whose gradients are on their way
        for number, module in enumerate(modules):
            module.register_forward_pre_hook(partial(self._before_forward, number), prepend=True)
            module.register_forward_hook(partial(self._after_forward, number))
            for part in module.modules() if number else ():
                part.register_forward_pre_hook(partial(self._before_part, number))
        for number, layer in enumerate(flats):
            for flat in layer:
                for index, parameter in enumerate(flat.parameters if flat.trainable else []):
                    hook = partial(self._arrived, number, flat, index)
                    parameter.register_post_accumulate_grad_hook(hook)

    # The forward pass.

    def _before_forward(self, layer: int, module: nn.Module, inputs: Any) -> None:
        if layer == 0 and current_pass() == -1:
            self._abandon()
            tasks = plan.forward(self._last, self._prefetch, self._stage == 3)
            self._cursor = Cursor(tasks, self._issue, self._complete)
        self._reach(layer)

    def _before_part(self, layer: int, module: nn.Module, inputs: Any) -> None:
        """A checkpoint computes the layer or a part of it again, maybe after its last gradient seemed to have come."""
        if self._in_backward:
            self._running = layer
            self._open.add(layer)
            self._reach(layer)

    def _after_forward(self, layer: int, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if not self._in_backward:
            self._watch(layer, module, outputs)
        if self._in_backward or self._cursor is None:
            return  # a checkpoint that computes again, or a layer that is called by itself
        keep = not self._reshard and torch.is_grad_enabled()
        if layer:
            if not keep:
                self._free(layer)
            self._cursor.go_on()
            return
        self._cursor.finish()
        self._cursor = None
        for number in range(self._last + 1) if not keep else ():
            self._free(number)

    def _watch(self, layer: int, module: nn.Module, outputs: Any) -> None:
        """Hear of it when the backward pass comes to these outputs."""
        tensors = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
        if not tensors and torch.is_grad_enabled():
            raise ValueError(
                f"{type(module).__name__} returned a {type(outputs).__name__} in which no tensor can be found: "
                "return tensors, in tuples, lists or dicts if need be"
            )
        differentiable = [tensor for tensor in tensors if tensor.grad_fn is not None]
        for tensor in differentiable:
            tensor.register_hook(partial(self._before_backward, layer, len(self._calls)))
        if layer and differentiable:
            self._calls.append(layer)

    # The backward pass.

    @torch.no_grad()
    def _before_backward(self, layer: int, number: int, gradient: torch.Tensor) -> None:
        self._begin_backward(layer)
        if not layer:
            return
        self._running, self._lowest = layer, min(self._lowest, number)
        del self._calls[number + 1 :]  # they are over
        for other in [each for each in self._open if each != layer and each not in self._calls]:
            self._free(other)
        self._open.add(layer)
        self._reach(layer)

    def _begin_backward(self, layer: int) -> None:
        """Unless it has begun: a reentrant backward in it, which autograd numbers anew, does not begin at layer 0."""
        current = current_pass()
        if self._in_backward and (layer or self._pass == current):
            return
        self._abandon()
        self._in_backward, self._pass, self._lowest = True, current, len(self._calls)
        self._reduces = self.enabled and self._stage > 1
        self.deferred = not self._reduces
        tasks = plan.backward(self._last, self._prefetch, self._stage == 3, self._reduces)
        self._cursor = Cursor(tasks, self._issue, self._complete)
        Variable._execution_engine.queue_callback(self._end_backward)
        self._reach(0)

    @torch.no_grad()
    def _arrived(self, layer: int, flat: Flat, index: int, parameter: torch.Tensor) -> None:
        """A parameter's gradient is complete, all its uses together."""
        self._begin_backward(layer)
        if self._reduces and layer:  # layer 0's come early and late: a bucket of all would be held all along
            flat.collect(index)
        self._fired[layer].add(id(parameter))
        if self._all_fired(layer):
            self._fired[layer].clear()  # in a reentrant backward they may come again
            self._done.add(layer)
            self._running = None if self._running == layer else self._running
            if all(p.requires_grad for each in self._flats[layer] for p in each.parameters):  # else: still needed
                self._free(layer)
            assert self._cursor is not None
            self._cursor.go_on()

    @torch.no_grad()
    def _end_backward(self) -> None:
        assert self._cursor is not None
        self._cursor.finish()
        for layer in self._order if self._reduces else ():
            if any(flat.waiting for flat in self._flats[layer]):  # they came again, in a reentrant backward
                self._issue(Task("reduce", layer))
        self._settle()
        del self._calls[self._lowest :]
        self._reset()

    # What both have in common.

    def _reach(self, layer: int) -> None:
        if self._cursor is not None:
            self._cursor.reach(layer)
        for flat in self._flats[layer]:
            flat.arrive()

    def _issue(self, task: Task) -> None:
        if task.kind == "gather":
            for flat in self._flats[task.layer]:
                flat.gather()
            return
        self._settle()  # one bucket on its way while the next is filled
        self._flying = [flat for flat in self._flats[task.layer] if flat.trainable]
        for flat in self._flying:
            flat.reduce()
        if not self._prefetch:
            self._settle()

    def _settle(self) -> None:
        for flat in self._flying:
            flat.settle()
        self._flying = []

    def _complete(self, layer: int) -> bool:
        """Whether no more gradients of the layer will come in this pass."""
        over = layer != 0 and layer != self._running and layer not in self._calls
        return over or layer in self._done

    def _all_fired(self, layer: int) -> bool:
        wanted = [p for flat in self._flats[layer] if flat.trainable for p in flat.parameters if p.requires_grad]
        return len(self._fired[layer]) >= len(wanted)

    def _free(self, layer: int) -> None:
        self._open.discard(layer)
        for flat in self._flats[layer]:
            flat.free()

    def _abandon(self) -> None:
        """If an earlier pass has failed in the middle: let what is under way arrive, and forget it."""
        if self._cursor is not None:
            self._settle()
            for flat in (flat for layer in self._flats for flat in layer):
                flat.bucket = None
            self._reset()

    def _reset(self) -> None:
        for layer in range(self._last + 1):
            self._free(layer)
            self._fired[layer].clear()
        self._done.clear()
        self._cursor, self._in_backward, self._running = None, False, None

    def forget(self) -> None:
        """The optimizer has stepped: no backward pass through what has been computed makes sense."""
        self._calls.clear()

    @torch.no_grad()
    def reduce_all(self) -> None:
        """Reduce the gradients that wait in the parameters; all ranks call it."""
        if self.deferred:
            for layer in self._order:
                self._issue(Task("reduce", layer))
            self._settle()
            self.deferred = False
