"""Linear layers with weights in few bits.

QuantizedLinear     y = x · back(codes)ᵀ + b         memory: the weight is in few bits, the product in x's dtype
Int8Linear          y = (x̂ · codesᵀ) · sx · sw + b   and arithmetic: int8 × int8 into int32; x̂ is x in 8 bits, with
                                                     a scale a row of x, found anew in every call
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .codes import Quantized, check_bits, quantize


class QuantizedLinear(nn.Module):
    """``nn.Linear`` for inference, with a weight of 8 or 4 bits; gradients flow to its input and bias.

    Args:
        linear: whose weight to take over.
        bits, block: as :func:`parallel.quantize.quantize` takes them.
    """

    codes: Tensor
    scales: Tensor

    def __init__(self, linear: nn.Linear, bits: int = 8, block: int | None = 128) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        found = quantize(linear.weight, bits, block)
        self.bits, self.block = bits, found.block
        self.register_buffer("codes", found.codes)
        self.register_buffer("scales", found.scales)
        self.bias = linear.bias

    @property
    def quantized(self) -> Quantized:
        return Quantized(self.codes, self.scales, self.bits, self.block, self.in_features)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in_features) → (…, out_features)."""
        return nn.functional.linear(x, self.quantized.dequantize(x.dtype), self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bits={self.bits}, block={self.block}"


class Int8Linear(QuantizedLinear):
    """Multiplies in int8: the weight with a scale a row, the input with one a row of it. For inference."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear, 8, None)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        given = quantize(rows)
        product = _int_product(given.codes, self.codes).float() * given.scales * self.scales.T
        product = product.to(x.dtype).view(*x.shape[:-1], self.out_features)
        return product if self.bias is None else product + self.bias


def _int_product(a: Tensor, b: Tensor) -> Tensor:
    """int8 (m, k) · (n, k)ᵀ → int32 (m, n), exactly. CUDA wants over 16 rows, and k and n by the 8: zeros are added."""
    m, n = len(a), len(b)
    if a.is_cuda:
        pad = -a.shape[1] % 8
        a = nn.functional.pad(a, (0, pad, 0, max(0, 32 - m)))
        b = nn.functional.pad(b, (0, pad, 0, -n % 8))
    return torch._int_mm(a, b.T)[:m, :n]


def quantize_(module: nn.Module, bits: int = 8, block: int | None = 128, activations: bool = False) -> nn.Module:
    """Put layers of few bits in the places of a module's linear layers.

    Args:
        module: is changed, and returned.
        bits, block: 8 or 4, and how many weights of a row share a scale (None: all).
        activations: multiply in int8, too; then 8 bits and a scale a row.

    A weight that something else uses as well (tied to an embedding) stays: it would only be there twice.

    Raises:
        ValueError: bits or a block that make no sense, or nothing to replace.
    """
    check_bits(bits, block)
    if activations and bits != 8:
        raise ValueError(f"bits={bits} with activations=True: integers are multiplied with 8 bits; give bits=8")
    owners: dict[Tensor, int] = {}
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            owners[parameter] = owners.get(parameter, 0) + 1
    found = [
        (part, name, child)
        for part in module.modules()
        for name, child in part.named_children()
        if type(child) is nn.Linear and owners[child.weight] == 1
    ]
    if not found:
        raise ValueError("module has no linear layer inside it whose weight is its own: there is nothing to quantize")
    for part, name, child in found:
        setattr(part, name, Int8Linear(child) if activations else QuantizedLinear(child, bits, block))
    return module
