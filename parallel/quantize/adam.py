"""Adam with states of 8 bits: 2 bytes a parameter instead of 8.

A linear code is no good here. In one block the second moments differ by factors of a million, the small ones would be
rounded to zero, and their updates would be divided by nothing. A logarithmic code is off by the same share everywhere:

    code    0      1 …                      … 127 (255)
    value   0      largest · 2^−15.75          largest         momentum: sign and 7 bits, 2^(1/8) apart: ± 4.5 %
                   largest · 2^−15.9           largest         √ of the second moment: 8 bits, 2^(1/16) apart: ± 2.2 %

Source: Dettmers, Lewis, Shleifer and Zettlemoyer, "8-bit optimizers via block-wise quantization", 2022 (whose code is
a tree of decades instead of a logarithm).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


def encode(values: Tensor, block: int, signed: bool) -> tuple[Tensor, Tensor]:
    """Codes (int8 or uint8, one a value) and the largest absolute value of each block (fp32)."""
    top, apart = (127, 8) if signed else (255, 16)
    rows = torch.nn.functional.pad(values.detach().reshape(-1), (0, -values.numel() % block)).view(-1, block)
    largest = rows.abs().amax(dim=1)
    share = rows.abs() / largest.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
    codes = (top + (share.log2() * apart).round()).clamp(0, top)  # log2 of 0 is −∞, which is code 0
    codes = (codes * rows.sign()).to(torch.int8) if signed else codes.to(torch.uint8)
    return codes.view(-1)[: values.numel()].clone(), largest


def decode(codes: Tensor, largest: Tensor, block: int) -> Tensor:
    """The values, fp32, one dimension."""
    top, apart = (127, 8) if codes.dtype == torch.int8 else (255, 16)
    size = codes.float().abs()
    values = torch.where(size == 0, 0.0, torch.exp2((size - top) / apart)) * codes.float().sign()
    return values * largest.repeat_interleave(block)[: codes.numel()]


class Adam8bit(Optimizer):
    """AdamW whose momentum and second moment are kept in 8 bits, block by block.

    Args:
        params: tensors or groups; lr, betas, eps, weight_decay: as in ``torch.optim.AdamW``.
        block: how many values share a scale.
        least: tensors with fewer elements keep fp32 states: biases and norms are small and sensitive.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        block: int = 256,
        least: int = 4096,
    ) -> None:
        if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas) or block < 1:
            raise ValueError(
                f"lr={lr}, eps={eps}, betas={betas}, block={block}: give lr, eps ≥ 0, 0 ≤ betas < 1, block ≥ 1"
            )
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self._block, self._least = block, least

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state, (first, second) = self.state[parameter], group["betas"]
        gradient = parameter.grad.float().reshape(-1)  # type: ignore[union-attr]
        step = state["step"] = state.get("step", 0) + 1
        momentum, root = self._moments(state, gradient)
        momentum.lerp_(gradient, 1 - first)
        root = (root.square() * second + gradient.square() * (1 - second)).sqrt()
        self._keep(state, momentum, root)
        scale = (1 - second**step) ** 0.5
        update = momentum / (1 - first**step) / (root / scale + group["eps"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.sub_((group["lr"] * update).view_as(parameter))

    def _moments(self, state: dict[str, Any], gradient: Tensor) -> tuple[Tensor, Tensor]:
        if "momentum" not in state:
            return torch.zeros_like(gradient), torch.zeros_like(gradient)
        if gradient.numel() < self._least:
            return state["momentum"], state["root"]
        return tuple(decode(state[name], state[f"{name}_largest"], self._block) for name in ("momentum", "root"))  # type: ignore[return-value]

    def _keep(self, state: dict[str, Any], momentum: Tensor, root: Tensor) -> None:
        if momentum.numel() < self._least:
            state.update(momentum=momentum, root=root)
            return
        for name, values, signed in (("momentum", momentum, True), ("root", root, False)):
            state[name], state[f"{name}_largest"] = encode(values, self._block, signed)
