"""Lessons 28 to 32: what happens to a run, and the whole of it once more."""

from __future__ import annotations

from ..checks.beside import Beside
from ..checks.formula import Formula
from ..checks.hung import Hung
from ..checks.rehearsal import Rehearsal
from ..checks.trial import Trial
from ..figures import Flights, Plot, Reshard, Seats, Stacks, Timetable
from ..lesson import Lesson, Twin
from ..rules.resumed import lacking

# timetables of lesson 31, and what works in each
_CLOCKS = {
    "slow_host": ("wire", "adder", "host"),
    "one_channel": ("wire", "adder"),
    "two_channels": ("wire", "adder"),
}

REAL_WORLD: tuple[Lesson, ...] = (
    Lesson(
        28,
        "save_kill_resume",
        minutes=55,
        further=20,
        needs=(17,),
        checks=(
            Trial("write_safely", ranks=(2,)),
            Trial("save_sharded"),
            Trial("load_resharded"),
            Trial("hand_over", rules=(lacking,)),
            Formula("save_every"),
        ),
        twin=Twin(
            ("zero.save_sharded.index_first", "zero.load_resharded.momentum"),
            (Trial("save_sharded"), Trial("load_resharded")),
        ),
        figures={"reshard": Reshard(elements=11, saved=4, loaded=3)},
        questions=3,
    ),
    Lesson(
        29,
        "hangs",
        minutes=50,
        further=15,
        needs=(1, 5),
        checks=(Formula("waiting"), Formula("absent"), Formula("blame"), Formula("differing"), Hung()),
        twin=Twin(("hangs.differing.position",), (Formula("differing"),)),
        figures={"skips": Flights("one rank skips a call"), "crosses": Flights("each waits for the other")},
        questions=3,
    ),
    Lesson(
        30,
        "inference",
        minutes=25,
        further=15,
        needs=(11, 12),
        checks=(
            Formula("cache_bytes"),
            Formula("prompt_flops"),
            Formula("decode_time"),
            Formula("critical_batch"),
        ),
        twin=Twin(
            ("inference.cache_bytes.all_heads", "inference.decode_time.compute_only"),
            (Formula("cache_bytes"), Formula("decode_time")),
        ),
        figures={
            "reads": Stacks("serving", "lessons.course.30_inference.facts:reads", "gigabytes"),
            "rates": Plot("rates", "lessons.course.30_inference.facts:rates", "batch", "tokens_rate"),
        },
        questions=3,
    ),
    Lesson(
        31,
        "gpu_day",
        minutes=55,
        further=15,
        needs=(6,),
        checks=(
            Formula("busbw"),
            Formula("of_wire"),
            Formula("ring_on_nccl"),
            Formula("rings_of"),
            Formula("is_faster"),
            Beside(),
        ),
        twin=Twin(
            ("gpu_day.busbw.algbw", "gpu_day.is_faster.forced"),
            (Formula("busbw"), Formula("is_faster")),
        ),
        figures={
            "cube": Plot("cube", "lessons.course.31_gpu_day.facts:cube", "gpus", "busbw", log=""),
            **{
                name: Timetable(
                    f"lessons.course.31_gpu_day.facts:{name}",
                    title=f"gpu_day.plot.{name}",
                    rows=tuple(f"gpu_day.plot.{row}" for row in rows),
                )
                for name, rows in _CLOCKS.items()
            },
        },
        questions=3,
    ),
    Lesson(
        32,
        "capstone",
        minutes=40,
        further=10,
        needs=(25,),
        checks=(
            Formula("parameters"),
            Formula("state_bytes"),
            Formula("sent"),
            Formula("step_seconds"),
            Rehearsal(),
        ),
        twin=Twin(("capstone.step_seconds.no_bubble",), (Formula("step_seconds"),)),
        pieces={"sent": ("sent", "lessons.course.32_capstone.solution:sent")},
        figures={"seats": Seats(pp=2, dp=2, tp=2, marked=0)},
        questions=3,
    ),
)
