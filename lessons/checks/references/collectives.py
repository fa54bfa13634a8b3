"""The formulas of lessons 3, 6 and 7."""

from __future__ import annotations

import math
from collections.abc import Mapping

from collectives.contract import contract_of
from collectives.cost import Machine, predict
from collectives.proof import prove
from collectives.registry import find

from ..fits import FIT
from ..orders import ORDER
from ..reference import Reference


def _root_bytes(size: int, nbytes: int) -> int:
    """Every message of the naive all-reduce begins or ends at rank 0, and is the whole buffer."""
    return prove(find("all_reduce", "naive"), size).messages * nbytes


def _ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return predict(find("all_reduce", "ring"), size, nbytes, Machine(alpha, beta))


def _bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    return nbytes / seconds / 1e9 * contract_of("all_reduce").factor(size)


COLLECTIVES: Mapping[str, Reference] = {
    "root_bytes": Reference(
        examples=((2, 8), (3, 100), (4, 1024), (5, 1000), (8, 1 << 20), (1, 64)),
        answer=_root_bytes,
        mistakes={
            "formula.root_bytes.one_way": lambda n, s: (n - 1) * s,
            "formula.root_bytes.itself": lambda n, s: 2 * n * s,
            "formula.root_bytes.n_buffers": lambda n, s: n * s,
            "formula.root_bytes.one_itself": lambda n, s: (2 * n - 1) * s,
            "formula.root_bytes.everyone": lambda n, s: 4 * (n - 1) * s,
            "formula.root_bytes.one_peer": lambda n, s: 2 * s,
            "formula.root_bytes.squared": lambda n, s: (n - 1) ** 2 * s,
            "formula.root_bytes.brackets": lambda n, s: 2 * n - 1 * s,
            "formula.root_bytes.ring": lambda n, s: 2 * (n - 1) * s / n,
            "formula.root_bytes.ring_whole": lambda n, s: 2 * (n - 1) * s // n,
        },
    ),
    "ring_time": Reference(
        examples=(
            (4, 1 << 20, 1e-5, 1e-9),
            (3, 1000, 2e-6, 4e-10),
            (8, 1 << 30, 3e-6, 1 / 50e9),
            (5, 7, 1e-4, 1e-8),
            (2, 4096, 0.0, 1e-9),
            (64, 1 << 26, 5e-6, 0.0),
            (1, 1 << 20, 1e-5, 1e-9),
        ),
        answer=_ring_time,
        mistakes={
            "formula.ring_time.n_times": lambda n, s, a, b: 2 * n * a + 2 * (n - 1) / n * s * b,
            "formula.ring_time.n_everywhere": lambda n, s, a, b: 2 * n * (a + s / n * b),
            "formula.ring_time.alpha_once": lambda n, s, a, b: a + 2 * (n - 1) / n * s * b,
            "formula.ring_time.bytes_once": lambda n, s, a, b: 2 * (n - 1) * a + s / n * b,
            "formula.ring_time.no_alpha": lambda n, s, a, b: 2 * (n - 1) / n * s * b,
            "formula.ring_time.no_beta": lambda n, s, a, b: 2 * (n - 1) * (a + s / n),
            "formula.ring_time.only_alpha": lambda n, s, a, b: 2 * (n - 1) * a,
            "formula.ring_time.half": lambda n, s, a, b: (n - 1) * (a + s / n * b),
            "formula.ring_time.half_alpha": lambda n, s, a, b: (n - 1) * a + 2 * (n - 1) / n * s * b,
            "formula.ring_time.half_bytes": lambda n, s, a, b: 2 * (n - 1) * a + (n - 1) / n * s * b,
            "formula.ring_time.whole": lambda n, s, a, b: 2 * (n - 1) * (a + s * b),
            "formula.ring_time.no_share": lambda n, s, a, b: 2 * (n - 1) * a + 2 * s * b,
            "formula.ring_time.one_less": lambda n, s, a, b: 2 * (n - 1) * (a + s / (n - 1) * b),
            "formula.ring_time.exchanged": lambda n, s, a, b: 2 * (n - 1) * (b + s / n * a),
            "formula.ring_time.divided": lambda n, s, a, b: 2 * (n - 1) * (a + s / n / b),
            "formula.ring_time.minus": lambda n, s, a, b: 2 * (n - 1) * (a - s / n * b),
            "formula.ring_time.brackets": lambda n, s, a, b: 2 * n - 1 * (a + s / n * b),
            "formula.ring_time.bits": lambda n, s, a, b: 2 * (n - 1) * (a + 8 * s / n * b),
            "formula.ring_time.elements": lambda n, s, a, b: 2 * (n - 1) * (a + 4 * s / n * b),
            "formula.ring_time.cut": lambda n, s, a, b: 2 * (n - 1) * (a + s // n * b),
            "formula.ring_time.up": lambda n, s, a, b: 2 * (n - 1) * (a + -(-s // n) * b),
            "formula.ring_time.all_ranks": lambda n, s, a, b: n * 2 * (n - 1) * (a + s / n * b),
            "formula.ring_time.tree": lambda n, s, a, b: 2 * math.log2(n) * (a + s * b),
        },
    ),
    "bus_bandwidth": Reference(
        examples=(
            (4, 1 << 20, 1e-3),
            (8, 1 << 30, 5.2e-3),
            (2, 1000, 1e-6),
            (3, 1 << 26, 0.5),
            (64, 12345, 2e-4),
            (6, 10, 3.0),
        ),
        answer=_bus_bandwidth,
        mistakes={
            "formula.bus_bandwidth.algbw": lambda n, s, t: s / t / 1e9,
            "formula.bus_bandwidth.gib": lambda n, s, t: s / t / 2**30 * 2 * (n - 1) / n,
            "formula.bus_bandwidth.algbw_gib": lambda n, s, t: s / t / 2**30,
            "formula.bus_bandwidth.half_gib": lambda n, s, t: s / t / 2**30 * (n - 1) / n,
            "formula.bus_bandwidth.bytes": lambda n, s, t: s / t * 2 * (n - 1) / n,
            "formula.bus_bandwidth.bits": lambda n, s, t: 8 * s / t / 1e9 * 2 * (n - 1) / n,
            "formula.bus_bandwidth.algbw_bits": lambda n, s, t: 8 * s / t / 1e9,
            "formula.bus_bandwidth.half": lambda n, s, t: s / t / 1e9 * (n - 1) / n,
            "formula.bus_bandwidth.not_shared": lambda n, s, t: s / t / 1e9 * 2 * (n - 1),
            "formula.bus_bandwidth.half_not_shared": lambda n, s, t: s / t / 1e9 * (n - 1),
            "formula.bus_bandwidth.twice": lambda n, s, t: s / t / 1e9 * 2,
            "formula.bus_bandwidth.divided": lambda n, s, t: s / t / 1e9 / (2 * (n - 1) / n),
            "formula.bus_bandwidth.upside_down": lambda n, s, t: s / t / 1e9 * 2 * n / (n - 1),
            "formula.bus_bandwidth.inverse": lambda n, s, t: t / s * 1e9 * 2 * (n - 1) / n,
            "formula.bus_bandwidth.multiplied": lambda n, s, t: s * t / 1e9 * 2 * (n - 1) / n,
            "formula.bus_bandwidth.cut": lambda n, s, t: s // t / 1e9 * 2 * (n - 1) / n,
        },
    ),
    "fit": FIT,
    "ring_order": ORDER,
}
