"""The numbers of lesson 32: the run of its check, by the lesson's formulas, and the timetable of its pipeline."""

from __future__ import annotations

from lessons.checks.references.capstone import along_dp, along_pp, along_tp, messages, parameters, state_bytes
from lessons.checks.rehearsal import WITHIN, Rehearsal
from parallel.mesh import Mesh
from sim.units import show_bytes


def _kib(nbytes: float) -> str:
    return f"{nbytes / 2**10:,.0f} KiB"


def facts() -> dict[str, str | int | float]:
    rehearsal = Rehearsal()
    run = rehearsal.run()
    mesh = Mesh(dp=run.dp, pp=run.pp, tp=run.tp)
    rows = run.batch // run.dp // run.microbatches
    small = sum(parameters(run, stage) for stage in range(run.pp))
    return {
        "ranks": mesh.size,
        "dp": run.dp,
        "pp": run.pp,
        "tp": run.tp,
        "m": run.microbatches,
        "layers": run.layers,
        "hidden": run.hidden,
        "vocabulary": run.vocabulary,
        "positions": run.positions,
        "batch": run.batch,
        "sequence": run.sequence,
        "rows": rows,
        "tokens": rows * run.sequence,
        "first": f"{parameters(run, 0):,.0f}",
        "last": f"{parameters(run, 1):,.0f}",
        "held": _kib(state_bytes(run)),
        "along_dp": _kib(along_dp(run)),
        "along_pp": _kib(along_pp(run)),
        "along_tp": _kib(along_tp(run)),
        "messages": f"{messages(run):,.0f}",
        "bubble": f"{(run.pp - 1) / (run.microbatches + run.pp - 1):.0%}",
        "stretch": f"{1 + (run.pp - 1) / run.microbatches:.2f}",
        "within": f"{WITHIN:.0%}",
        "stages": f"{small:,.0f}",
        "message": show_bytes(4 * rows * run.sequence * run.hidden),
        "predict_answer": round(along_tp(run) / along_dp(run), 2),
        "predict_tolerance": 0.15,
        "calculate_1_answer": parameters(run, 0),
        "calculate_1_tolerance": 0.0,
        "calculate_2_answer": round(along_pp(run) / 2**10, 3),
        "calculate_2_tolerance": 0.01,
    }
