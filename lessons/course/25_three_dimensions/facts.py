"""The numbers of lesson 25: a GPT on 32 GPUs, and what its ranks send along each axis."""

from __future__ import annotations

from parallel.formulas import elements_sent, state_bytes, tensor_elements_sent
from parallel.mesh import Mesh
from sim.chip import chip_of
from sim.planner.hardware import hardware_of
from sim.planner.layout import Layout
from sim.planner.models import MODELS
from sim.planner.parameters import on_stage
from sim.units import show_time

MODEL = MODELS["gpt3-13b"]
PP, DP, TP, MICROBATCHES = 4, 2, 4, 16
ELEMENT = 2  # bytes of a gradient, a parameter and an activation in 16 bits
PLACE = {"pp": 2, "dp": 1, "tp": 2}
CALCULATED = 8  # microbatches


def _gb(nbytes: float) -> str:
    return f"{nbytes / 1e9:.3g} GB"


def facts() -> dict[str, str | int | float]:
    mesh, layout = Mesh(pp=PP, dp=DP, tp=TP), Layout(pp=PP, dp=DP, tp=TP, global_batch=DP * MICROBATCHES)
    own = on_stage(MODEL, layout, 1).total
    message = MODEL.sequence * MODEL.hidden * ELEMENT
    layers = MODEL.layers // PP
    along = {
        "tp": tensor_elements_sent(MODEL.sequence, MODEL.hidden, TP, layers) * ELEMENT * MICROBATCHES,
        "dp": elements_sent(own, DP).total * ELEMENT,
        "pp": 2.0 * message * MICROBATCHES,
    }
    a100 = hardware_of(chip_of("a100"))
    zero = [elements_sent(own, DP, stage, MICROBATCHES).total * ELEMENT for stage in range(4)]
    held = [state_bytes(own, DP, stage).total for stage in range(4)]
    calculated = elements_sent(own, DP, 2, CALCULATED).total * ELEMENT / 1e9
    return {
        "model": MODEL.name,
        "parameters": f"{sum(on_stage(MODEL, Layout(), 0).__dict__.values()) / 1e9:.3g}",
        "gpus": mesh.size,
        "pp": PP,
        "dp": DP,
        "tp": TP,
        "machine": 8,
        "m": MICROBATCHES,
        "own": f"{own / 1e9:.3g}",
        "layers": layers,
        **{f"along_{axis}": _gb(nbytes) for axis, nbytes in along.items()},
        "nvlink": f"{a100.nvlink / 1e9:g} GB/s",
        "nic": f"{a100.nic / 1e9:g} GB/s",
        "tp_inside": show_time(float(f"{along['tp'] / a100.nvlink:.3g}")),
        "tp_between": show_time(float(f"{along['tp'] / a100.nic:.3g}")),
        **{f"zero_{stage}": _gb(nbytes) for stage, nbytes in enumerate(zero)},
        **{f"held_{stage}": _gb(nbytes) for stage, nbytes in enumerate(held)},
        "saved": _gb(held[1] - held[2]),
        "paid": _gb(zero[2] - zero[1]),
        "rank": mesh.rank_at(**PLACE),
        "place_pp": PLACE["pp"],
        "place_dp": PLACE["dp"],
        "place_tp": PLACE["tp"],
        "group_tp": ", ".join(map(str, mesh.ranks("tp", 5))),
        "group_dp": ", ".join(map(str, mesh.ranks("dp", 5))),
        "group_pp": ", ".join(map(str, mesh.ranks("pp", 5))),
        "root": f"{2**0.5:.3f}",
        "predict_answer": round(zero[3] / zero[1], 6),
        "predict_tolerance": 0.02,
        "calculate_1_answer": mesh.rank_at(**PLACE),
        "calculate_1_tolerance": 0.0,
        "calculated": CALCULATED,
        "calculate_2_answer": round(calculated, 3),
        "calculate_2_tolerance": 0.02,
    }
