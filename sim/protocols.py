"""NCCL's constants by generation of GPU and by network: what :mod:`sim.nccl` chooses from.

Source of the form and of most numbers: NCCL 2.27, ``src/graph/tuning.cc`` (``baseLatencies``, ``hwLatencies``,
``llMaxBws`` over the bandwidth of a ring). Taken from measured times instead:

    constant                          from
    a hop in LL: A100, Blackwell      up to 64 KiB on 8 A100 and 8 GB200 (NCCL says 0.6 us for all; H100 agrees)
    what a switch that adds reaches   8 GiB on 5 and 8 H200, 6 and 8 B200, where NVLS is known to be used
    fill                              4 to 256 MiB on 8 A100, 2 to 256 MiB on 8 H100 and 8 B200
    InfiniBand, EFA                   up to 4 KiB on 2 nodes of 8 A100, with InfiniBand and with EFA
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .machine import Protocol
from .units import parse_time

US = 1e-6


@dataclass(frozen=True)
class Generation:
    """What differs between GPUs.

    hop: seconds a hop in LL; ll: share of a ring's bandwidth that LL reaches; nvls: share of NVLink that a switch which
    adds fills (0: it cannot add), and nvls_fill, seconds a piece of the data; pcie: no NVLink, so no LL128.
    """

    hop: float
    ll: float
    nvls: float = 0.0
    nvls_fill: float = 0.0
    pcie: bool = False


VOLTA = Generation(0.6 * US, 0.29)
AMPERE = Generation(1.15 * US, 0.37)
HOPPER = Generation(0.6 * US, 0.385, 0.855, 4 * US)
BLACKWELL = Generation(1.3 * US, 0.415, 0.835, 11 * US)
PCIE = Generation(1.0 * US, 0.5, pcie=True)

INFINIBAND, EFA = 2.5 * US, 66 * US  # that a message is longer under way than NCCL's constants say


def protocols(gpu: Generation, away: float = INFINIBAND) -> tuple[Protocol, ...]:
    """All that NCCL has on these GPUs, where a message between nodes takes ``away`` seconds longer than NCCL says."""
    simple = 5.7 * US if gpu.pcie else 3.4 * US
    found = [
        Protocol("ring/LL", 6.6 * US, gpu.hop, 2.7 * US + away, gpu.ll),
        Protocol("ring/Simple", 8.4 * US, simple, 14 * US + 2 * away, fill=1 * US),
        Protocol("tree/LL", 6.8 * US, gpu.hop, 5 * US + away, 0.92 / 3.8),
        Protocol("tree/Simple", 8.4 * US, 4 * US, 14 * US + 2 * away, 0.92, 1 * US),
        Protocol("direct/Simple", 8.4 * US, simple, 14 * US + 2 * away),
    ]
    if not gpu.pcie:
        found += [
            Protocol("ring/LL128", 14 * US, 1.9 * US, 4 * US + away, 0.92, 4 * US),
            Protocol("tree/LL128", 14 * US, 1.25 * US, 8.5 * US + away, 0.92 * 7 / 9, 4 * US),
        ]
    if gpu.nvls:
        found += [
            Protocol("nvls/Simple", 25 * US, share=gpu.nvls, fill=gpu.nvls_fill),
            Protocol(
                "nvls_tree/Simple", 25 * US, between=20.9 * US + 2 * away, share=0.92 * gpu.nvls, fill=gpu.nvls_fill
            ),
        ]
    return tuple(found)


def read_protocols(listed: Any) -> tuple[Protocol, ...]:
    """What a machine file says under ``protocols``: a list of objects with the fields of a protocol.

    Raises:
        ValueError: another form, an unknown key, or a value that makes no sense.
    """
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise ValueError(f"protocols={listed!r}: write a list of objects")
    found = []
    for one in listed:
        values: dict[str, Any] = {"name": str(one.get("name", ""))}
        for key, value in one.items():
            if key in ("base", "inside", "between", "fill"):
                values[key] = parse_time(str(value), key)
            elif key in ("share", "least", "below"):
                try:
                    values[key] = float(value)
                except (TypeError, ValueError):
                    values[key] = -1.0
                if not values[key] >= 0 or (key == "share" and values[key] in (0, math.inf)):
                    raise ValueError(f"{key}={value!r} of protocol {values['name']!r}: give a number from 0 on")
            elif key != "name":
                known = [field.name for field in fields(Protocol)]
                near = difflib.get_close_matches(key, known, n=3) or known
                raise ValueError(f"key {key!r} of a protocol is unknown: use {', '.join(near)}")
        found.append(Protocol(**values))
    return tuple(found)


def write_protocols(protocols: Sequence[Protocol]) -> list[dict[str, Any]]:
    """What :func:`read_protocols` reads; times in seconds."""
    return [
        {field.name: value for field in fields(one) if (value := getattr(one, field.name)) != field.default}
        for one in protocols
    ]
