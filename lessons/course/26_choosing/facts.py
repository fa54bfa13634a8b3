"""The numbers of lesson 26: GPT-3 on 1,024 A100s, by the lesson's own formulas and by the planner."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from lessons.checks.references.plans import PLANS, best, computing, exchanging, held, rate, stretch, summing, timed
from lessons.figures.winners import Case, fastest, found
from lessons.planning import Cluster, Model, Plan
from sim.chip import chip_of
from sim.planner.constants import software_of
from sim.planner.hardware import hardware_of
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.planner.search import RESERVED
from sim.units import show_time

NAME, GPUS, BATCH, TOKENS = "gpt3-175b", 1024, 2048, 300e9
DDP, ZERO_3 = Plan(GPUS), Plan(GPUS, zero=3)
ROWS = {
    "ddp": DDP,
    "zero": ZERO_3,
    "zero_again": Plan(GPUS, zero=3, recompute=True),
    "tp": Plan(GPUS // 8, 1, 8, zero=1),
    "tp_zero": Plan(GPUS // 8, 1, 8, zero=3),
    "pp": Plan(GPUS // 32, 32, 1, zero=1),
    "three": Plan(16, 8, 8),
    "crossing": Plan(8, 8, 16, zero=1),
}
CALCULATED = Plan(8, 16, 8, zero=1)
TWIN = Case("gpt3-13b", 64, 128, slower=8)  # what the broken twin was asked
BELIEVED = PLANS["rate"].mistakes["plans.rate.stride_in_the_question"]


def _model(name: str = NAME, batch: int = BATCH) -> Model:
    shape = MODELS[name]
    return Model(total(shape), shape.layers, shape.hidden, shape.sequence, batch)


def _cluster(slower: int = 1, gpus: int = GPUS) -> Cluster:
    """As the planner sees the machine; a GPU reaches what large products reach."""
    hardware, software = hardware_of(chip_of("a100")), software_of("2021", "a100")
    chip = hardware.chip
    return Cluster(
        gpus, hardware.local, chip.memory - RESERVED, chip.speed("bf16") * software.matmul, hardware.nvlink,
        hardware.nic / slower,
    )  # fmt: skip


def _promised(model: Model, plan: Plan, cluster: Cluster) -> float:
    """Seconds of a step, as the broken twin has it."""
    group = plan.dp, plan.tp, cluster
    forgotten = exchanging(model, plan, cluster) * (1 - rate(*group) / BELIEVED(*group))
    return timed(model, plan, cluster) - forgotten


def _twin() -> dict[str, str | int | float]:
    """What the broken twin chose and promised, what that takes, and what would have been best."""
    model, cluster = _model(TWIN.model, TWIN.batch), _cluster(TWIN.slower, TWIN.gpus)
    chosen, right = best(model, cluster, _promised), best(model, cluster)
    assert chosen is not None
    assert right is not None
    return {
        "twin_model": TWIN.model,
        "twin_gpus": TWIN.gpus,
        "twin_batch": TWIN.batch,
        "twin_plan": _words(chosen),
        "twin_promised": _short(_promised(model, chosen, cluster)),
        "twin_step": _short(timed(model, chosen, cluster)),
        "twin_right_plan": _words(right),
        "twin_right_step": _short(timed(model, right, cluster)),
    }


def _words(plan: Plan) -> str:
    axes = " × ".join(
        f"{name} {size}" for name, size in (("DP", plan.dp), ("PP", plan.pp), ("TP", plan.tp)) if size > 1
    )
    return axes + f", ZeRO-{plan.zero}" * bool(plan.zero) + ", recompute" * plan.recompute


def _short(seconds: float) -> str:
    return show_time(float(f"{seconds:.3g}"))


@cache
def facts() -> dict[str, str | int | float]:
    model, cluster, slow = _model(), _cluster(), _cluster(8)
    chosen = best(model, cluster)
    assert chosen is not None
    table: dict[str, str] = {}
    for name, plan in {**ROWS, "best": chosen}.items():
        size = held(model, plan)
        together = computing(model, plan, cluster) + summing(model, plan, cluster)
        table |= {
            f"{name}_plan": _words(plan),
            f"{name}_size": f"{size / 1e9:,.0f} GB" + ("" if size <= cluster.memory else " ✗"),
            f"{name}_compute": _short(computing(model, plan, cluster)),
            f"{name}_tp": _short(summing(model, plan, cluster)),
            f"{name}_bubble": _short(together * (stretch(model, plan) - 1)),
            f"{name}_dp": _short(exchanging(model, plan, cluster)),
            f"{name}_step": _short(timed(model, plan, cluster)),
        }
    days = TOKENS / (BATCH * model.sequence) * timed(model, chosen, cluster) / 86400
    calculated = held(model, CALCULATED) - held(replace(model, parameters=0), CALCULATED)
    cells = found(Case(NAME, GPUS, BATCH))
    return {
        "model": NAME,
        "parameters": f"{model.parameters / 1e9:.1f}",
        "states": f"{16 * model.parameters / 1e9:,.0f} GB",
        "gpus": f"{GPUS:,}",
        "memory": f"{cluster.memory / 1e9:.0f} GB",
        "local": cluster.local,
        "schedules": 24,
        "nvlink": f"{cluster.nvlink / 1e9:g} GB/s",
        "nic": f"{cluster.nic / 1e9:g} GB/s",
        "slow_nic": f"{slow.nic / 1e9:g} GB/s",
        "flops": f"{cluster.flops / 1e12:.0f}",
        "batch": f"{BATCH:,}",
        "sequence": f"{model.sequence:,}",
        **table,
        "few_m": BATCH // ZERO_3.dp,
        "more_m": BATCH // ROWS["tp_zero"].dp,
        "zero_states": f"{16 * model.parameters / GPUS / 1e9:.1f} GB",
        "zero_layers": f"{(held(model, ZERO_3) - 16 * model.parameters / GPUS) / 1e9:,.0f} GB",
        "kept_step": _short(timed(model, chosen, slow)),
        "crossing_slow": _short(summing(model, ROWS["crossing"], slow)),
        "all_nics": f"{min(cluster.nvlink, cluster.local * cluster.nic) / 1e9:g} GB/s",
        "zero_slow": _short(timed(model, ROWS["zero_again"], slow)),
        "planner_step": _short(fastest(cells)),
        "planner_plan": min((cell for cell in cells.values() if cell.seconds), key=lambda cell: cell.seconds).plan,
        "apart": f"{abs(timed(model, chosen, cluster) / fastest(cells) - 1):.0%}",
        "days": f"{days:.0f}",
        "tokens": f"{TOKENS / 1e9:.0f}",
        "predict_answer": round(exchanging(model, ROWS["tp_zero"], cluster), 1),
        "predict_tolerance": 0.15,
        "calculate_1_answer": round(calculated / 1e9, 3),
        "calculate_1_tolerance": 0.02,
        "calculated_dp": CALCULATED.dp,
        "calculated_pp": CALCULATED.pp,
        "calculated_tp": CALCULATED.tp,
        "calculated_own": f"{model.parameters / 128 / 1e9:.3g}",
        "calculate_2_answer": round(days, 1),
        "calculate_2_tolerance": 0.03,
        **_twin(),
    }
