"""Bytes of an element: in which dtype parameters, gradients and activations are, and what the optimizer keeps."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from parallel.formulas import FULL, MIXED, StateBytes

# Bytes of an element that the optimizer keeps, without a master copy. 8 bits: two moments, and for each block of 256 a
# scale in fp32 (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"; blocks as in its released code).
OPTIMIZERS: Mapping[str, float] = {"adam": 8, "adam8bit": 2 * (1 + 4 / 256), "momentum": 4, "sgd": 0}
# Bytes of an element on its way; below 16 bits with an fp32 scale for each block of 128.
WIRES: Mapping[str, float] = {
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8": 1 + 4 / 128,
    "int8": 1 + 4 / 128,
    "int4": 0.5 + 4 / 128,
}
MASTER = 4  # an fp32 copy of 16-bit parameters


@dataclass(frozen=True)
class Precision:
    """state: bytes of parameters, gradients, optimizer. activation: bytes of an element that is kept for the backward;
    matmul_input: of one that is kept as the input of a linear layer. compute: the dtype that matmuls run in."""

    name: str
    state: StateBytes
    activation: float
    matmul_input: float
    compute: str

    @property
    def update_bytes(self) -> float:
        """Bytes a parameter that the update reads and writes in eager mode: gradients to fp32, with fp16 divided by the
        loss scale; their norm; scaled to the norm that is allowed; the optimizer; the new parameters."""
        to_fp32 = self.state.gradients + 4 if self.state.gradients < 4 else 0
        unscale = 8 if self.name == "fp16" else 0
        norm, clip, read = 4, 8, 4
        return to_fp32 + unscale + norm + clip + read + 2 * self.state.optimizer + self.state.parameters


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("fp32", FULL, 4, 4, "fp32"),
        Precision("tf32", FULL, 4, 4, "tf32"),
        Precision("fp16", MIXED, 2, 2, "fp16"),
        Precision("bf16", MIXED, 2, 2, "bf16"),
        Precision("fp8", MIXED, 2, 1, "fp8"),
        Precision("pure-fp16", StateBytes(2, 2, 4), 2, 2, "fp16"),
        Precision("pure-bf16", StateBytes(2, 2, 4), 2, 2, "bf16"),
    )
}


def find_precision(name: str = "bf16", optimizer: str = "adam", fp32_gradients: bool = False) -> Precision:
    """A precision with this optimizer.

    Args:
        name: fp32, tf32; fp16, bf16, fp8 (16-bit parameters with an fp32 master copy); pure-fp16, pure-bf16 (without).
        optimizer: adam, adam8bit, momentum, sgd. The states of a pure precision are in 16 bits, too.
        fp32_gradients: 16-bit gradients are summed in fp32, as Megatron-LM does.

    Raises:
        ValueError: unknown names; the nearest are listed.
    """
    for kind, text, known in (("precision", name, PRECISIONS), ("optimizer", optimizer, OPTIMIZERS)):
        if text not in known:
            near = difflib.get_close_matches(text.lower(), known, n=3, cutoff=0.4) or list(known)
            raise ValueError(f"{kind} {text!r} is unknown: use {', '.join(near)}")
    precision = PRECISIONS[name]
    held = OPTIMIZERS[optimizer]
    if name.startswith("pure"):
        held = held / 2 if optimizer in ("adam", "momentum") else held
    elif precision.state.parameters == 2:
        held += MASTER
    state = replace(precision.state, optimizer=held)
    return replace(precision, state=replace(state, gradients=4) if fp32_gradients else state)
