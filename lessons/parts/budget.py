"""Lessons 11 to 16: memory, FLOPs and time of a training run, and what spares them."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.weighed import Weighed
from ..figures import Plots, Stacks
from ..lesson import Lesson, Twin

BUDGET: tuple[Lesson, ...] = (
    Lesson(
        11,
        "memory_ledger",
        minutes=45,
        needs=(1,),
        checks=(
            Formula("gpt_parameters"),
            Formula("rank_parameters"),
            Formula("bytes_at_rest"),
            Formula("activation_bytes"),
            Weighed(),
        ),
        twin=Twin(
            ("budget.gpt_parameters.untied", "budget.bytes_at_rest.half"),
            (Formula("gpt_parameters"), Formula("bytes_at_rest")),
        ),
        figures={
            "ledger": Stacks("ledger", "lessons.course.11_memory_ledger.facts:ledgers", "gigabytes", limit=80 * 2**30),
            "layer": Stacks("layer", "lessons.course.11_memory_ledger.facts:layers"),
        },
        questions=3,
    ),
    Lesson(
        12,
        "flops_and_days",
        minutes=45,
        needs=(11,),
        checks=(
            Formula("layer_flops"),
            Formula("step_flops"),
            Formula("matmul_time"),
            Formula("mfu"),
            Formula("training_days"),
        ),
        twin=Twin(
            ("budget.step_flops.look_up", "budget.training_days.at_peak"),
            (Formula("step_flops"), Formula("training_days")),
        ),
        figures={
            "parts": Stacks("flops", "lessons.course.12_flops_and_days.facts:shares", "percent"),
            "roof": Plots("roof", "lessons.course.12_flops_and_days.facts:roof", "intensity", "rate"),
        },
        questions=3,
    ),
)
