"""Replicas of a module in one process, as threads run them: what is copied where, counted.

A replica is a shell: the module's structure with tensors of its own. Everything that goes from one device to another
passes ``Move``, whose backward takes the gradient the other way, and is counted by exchange.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten


class Exchanges:
    """Elements moved between devices, by exchange; threads may count at the same time."""

    def __init__(self) -> None:
        self.elements: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, tensor: torch.Tensor) -> None:
        with self._lock:
            self.elements[name] += tensor.numel()


class Move(torch.autograd.Function):
    """A copy on another device; the gradient comes back."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, device: torch.device, exchanges: Exchanges, there: str, back: str
    ) -> torch.Tensor:
        ctx.home, ctx.exchanges, ctx.back = tensor.device, exchanges, back
        exchanges.add(there, tensor)
        return tensor.to(device, copy=True)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        ctx.exchanges.add(ctx.back, gradients[0])
        return gradients[0].to(ctx.home, copy=True), None, None, None, None


def move(tensor: torch.Tensor, device: torch.device, exchanges: Exchanges, there: str, back: str) -> torch.Tensor:
    return cast(torch.Tensor, Move.apply(tensor, device, exchanges, there, back))  # type: ignore[no-untyped-call]


def replicate(module: nn.Module, device: torch.device, exchanges: Exchanges) -> nn.Module:
    """A shell of the module with copies of its parameters and buffers; gradients add up in the originals."""
    copies: dict[int, torch.Tensor | None] = {id(None): None}
    shells: dict[int, nn.Module] = {}

    def copied(tensor: torch.Tensor | None) -> torch.Tensor | None:
        if tensor is not None and id(tensor) not in copies:
            copies[id(tensor)] = move(tensor, device, exchanges, "replicate", "gradients")
        return copies[id(tensor)]

    def shell(original: nn.Module) -> nn.Module:
        found = shells.get(id(original))
        if found is None:
            found = shells[id(original)] = copy.copy(original)
            inside: dict[str, Any] = found.__dict__
            inside["_parameters"] = {name: copied(p) for name, p in original._parameters.items()}
            inside["_buffers"] = {name: copied(b) for name, b in original._buffers.items()}
            inside["_modules"] = {name: child and shell(child) for name, child in original._modules.items()}
        return found

    return shell(module)


def scatter(inputs: Any, devices: Sequence[torch.device], exchanges: Exchanges) -> list[Any]:
    """The inputs cut along dimension 0, a share for each device that gets a row; what has no rows goes to all.

    Raises:
        ValueError: tensors with different numbers of rows.
    """
    leaves, form = tree_flatten(inputs)
    rows = {leaf.shape[0] for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()}
    if len(rows) > 1:
        raise ValueError(f"inputs have {' and '.join(map(str, sorted(rows)))} rows: give all the same batch")
    used = max(1, min(len(devices), *rows)) if rows else 1
    shares: list[list[Any]] = [[] for _ in range(used)]
    for leaf in leaves:
        cut = isinstance(leaf, torch.Tensor) and leaf.dim()
        for i, part in enumerate(leaf.tensor_split(used) if cut else [leaf] * used):
            moves = isinstance(part, torch.Tensor) and i > 0
            shares[i].append(move(part, devices[i], exchanges, "scatter", "input gradients") if moves else part)
    return [tree_unflatten(share, form) for share in shares]


def gather(outputs: Sequence[Any], device: torch.device, exchanges: Exchanges) -> Any:
    """The replicas' outputs put together along dimension 0 on one device; scalars become a vector, one a replica.

    Raises:
        ValueError: outputs that differ in form, or hold something else than tensors that is not the same everywhere.
    """
    flattened = [tree_flatten(output) for output in outputs]
    if any(form != flattened[0][1] for _, form in flattened):
        raise ValueError("the replicas' outputs differ in form: return the same structure whatever the input")
    together = []
    for leaves in zip(*(leaves for leaves, _ in flattened), strict=True):
        if all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            first, *others = leaves
            parts = [first, *(move(other, device, exchanges, "gather", "loss") for other in others)]
            together.append(torch.cat(parts) if first.dim() else torch.stack(parts))
        elif all(leaf == leaves[0] for leaf in leaves):
            together.append(leaves[0])
        else:
            raise ValueError(f"the replicas return {leaves}: return tensors, or the same everywhere")
    return tree_unflatten(together, flattened[0][1])


def run_in_threads(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """Every job's result; the first runs here, each other in a thread with this one's gradient and autocast modes.

    Raises:
        whatever the first job to fail raised, once all have ended; a note says which it was.
    """
    results: list[Any] = [None] * len(jobs)
    errors: list[BaseException | None] = [None] * len(jobs)
    gradients, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]

    def work(index: int) -> None:
        try:
            results[index] = jobs[index]()
        except BaseException as error:
            errors[index] = error

    def work_alike(index: int) -> None:
        for kind, enabled, dtype in autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
            work(index)

    threads = [threading.Thread(target=work_alike, args=(index,)) for index in range(1, len(jobs))]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    for index, error in enumerate(errors):
        if error is not None:
            error.add_note(f"on replica {index} of {len(jobs)}")
            raise error
    return results
