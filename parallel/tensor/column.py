"""The product in front of a block, X Wᵀ with W cut by rows: exchanges run under the products that do not need them.

backward, without sequence parallelism           with it, regather=True
∂X part = ∂Y W                                   gather X again   ┃ ∂X part = ∂Y W
add ∂X over the ranks ┃ ∂W = ∂Yᵀ X               reduce-scatter ∂X┃ ∂W = ∂Yᵀ X
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..deferred import Deferring, put_off
from . import exchange
from .ranks import TensorParallel

PLACES = -2  # the dimension that sequence parallelism cuts: x is (…, s, h)


def column_product(
    x: Tensor, weight: Tensor, bias: Tensor | None, tp: TensorParallel, layer: Deferring | None = None
) -> Tensor:
    """x Wᵀ + b for the rows of W that this rank has.

    Args:
        x: (…, s, h), invariant; with sequence parallelism (…, s/t, h), varying. weight: (f/t, h); bias: (f/t).
        layer: whose they are; it may put off their gradients (see ``deferred``), and gather x again then.

    Returns:
        (…, s, f/t), varying. Its gradient is varying; that of x is as x is: added up over the ranks.
    """
    out: Tensor = _ColumnProduct.apply(x, weight, bias, tp, layer)  # type: ignore[no-untyped-call]
    return out


class _ColumnProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, tp: TensorParallel, layer: Deferring | None
    ) -> Tensor:
        with torch.enable_grad():  # so that a ledger takes what is made here for the activations that they are
            whole = exchange.all_gather(x.detach(), PLACES, tp.group)() if tp.sequence else x.detach()
            out = F.linear(whole, weight.detach(), None if bias is None else bias.detach())
        ctx.again = tp.sequence and tp.regather
        ctx.tp, ctx.layer = tp, layer
        ctx.save_for_backward(whole if tp.sequence and not tp.regather else x, weight)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,), (kept, weight), tp = gradients, ctx.saved_tensors, ctx.tp
        of_x, of_weight, of_bias = wanted(ctx, kept, gradient)
        gathered = exchange.all_gather(kept, PLACES, tp.group, background=True) if ctx.again and of_weight else None
        pending = None
        if of_x:
            part = gradient @ weight
            pending = (
                exchange.reduce_scatter(part, PLACES, tp.group, background=True)
                if tp.sequence
                else exchange.all_reduce(part, tp.group, background=True)
            )
        whole = gathered() if gathered is not None else kept
        weight_gradient = weight_product(gradient, whole) if of_weight else None
        bias_gradient = gradient.flatten(0, -2).sum(0) if of_bias else None
        return pending() if pending is not None else None, weight_gradient, bias_gradient, None, None


def weight_product(gradient: Tensor, x: Tensor) -> Tensor:
    """∂W = ∂Yᵀ X over all tokens: (…, f) and (…, h) → (f, h)."""
    return gradient.flatten(0, -2).mT @ x.flatten(0, -2)


def wanted(ctx: Any, x: Tensor, gradient: Tensor) -> tuple[bool, bool, bool]:
    """Which gradients a backward is to give, of input, weight and bias; False for those that the layer has put off."""
    of_x, of_weight, of_bias, *_ = ctx.needs_input_grad
    if (of_weight or of_bias) and put_off(ctx.layer, x, gradient):
        return of_x, False, False
    return of_x, of_weight, of_bias
