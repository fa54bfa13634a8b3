"""A machine in a file: JSON, or what ``nvidia-smi topo -m`` prints; see :mod:`sim.machine` for the form."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .kinds import KINDS
from .machine import Machine, changed
from .presets import PRESETS
from .protocols import read_protocols, write_protocols
from .units import parse_bandwidth, parse_time


def read_machine(path: Path, gpu: str = "") -> Machine:
    """A machine file; see :mod:`sim.machine` for its form.

    Raises:
        ValueError: with the line (JSON that is broken) or the key (a value that makes no sense).
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.lstrip().startswith("{"):
        from collectives.readers.topo_matrix import read_topo

        from .matrix import machine_of

        try:
            return machine_of(read_topo(text), path.stem, gpu)[0]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    try:
        said = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply for a machine") from None
    try:
        return from_dict(said)
    except ValueError as error:
        raise ValueError(f"{path}{_line(text, str(error))}: {error}") from None


def _line(text: str, message: str) -> str:
    """Where the first key or value stands that a message names."""
    for word in re.findall(r"[\w.-]+", message):
        for number, line in enumerate(text.splitlines(), 1):
            if f'"{word}"' in line:
                return f", line {number}"
    return ""


def from_dict(said: Mapping[str, Any]) -> Machine:
    """The machine that a JSON object describes."""
    known = ("name", "kind", "parameters", "costs", "gpu", "source", "devices", "links", "protocols", "fit")
    for key in said:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=3) or known
            raise ValueError(f"{key!r} is no key of a machine: use {', '.join(near)} (parameters have an object)")
    kind = str(said.get("kind", "cluster"))
    if kind == "graph":
        machine = Machine(str(said.get("name", "graph")), "graph", _listed(said))
    elif kind in KINDS:
        machine = Machine(str(said.get("name", kind)), kind)
    elif kind in PRESETS:
        machine = PRESETS[kind]
    else:
        near = difflib.get_close_matches(kind, [*KINDS, *PRESETS], n=3) or list(KINDS)
        raise ValueError(f"kind {kind!r} is unknown: use {', '.join(near)}")
    for key in ("parameters", "costs"):
        values = said.get(key, {})
        if not isinstance(values, Mapping):
            raise ValueError(f"{key} should be an object with names and values, not {values!r}")
        machine = changed(machine, values)
    if "protocols" in said:
        machine = replace(machine, protocols=read_protocols(said["protocols"]))
    return replace(machine, gpu=str(said.get("gpu", machine.gpu)), source=str(said.get("source", machine.source)))


def _listed(said: Mapping[str, Any]) -> dict[str, Any]:
    listed = said.get("devices")
    devices = tuple(map(str, listed)) if isinstance(listed, list) else ()
    if not devices or len(set(devices)) < len(devices):
        raise ValueError(f"devices={listed!r}: list the name of each device once")
    links = []
    if not isinstance(said.get("links", []), list):
        raise ValueError(f"links={said['links']!r}: write a list of [from, to, GB/s, latency]")
    for number, link in enumerate(said.get("links", [])):
        if not isinstance(link, list) or len(link) not in (3, 4):
            raise ValueError(f"links[{number}]={link!r}: write [from, to, GB/s] or [from, to, GB/s, latency]")
        a, b, bandwidth, *latency = map(str, link)
        links.append((a, b, parse_bandwidth(bandwidth, "bandwidth"), parse_time(latency[0]) if latency else 0.0))
    return {"devices": devices, "links": tuple(links)}


def to_dict(machine: Machine) -> dict[str, Any]:
    """What :func:`from_dict` reads: GB/s, and times in seconds."""
    parameters: dict[str, Any] = {}
    for key, value in machine.parameters.items():
        if key in ("bandwidth", "nvlink", "nic", "pcie", "socket"):
            parameters[key] = value / 1e9
        elif key == "latency":
            parameters[key] = f"{value[0]:.9g}s/{value[1]:.9g}s"
        elif key == "shape":
            parameters[key] = "x".join(map(str, value))
        elif key == "links" and machine.kind == "cluster":
            parameters[key] = {f"{a}-{b}": number for (a, b), number in value.items()}
        elif key == "levels":
            parameters[key] = [[name, groups, width / 1e9] for name, groups, width in value]
        elif machine.kind != "graph":
            parameters[key] = value
    costs = machine.costs
    said: dict[str, Any] = {"name": machine.name, "kind": machine.kind, "parameters": parameters, "gpu": machine.gpu}
    said["costs"] = {
        "base": costs.base,
        "overhead": costs.overhead,
        "gamma": 1 / costs.gamma / 1e9 if costs.gamma else 0,
    }
    if machine.protocols:
        said["protocols"] = write_protocols(machine.protocols)
    if machine.kind == "graph":
        said["devices"] = list(machine.parameters["devices"])
        said["links"] = [[a, b, width / 1e9, latency] for a, b, width, latency in machine.parameters["links"]]
    return {**said, "source": machine.source}
