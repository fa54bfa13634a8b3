"""Published training steps: rows of a table, and what each says of model, machine and plan.

A row needs a model (by its shape, or by a name that :mod:`sim.planner.models` knows), a GPU, how many of them, the
plan, and a time: seconds of a step, or tokens a second. Cells may be empty, ``NA`` or ``n/a``. What a table leaves out
follows from its source by the rules below; a row that stays incomplete is left out, with the reason.

    source                         software   ZeRO   gradients reduced   flash
    arXiv 2104.04473, Megatron-LM  2021       0      after the backward  no
    arXiv 2205.05198, vTrain       2022       0      after the backward  no
    llm-foundry                    2023       3      under it            yes
    all others                     by GPU     1      under it            yes      3 where a row says fsdp, or torchtitan

vTrain's nodes have 800 Gb/s (``inter_node_bandwidth`` in its configurations). Nemotron-4 340B in dgxc-benchmarking
v25.04.01 runs with 12 chunks a rank (its launch.sh), which its table leaves out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..chip import CHIPS, GIB, Chip, chip_of
from ..presets import find_machine
from .constants import Software, software_of
from .constraints import check
from .hardware import Hardware, hardware_of
from .layout import Layout
from .models import MODELS
from .precision import find_precision
from .transformer import Transformer, changed

NEEDED = ("source", "model", "gpu", "gpus")
NOTHING = ("", "na", "n/a", "none", "-", "?", "nan")
LLAMAS = {4096: (14336, 8), 8192: (28672, 8), 16384: (53248, 8)}  # Llama 3: hidden → width of the MLP, kv heads
GROUPS = {"nemotron": 8}  # key-value heads
VOCABULARY = 51200


@dataclass(frozen=True)
class Run:
    """A row that says enough. measured_s: seconds of a step; simulated: it comes from somebody's simulator;
    measured_peak: bytes of the fullest GPU, as its allocator counted what was in use (0: not said)."""

    line: int
    source: str
    name: str
    text: str
    model: Transformer
    layout: Layout
    hardware: Hardware
    software: Software
    measured_s: float
    simulated: bool
    measured_peak: float = 0.0


@dataclass(frozen=True)
class LeftOut:
    """A row that does not, and why."""

    line: int
    source: str
    name: str
    reason: str


class _Incomplete(ValueError):
    """What a row lacks."""


def read_runs(text: str) -> tuple[list[Run], list[LeftOut]]:
    """Every row of a CSV, as a run or left out.

    Raises:
        ValueError: it is no such table: columns are missing, or there are no rows.
    """
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"line 1: the columns {', '.join(missing)} are missing; a row needs {', '.join(NEEDED)}, …")
    runs: list[Run] = []
    left: list[LeftOut] = []
    for said in reader:
        row = {key: value for key, value in said.items() if key and isinstance(value, str)}
        try:
            runs.append(_run(row, reader.line_num))
        except ValueError as error:
            left.append(LeftOut(reader.line_num, row.get("source", ""), row.get("model", ""), str(error)))
    if not runs and not left:
        raise ValueError("there are no rows below the header")
    return runs, left


def _run(row: Mapping[str, str], line: int) -> Run:
    if "lora" in row.get("table", "").lower():
        raise _Incomplete("LoRA is not modelled: most weights have no gradient")
    chip = _chip(row.get("gpu", ""))
    software = _software(row, chip)
    model = _model(row)
    layout = _layout(row, model, chip, software)
    check(model, layout)
    return Run(
        line, row.get("source", ""), row.get("model", ""), _summary(row, layout), model, layout,
        _hardware(row, chip), software, _seconds(row, model, layout), row.get("iteration_is", "") == "simulated",
        _peak(row),
    )  # fmt: skip


def number(row: Mapping[str, str], name: str, default: float | None = None) -> float:
    """A cell, or what ``notes`` say as ``name=…``.

    Raises:
        ValueError: there is none and no default, or it makes no sense.
    """
    said = row.get(name, "").strip()
    if said.lower() in NOTHING:
        noted = re.search(rf"\b{name}=\s*([0-9.]+)", row.get("notes", ""))
        said = noted[1] if noted else ""
    if not said:
        if default is None:
            raise _Incomplete(f"no {name}")
        return default
    try:
        value = float(said)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e15:
        raise _Incomplete(f"{name} {said!r} is no number that makes sense")
    return value


def whole(row: Mapping[str, str], name: str, default: int | None = None) -> int:
    """The same, from 1 on; 0 means that it was not said."""
    return int(number(row, name, default)) or (default or 1)


def _chip(text: str) -> Chip:
    """By name; a memory size that is not in the list does not matter for time."""
    words = re.sub(r"[_/(),]+", "-", text.lower())
    try:
        return chip_of(words)
    except ValueError:
        known = [word for word in re.split(r"[\s-]+", words) if word in CHIPS]
        if not known:
            raise _Incomplete(f"gpu {text!r} is not known") from None
        return CHIPS[known[0]]


def _hardware(row: Mapping[str, str], chip: Chip) -> Hardware:
    if "vtrain" in row["source"].lower():
        return hardware_of(chip, find_machine("dgx-a100,nics=4"))
    return hardware_of(chip)


def _software(row: Mapping[str, str], chip: Chip) -> Software:
    source = row.get("source", "").lower()
    if "llm-foundry" in source:
        return software_of("2023-h100" if chip.name.startswith("h") else "2023")
    if "torchtitan" in source and not chip.name.startswith(("a", "v")):
        return software_of("2024-fsdp")
    if "2205.05198" in source or "vtrain" in source:
        return software_of("2022")
    if "2104.04473" in source or ("megatron-lm" in source and "2021" in source):
        return software_of("2021")
    return software_of("", chip.name)


def _model(row: Mapping[str, str]) -> Transformer:
    """From the shape, in the style that the name means; else by name."""
    name, sequence = row.get("model", ""), int(number(row, "seq"))
    try:
        layers, hidden, heads = (whole(row, key) for key in ("layers", "hidden", "heads"))
    except _Incomplete:
        return _named(row, name, sequence)
    plain, vocab = name.lower(), whole(row, "vocab", VOCABULARY)
    if "llama" in plain and hidden in LLAMAS:
        ffn, groups = LLAMAS[hidden]
        groups = heads if re.search(r"llama.?2", plain) and hidden < 8192 else groups
        return Transformer(
            name, layers, hidden, heads, ffn, vocab, sequence, kv_heads=groups, gated=True, bias=False, dropout=False,
            output="untied",
        )  # fmt: skip
    groups = next((groups for word, groups in GROUPS.items() if word in plain and heads % groups == 0), 0)
    new = "mpt" in plain or bool(groups)
    return Transformer(
        name, layers, hidden, heads, 4 * hidden, vocab, sequence, kv_heads=groups, bias=not new, dropout=not new,
        positions=0 if new else sequence, output="untied" if groups else "tied",
    )  # fmt: skip


def _named(row: Mapping[str, str], name: str, sequence: int) -> Transformer:
    plain = re.sub(r"\(.*?\)", "", name.lower())
    plain = re.sub(r"[^a-z0-9.]", "", plain)
    known = {re.sub(r"[^a-z0-9.]", "", key): model for key, model in MODELS.items()}
    model = known.get(plain) or known.get(plain.replace("llama3", "llama3.1"))
    if model is None:
        raise _Incomplete(f"no shape, and no model {name!r} is known")
    return changed(model, layers=whole(row, "layers", model.layers), sequence=sequence)


def _layout(row: Mapping[str, str], model: Transformer, chip: Chip, software: Software) -> Layout:
    source, notes = row.get("source", "").lower(), row.get("notes", "").lower()
    gpus, vpp = whole(row, "gpus"), whole(row, "vpp", 1)
    tp, pp, cp = whole(row, "tp"), whole(row, "pp", 1), whole(row, "cp", 1)
    if gpus % (tp * pp * cp):
        raise _Incomplete(f"{gpus} GPUs are not a multiple of TP {tp} × PP {pp} × CP {cp}")
    dp, microbatch = gpus // (tp * pp * cp), whole(row, "microbatch")
    if "torchtitan" in source and pp > 1:  # its tables say how many samples a rank has in all
        microbatch = 1
    batch = whole(row, "globalbatch", 0) if number(row, "globalbatch", 0) else _accumulated(notes) * dp * microbatch
    if "dgxc" in source and "nemotron" in row["model"].lower() and vpp == 1 and model.layers == 96 and pp > 1:
        vpp = 12
    old = software.name in ("2021", "2022") and any(word in source for word in ("2104", "2205", "megatron", "vtrain"))
    sharded = "llm-foundry" in source or "torchtitan" in source or number(row, "fsdp", 0) > 0
    said = row.get("sequence_parallel", "").lower()
    return Layout(
        dp=dp, pp=pp, tp=tp, cp=cp, ep=whole(row, "ep", 1), etp=1 if model.experts else 0, vpp=vpp if pp > 1 else 1,
        sp=tp > 1 and (said == "yes" or (said != "no" and not old)),
        zero=0 if old else 3 if sharded else 1, microbatch=microbatch, global_batch=batch,
        recompute=_recompute(row.get("recompute", "")), flash=not old,
        schedule="interleaved" if vpp > 1 and pp > 1 else "1f1b",
        precision=find_precision(_precision(row.get("precision", ""), chip), "adam", not (old or sharded)),
        overlap=not old,
    )  # fmt: skip


def _accumulated(notes: str) -> int:
    """Microbatches of a rank, as notes say them."""
    found = re.search(r"(?:grad_accum|mbc(?:\(microbatches\))?)=\s*(\d+)", notes)
    if not found:
        raise _Incomplete("no globalbatch")
    return int(found[1])


def _recompute(said: str) -> Any:
    first = re.match(r"[a-z]*", said.strip().lower())
    return first[0] if first and first[0] in ("full", "selective") else "none"


def _precision(said: str, chip: Chip) -> str:
    plain = said.strip().lower()
    if "fp4" in plain:
        raise _Incomplete(f"precision {said} is not modelled")
    if "fp8" in plain:
        chip.speed("fp8")
        return "fp8"
    if "fp16" in plain or (not plain and "fp8" not in chip.peak):  # what models of that time were trained in
        return "fp16"
    if not plain:
        raise _Incomplete("no precision: 16 bits or 8?")
    return "fp32" if plain == "fp32" else "tf32" if plain == "tf32" else "bf16"


def _seconds(row: Mapping[str, str], model: Transformer, layout: Layout) -> float:
    """Of a step, or of the tokens of one at the rate that the row says."""
    seconds = number(row, "iteration_s", 0)
    if seconds:
        return seconds
    measured = row.get("measured", "")
    rate = re.search(r"tokens/s/GPU=([0-9.]+)", measured)
    if rate and float(rate[1]):
        return layout.samples * model.sequence / layout.gpus / float(rate[1])
    raise _Incomplete("no time of a step")


def _peak(row: Mapping[str, str]) -> float:
    """Bytes in use at the fullest moment; what an allocator had reserved (``peak_mem``) is another number."""
    said = re.search(r"peak_alloc_GiB=([0-9.]+)", row.get("measured", ""))
    return float(said[1]) * GIB if said else 0.0


def _summary(row: Mapping[str, str], layout: Layout) -> str:
    axes = (("tp", layout.tp), ("pp", layout.pp), ("cp", layout.cp), ("ep", layout.ep), ("dp", layout.dp))
    plan = " ".join(f"{name}{size}" for name, size in axes if size > 1)
    more = [f"mb{layout.microbatch}", row.get("precision", ""), row.get("recompute", "").split(" ")[0]]
    return " ".join(filter(None, [row.get("gpu", ""), plan, f"vpp{layout.vpp}" * (layout.vpp > 1), *more]))
