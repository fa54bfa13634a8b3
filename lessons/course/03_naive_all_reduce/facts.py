"""The numbers of lesson 3: the gradients of GPT-2 through the port of rank 0."""

from __future__ import annotations

from collectives.contract import contract_of
from collectives.cost import Machine, predict
from collectives.registry import find
from sim.planner.models import find_model
from sim.planner.parameters import total
from sim.units import show_bytes, show_time

PARAMETERS = 124_439_808  # GPT-2, the smallest, with tied embeddings
NBYTES = 4 * PARAMETERS
PORT = 50e9  # bytes a second, in each direction
PORTS = Machine(alpha=1e-6, beta=1 / PORT)  # as `python -m sim topology switch`
FP16_MAX = (2 - 2**-10) * 2.0**15  # 10 bits of fraction, the largest exponent 15
MODEL, COMPUTE = "llama2-7b", 0.4  # seconds of a step without communication
FEW, TWICE, MANY, CROWD = 4, 8, 16, 64  # ranks


def _naive(size: int, nbytes: int = NBYTES) -> float:
    return predict(find("all_reduce", "naive"), size, nbytes, PORTS)


def _least(size: int) -> float:
    """What the ports need at the least: no algorithm sends less than the factor of the bus bandwidth."""
    return contract_of("all_reduce").factor(size) * NBYTES / PORT


def facts() -> dict[str, str | int | float]:
    one = predict(find("broadcast", "naive"), 2, NBYTES, PORTS)
    big = 2 * total(find_model(MODEL))  # in bf16
    enough = next(size for size in range(2, MANY * FEW) if _naive(size) > COMPUTE)
    table = {
        f"{kind}_{size}": show_time(time(size))
        for kind, time in (("naive", _naive), ("least", _least))
        for size in (FEW, MANY, CROWD)
    }
    return {
        "parameters": f"{PARAMETERS / 1e6:.0f}",
        "gradients": show_bytes(NBYTES),
        "port": f"{PORT / 1e9:g} GB/s",
        "one": show_time(one),
        "few": FEW,
        "twice": TWICE,
        "many": MANY,
        "crowd": CROWD,
        **table,
        "sends": round(_naive(FEW) / one),
        "sends_twice": round(_naive(TWICE) / one),
        "growth": f"{_naive(TWICE) / _naive(FEW):.3g}",
        "idle_port": f"{1 - 1 / (TWICE - 1):.0%}",
        "fp16_max": f"{FP16_MAX:.0f}",
        "model": "Llama 2 7B",
        "big": f"{big / 2e9:.2f}",
        "big_gradients": f"{big / 1e9:.1f} GB",
        "calculate_1_answer": _naive(TWICE, big),
        "calculate_1_tolerance": 0.02,
        "compute": show_time(COMPUTE),
        "enough": enough,
        "enough_time": show_time(_naive(enough)),
        "less_time": show_time(_naive(enough - 1)),
        "calculate_2_answer": enough,
        "calculate_2_tolerance": 0,
        "predict_answer": round(_naive(TWICE) * 1e3, 1),
        "predict_tolerance": 0.05,
    }
