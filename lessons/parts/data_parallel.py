"""Lessons 8 to 10: replicas of a model, each with rows of the batch, and the exchange of their gradients."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.launched import Launched
from ..checks.trial import Trial
from ..figures import Backward, Replicas, Sweep
from ..lesson import Lesson, Twin

DATA_PARALLEL: tuple[Lesson, ...] = (
    Lesson(
        8,
        "dp_and_ddp",
        minutes=30,
        further=25,
        needs=(3, 5),
        checks=(
            Formula("rows_of"),
            Trial("same_start"),
            Trial("average_gradients"),
            Trial("train_together"),
            Formula("dp_bytes"),
            Formula("ddp_bytes"),
        ),
        extra=("dp_bytes", "ddp_bytes"),
        twin=Twin(
            ("data_parallel.same_start.parameters_only", "data_parallel.average_gradients.skipped_means"),
            (Trial("same_start"), Trial("average_gradients")),
        ),
        figures={"step": Replicas(gpus=4, rows=8)},
        questions=3,
    ),
    Lesson(
        9,
        "buckets_and_overlap",
        minutes=50,
        further=20,
        needs=(6, 8),
        checks=(Formula("buckets"), Formula("finish_time"), Formula("best_cap"), Formula("hidden")),
        twin=Twin(
            ("data_parallel.buckets.tail", "data_parallel.hidden.gapless"), (Formula("buckets"), Formula("hidden"))
        ),
        figures={"clock": Backward()},
        questions=3,
    ),
    Lesson(
        10,
        "your_ring_under_ddp",
        minutes=20,
        further=10,
        needs=(5, 8, 9),
        checks=(Launched("train_on_ring", program="ring"), Formula("messages")),
        twin=Twin(("data_parallel.train_on_ring.unwrapped",), (Launched("train_on_ring", program="ring"),)),
        figures={"choice": Sweep(("ring", "recursive_doubling"), ranks=16, machine="switch", largest=1 << 28)},
        questions=3,
    ),
)
