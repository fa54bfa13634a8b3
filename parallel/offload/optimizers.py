"""Optimizers whose memory lies on a slower tier: the state between steps, or the whole update.

OffloadedStates     device: parameters, gradients, one parameter's state        tier: all other states
OnHost              device: parameters, gradients      host: master copy, states, and the arithmetic
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from .tiers import Parcel, Tier, tier_for


class OffloadedStates(Optimizer):
    """An optimizer whose states are on a tier, but for those of the parameter that it updates (and of the next one).

    Args:
        optimizer: one that treats its parameters separately, as SGD and Adam do; it must not be stepped elsewhere.
        tier: where its states go; by default what lies below the parameters' device.
    """

    def __init__(self, optimizer: Optimizer, tier: Tier | None = None) -> None:
        super().__init__(optimizer.param_groups, optimizer.defaults)  # the same groups: schedulers change both
        self._inner = optimizer
        self.tier = tier or tier_for(self.param_groups[0]["params"][0].device)
        self._away: dict[Tensor, dict[str, Parcel]] = {}
        self._put_all()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update, parameter by parameter."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        turns = [
            (group, parameter)
            for group in self._inner.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        groups = self._inner.param_groups
        try:
            for i, (group, parameter) in enumerate(turns):
                for parcel in (p for _, at in turns[i : i + 2] for p in self._away.get(at, {}).values()):
                    parcel.fetch()
                self._bring(parameter)
                self._inner.param_groups = [{**group, "params": [parameter]}]
                self._inner.step()
                self._put(parameter)
        finally:
            self._inner.param_groups = groups
        return loss

    def holdings(self) -> dict[str, list[Tensor]]:
        """For :class:`parallel.Ledger`: the states that are in memory now."""
        states = [value for state in self._inner.state.values() for value in state.values()]
        tensors = [value for value in states if isinstance(value, Tensor)]
        return {"optimizer": [t for t in tensors if t.dim()], "other": [t for t in tensors if not t.dim()]}

    def state_dict(self) -> dict[str, Any]:
        """As the inner optimizer's; all states are in memory while they are in it."""
        self._bring_all()
        found = self._inner.state_dict()
        found["state"] = {key: dict(state) for key, state in found["state"].items()}  # ours lose what is put away
        self._put_all()
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._away.clear()
        self._inner.load_state_dict(state_dict)
        self.param_groups = self._inner.param_groups
        self._put_all()

    def _put(self, parameter: Tensor) -> None:
        state = self._inner.state[parameter]
        away = {name: value for name, value in state.items() if isinstance(value, Tensor) and value.dim()}
        self._away[parameter] = {name: self.tier.put(value) for name, value in away.items()}
        for name in away:
            del state[name]

    def _bring(self, parameter: Tensor) -> None:
        away = self._away.pop(parameter, {})
        self._inner.state[parameter].update({name: parcel.get() for name, parcel in away.items()})

    def _put_all(self) -> None:
        for parameter in list(self._inner.state):
            self._put(parameter)

    def _bring_all(self) -> None:
        for parameter in list(self._away):
            self._bring(parameter)


class OnHost(Optimizer):
    """An optimizer that runs on the CPU, on an fp32 copy of parameters that may be elsewhere and in fewer bits.

    Args:
        params: tensors, or groups as any optimizer takes them.
        make: the optimizer of the copies, such as ``lambda params: torch.optim.AdamW(params, lr=1e-3)``; it gets the
            groups with the copies in the parameters' places. It must update each element by itself.

    ``parallel.Zero(module, lambda params: OnHost(params, torch.optim.AdamW))`` is ZeRO-Offload: a step moves one
    gradient and one parameter over PCIe, 2 + 2 bytes each in half precision, and 12 bytes a parameter stay on the host.
    A parameter's ``state`` is that of its copy, and the copy itself, as ``master``.
    """

    def __init__(self, params: Iterable[Any], make: Callable[[list[dict[str, Any]]], Optimizer]) -> None:
        given = list(params)
        groups = [dict(group) for group in given] if given and isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            group["params"] = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        copies = [{**group, "params": [_copied(parameter) for parameter in group["params"]]} for group in groups]
        self._inner = make(copies)
        super().__init__(groups, self._inner.defaults)
        for own, inner in zip(self.param_groups, self._inner.param_groups, strict=True):
            own.update({name: value for name, value in inner.items() if name != "params"})
            for parameter, copy in zip(own["params"], inner["params"], strict=True):
                self.state[parameter]["master"] = copy

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for own, inner in zip(self.param_groups, self._inner.param_groups, strict=True):
            inner.update({name: value for name, value in own.items() if name != "params"})  # what schedulers change
            for i, parameter in enumerate(own["params"]):
                state = self.state[parameter]
                copy = inner["params"][i] = state.pop("master").requires_grad_()  # a loaded state has others
                self._inner.state[copy] = state
                copy.grad = None if parameter.grad is None else parameter.grad.to("cpu", torch.float32)
        self._inner.step()
        for own, inner in zip(self.param_groups, self._inner.param_groups, strict=True):
            for parameter, copy in zip(own["params"], inner["params"], strict=True):
                self.state[parameter] = self._inner.state.pop(copy)
                self.state[parameter]["master"] = copy
                if copy.grad is not None:
                    parameter.copy_(copy, non_blocking=True)
                    copy.grad = None
        return loss

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As any optimizer's; parameters become their masters, rounded."""
        super().load_state_dict(state_dict)
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        own = [parameter for group in self.param_groups for parameter in group["params"]]
        for parameter, number in zip(own, numbers, strict=True):
            saved = state_dict["state"][number]  # torch has rounded them to the parameter's dtype
            self.state[parameter] = {name: _on_host(value) for name, value in saved.items()}
            parameter.copy_(self.state[parameter]["master"])


def _on_host(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().to("cpu", torch.float32 if value.dim() else value.dtype, copy=True)


def _copied(parameter: Tensor) -> Tensor:
    copy = parameter.detach().to("cpu", torch.float32, copy=True)
    return copy.pin_memory().requires_grad_() if parameter.is_cuda else copy.requires_grad_()
