"""Lessons 11 to 16: memory, FLOPs and time of a training run, and what spares them."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.trial import Trial
from ..checks.weighed import Weighed
from ..figures import Bars, Plot, Stacks, Timetable
from ..lesson import Lesson, Twin

BUDGET: tuple[Lesson, ...] = (
    Lesson(
        11,
        "memory_ledger",
        minutes=30,
        further=25,
        needs=(1,),
        checks=(
            Formula("gpt_parameters"),
            Formula("bytes_at_rest"),
            Formula("rank_parameters"),
            Formula("activation_bytes"),
            Weighed(),
        ),
        extra=("rank_parameters", "activation_bytes"),
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
        minutes=25,
        further=20,
        needs=(11,),
        checks=(
            Formula("layer_flops"),
            Formula("step_flops"),
            Formula("mfu"),
            Formula("training_days"),
            Formula("matmul_time"),
        ),
        extra=("matmul_time",),
        twin=Twin(
            ("budget.step_flops.look_up", "budget.training_days.at_peak"),
            (Formula("step_flops"), Formula("training_days")),
        ),
        figures={
            "parts": Stacks("flops", "lessons.course.12_flops_and_days.facts:shares", "percent"),
            "roof": Plot("roof", "lessons.course.12_flops_and_days.facts:roof", "intensity", "rate"),
        },
        questions=3,
    ),
    Lesson(
        13,
        "mixed_precision",
        minutes=35,
        further=25,
        needs=(5,),
        checks=(Formula("spacing"), Trial("mixed_step"), Formula("loss_scale")),
        extra=("loss_scale",),
        twin=Twin(("memory.mixed_step.clipped_scaled",), (Trial("mixed_step"),)),
        figures={
            "stall": Plot("stall", "lessons.course.13_mixed_precision.facts:stall", "step", "loss", log="y"),
            "sizes": Bars(
                "lessons.course.13_mixed_precision.facts:sizes",
                title="memory.plot.gradients",
                x="memory.plot.power",
                kinds=("memory.plot.whole", "memory.plot.few", "memory.plot.lost"),
            ),
        },
        questions=3,
    ),
    Lesson(
        14,
        "recompute",
        minutes=35,
        further=15,
        needs=(13,),
        checks=(Formula("peak_bytes"), Formula("best_segments"), Trial("checkpoint", ranks=(1,))),
        twin=Twin(("memory.checkpoint.other_mask",), (Trial("checkpoint", ranks=(1,)),)),
        figures={
            "segments": Plot("segments", "lessons.course.14_recompute.facts:segments", "segments", "bytes", log=""),
            "timetable": Timetable(
                "lessons.course.14_recompute.facts:timetable",
                title="memory.plot.recompute",
                rows=("memory.plot.kept", "memory.plot.dropped"),
            ),
        },
        questions=3,
    ),
    Lesson(
        15,
        "offload",
        minutes=25,
        further=15,
        needs=(6, 14),
        checks=(
            Formula("forward_seconds"),
            Formula("least_width"),
            Formula("least_tokens"),
            Trial("offload", ranks=(1,)),
        ),
        twin=Twin(("memory.offload.keeps",), (Trial("offload", ranks=(1,)),)),
        figures={
            "timetable": Timetable(
                "lessons.course.15_offload.facts:timetable",
                title="memory.plot.offload",
                rows=("memory.plot.gpu", "memory.plot.out", "memory.plot.back"),
            ),
        },
        questions=3,
    ),
    Lesson(
        16,
        "quantization",
        minutes=40,
        further=15,
        needs=(4, 13),
        checks=(
            Trial("quantize", ranks=(1,)),
            Trial("dequantize", ranks=(1,)),
            Formula("sent_bytes"),
            Trial("reduce_scatter_int8"),
            Trial("int8_linear", ranks=(1,)),
        ),
        twin=Twin(("memory.reduce_scatter_int8.of_gradient",), (Trial("reduce_scatter_int8"),)),
        figures={
            "feedback": Plot("feedback", "lessons.course.16_quantization.facts:feedback", "step", "off", log=""),
        },
        questions=3,
    ),
)
