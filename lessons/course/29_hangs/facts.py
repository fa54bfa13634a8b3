"""The numbers of lesson 29: the ranks of lesson 25, what Llama 3's waits have cost, how far a record reaches back."""

from __future__ import annotations

from sim.chip import chip_of
from sim.planner.constants import software_of
from sim.planner.hardware import hardware_of
from sim.planner.layout import Layout
from sim.planner.models import MODELS
from sim.planner.step import step_time

MODEL, LAYOUT = MODELS["gpt3-13b"], Layout(pp=4, dp=2, tp=4, global_batch=32)  # those of lesson 25
DAYS, GPUS, TIMEOUTS, EVERY = 54, 16_384, 7, 419  # of the paper on Llama 3: NCCL watchdog timeouts, unexpected ones
PRICE, TIMEOUT = 2.0, 0.5  # dollars a GPU-hour, as in lesson 12; hours
FEWER = 1024
BUFFER = 2000  # entries, as PyTorch's tutorial recommends
BACK = 60.0  # seconds


def facts() -> dict[str, str | int | float]:
    """See ``lesson29.toml``."""
    hours = TIMEOUTS * TIMEOUT * GPUS
    between = DAYS / TIMEOUTS
    layers, microbatches = MODEL.layers // LAYOUT.pp, LAYOUT.microbatches
    calls = microbatches * (4 * layers + 4)
    a100 = chip_of("a100")
    step = float(f"{step_time(MODEL, LAYOUT, hardware_of(a100), software_of(chip='a100')).time_s:.2g}")
    return {
        "ranks": LAYOUT.gpus,
        "predict_answer": 0,
        "predict_tolerance": 0.0,
        "days": DAYS,
        "gpus": f"{GPUS:,}",
        "timeouts": TIMEOUTS,
        "interruptions": EVERY,
        "calculate_1_answer": hours,
        "calculate_1_tolerance": 0.01,
        "price": f"{PRICE:g}",
        "dollars": f"{float(f'{hours * PRICE:.3g}'):,.0f}",
        "fewer": f"{FEWER:,}",
        "between": f"{between:.2g}",
        "ratio": GPUS // FEWER,
        "calculate_2_answer": round(between * GPUS / FEWER, 1),
        "calculate_2_tolerance": 0.02,
        "model": MODEL.name,
        "pp": LAYOUT.pp,
        "dp": LAYOUT.dp,
        "tp": LAYOUT.tp,
        "layers": layers,
        "microbatches": microbatches,
        "calls": calls,
        "step": f"{step:g} s",
        "back": f"{BACK:g} s",
        "buffer": f"{BUFFER:,}",
        "reach": f"{BUFFER / calls:.2g}",
        "calculate_3_answer": round(BACK / step * calls),
        "calculate_3_tolerance": 0.02,
    }
