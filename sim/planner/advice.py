"""Why this plan: strategies side by side, what another value of an axis costs, and the reasons in words.

The rules are those that practice has settled on; the numbers beside them are this search's own::

    one GPU          it fits: as it is; else ZeRO-Offload
    one node         it fits: DDP or ZeRO; else ZeRO, PP or TP; a layer does not fit: TP or ZeRO
    several nodes    fast links: ZeRO, or PP + TP + DP; slow links: DP + TP + PP + ZeRO-1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .hardware import Hardware
from .layout import Layout
from .parameters import attention, mlp, norms, total
from .search import Found
from .transformer import Transformer

FAST = 12.5e9  # bytes a second of a GPU's share of NICs (100 Gbit/s), from which links between nodes count as fast


@dataclass(frozen=True)
class Choice:
    """A value of an axis, or a strategy: its fastest plan that fits (number, -1: none does), and the least bytes."""

    axis: str
    value: Any
    number: int
    seconds: float
    least: float

    def cost(self, best: float) -> str:
        """``+38.0 %``, or what it lacks."""
        if self.number < 0:
            return f"does not fit: needs {self.least / 1e9:,.0f} GB"
        return f"{self.seconds / best - 1:+.1%}"


def strategies(found: Found) -> list[Choice]:
    """The ways that have names, each with its best plan; those that the space does not have are left out."""
    tp, pp, cp = (found.values(axis) for axis in ("tp", "pp", "cp"))
    zero = np.asarray(found.space.zero)[found.values("zero")]
    places = found.space.offload
    hosted = np.array(["optimizer" in place for place in places])[found.values("offload")]
    plain = np.array([not place for place in places])[found.values("offload")]
    alone = (tp == 1) & (pp == 1) & (cp == 1)
    masks = {
        "DDP": alone & (zero == 0) & plain,
        "ZeRO-1": alone & (zero == 1) & plain,
        "ZeRO-2": alone & (zero == 2) & plain,
        "ZeRO-3 (FSDP)": alone & (zero == 3) & plain,
        "ZeRO-Offload": alone & hosted,
        "TP + DP": (tp > 1) & (pp == 1) & (cp == 1) & (zero == 0) & plain,
        "PP + DP": (tp == 1) & (pp > 1) & (cp == 1) & (zero == 0) & plain,
        "PP + TP + DP": (tp > 1) & (pp > 1) & (cp == 1) & (zero == 0) & plain,
        "PP + TP + DP + ZeRO-1": (tp > 1) & (pp > 1) & (cp == 1) & (zero == 1) & plain,
        "with CP": (cp > 1) & plain,
    }
    return [_choice(found, "strategy", name, mask) for name, mask in masks.items() if mask.any()]


def others(found: Found, best: Layout) -> list[Choice]:
    """Every other value of an axis, all other axes free, in the order of the axes."""
    rows = []
    for axis, values in {**found.space.axes, "vpp": tuple(np.unique(found.values("vpp")))}.items():
        own = found.values(axis)
        numeric = axis in ("tp", "pp", "cp", "ep", "microbatch", "vpp")
        for place, value in enumerate(values):
            mask = own == (value if numeric else place)
            if value != getattr(best, axis) and mask.any():
                rows.append(_choice(found, axis, int(value) if numeric else value, mask))
    return rows


def _choice(found: Found, axis: str, value: Any, mask: Any) -> Choice:
    best = found.best(1, mask)
    least = float(found.sizes[mask].min())
    return Choice(axis, value, best[0] if best else -1, float(found.times[best[0]]) if best else 0.0, least)


def in_words(choice: Choice, hardware: Hardware) -> str:
    """``TP 16 crosses nodes``."""
    axis: str = choice.axis
    value: Any = choice.value
    if axis == "tp":
        return f"TP {value}{' crosses nodes' if value > hardware.local else ''}"
    if axis in ("pp", "cp", "ep"):
        return f"{axis.upper()} {value}"
    if axis == "zero":
        return f"ZeRO-{value}" if value else "no ZeRO"
    if axis == "microbatch":
        return f"microbatch {value}"
    if axis == "vpp":
        return f"{value} chunk{'s' * (value > 1)} a rank"
    if axis in ("sp", "overlap"):
        return f"{'with' if value else 'without'} {'sequence parallelism' if axis == 'sp' else 'overlap'}"
    if axis == "offload":
        return f"{' and '.join(value)} offloaded" if value else "nothing offloaded"
    return f"{value}" if axis == "schedule" else f"recompute {value}"


def reasons(model: Transformer, found: Found, best: Layout, hardware: Hardware) -> list[str]:
    """Sentences: what must be shared, where, what the rules say, and what this plan does about it."""
    gpus, state = found.space.gpus, best.precision.state.total
    states = state * total(model)
    where = _where(gpus, hardware)
    said = [
        f"Parameters, gradients and optimizer are {state:g} bytes a parameter, {states / 1e9:,.0f} GB: "
        + (
            "one GPU holds them"
            if states <= found.limit
            else f"{states / found.limit:.1f} times what a GPU has, so they must be shared out"
        )
        + ".",
        f"{where}: {_rule(model, best, gpus, states <= found.limit, hardware, found.limit)}.",
    ]
    if best.tp > 1:
        inside = "stays inside a node" if best.tp <= hardware.local else "crosses nodes"
        said.append(f"TP {best.tp} {inside} of {hardware.local} GPUs: its sums come twice a layer, hidden by little.")
    if best.pp > 1:
        said.append(
            f"PP {best.pp} sends least between nodes; {best.microbatches} microbatches keep its bubble small "
            f"({best.schedule})."
        )
    if best.zero:
        split = {1: "optimizer states", 2: "optimizer states and gradients", 3: "parameters, too"}[best.zero]
        said.append(f"ZeRO-{best.zero} splits {split} over {best.replicas} replicas" + _beside(best) + ".")
    said.append(
        "No recompute: activations fit." if best.recompute == "none" else "Full recompute: else activations do not fit."
    )
    if best.offload:
        said.append(f"{' and '.join(best.offload).capitalize()} wait in host memory, under computing.")
    return said


def _where(gpus: int, hardware: Hardware) -> str:
    if gpus == 1:
        return "One GPU"
    if gpus <= hardware.local:
        return "One node"
    kind = "fast" if hardware.nic >= FAST else "slow"
    nodes = -(-gpus // hardware.local)
    return f"{nodes} nodes, {kind} links ({hardware.nic / 1e9:.3g} GB/s a GPU, NVLink {hardware.nvlink / 1e9:.3g})"


def _rule(model: Transformer, best: Layout, gpus: int, fits: bool, hardware: Hardware, limit: float) -> str:
    if gpus == 1:
        return "it fits, so train it as it is" if fits and not best.offload else "it does not fit, so ZeRO-Offload"
    if gpus <= hardware.local:
        if fits:
            return "it fits on one GPU, so DDP or ZeRO"
        layer = attention(model) + norms(model) + mlp(model, model.ffn)
        large = layer * best.precision.state.total > limit
        return "not even a layer fits, so TP or ZeRO" if large else "it does not fit on one GPU, so ZeRO, PP or TP"
    return "ZeRO, or PP + TP + DP" if hardware.nic >= FAST else "DP + TP + PP + ZeRO-1"


def _beside(best: Layout) -> str:
    if best.zero == 1:
        return ", for the traffic that DDP has anyway"
    return ", which a pipeline repeats for every microbatch" if best.pp > 1 else ""
