"""Lessons 28 to 32: what happens to a run, and the whole of it once more."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.trial import Trial
from ..figures import Reshard
from ..lesson import Lesson, Twin

REAL_WORLD: tuple[Lesson, ...] = (
    Lesson(
        28,
        "save_kill_resume",
        minutes=45,
        needs=(17,),
        checks=(
            Trial("write_safely", ranks=(2,)),
            Trial("save_sharded"),
            Trial("load_resharded"),
            Trial("hand_over"),
            Formula("save_every"),
        ),
        twin=Twin(
            ("zero.save_sharded.index_first", "zero.load_resharded.momentum"),
            (Trial("save_sharded"), Trial("load_resharded")),
        ),
        figures={"reshard": Reshard(elements=11, saved=4, loaded=3)},
        questions=3,
    ),
)
