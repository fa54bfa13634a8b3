"""The numbers of lesson 23: bubbles, what ranks hold, and messages, from the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from parallel.pipeline import PipelineSchedule
from parallel.pipeline.one_chunk import ahead
from parallel.pipeline.schedule import Action, Backward, Forward
from sim.pipeline import PipelineRun, Times, play, simulate

STAGES, MICRO = 4, 8
MANY_STAGES, MANY_MICRO = 8, 32
KEPT, CALC_MICRO, WANTED = 0.5, 64, 0.05  # GB, of the first calculation; bubble of the second
TRANSFER = 1 / 5  # of a stage's forward


def facts() -> dict[str, str | int | float]:
    """See ``lesson23.toml``."""
    known: dict[str, str | int | float] = {
        "stages": STAGES,
        "micro": MICRO,
        "many_stages": MANY_STAGES,
        "many_micro": MANY_MICRO,
        "gpipe_held": f"{simulate('gpipe', STAGES, MICRO).peak_activations[0]:g}",
        "gpipe_bubble": f"{simulate('gpipe', STAGES, MICRO).bubble_fraction:.1%}",
        "few_bubble": f"{simulate('1f1b', MANY_STAGES, 2).bubble_fraction:.0%}",
    }
    for name, schedule, chunks in (
        ("gpipe", "gpipe", None),
        ("turns", "1f1b", None),
        ("two", "interleaved", 2),
        ("four", "interleaved", 4),
    ):
        run = simulate(schedule, MANY_STAGES, MANY_MICRO, chunks)
        known[f"{name}_many"] = f"{run.bubble_fraction:.1%}"
        known[f"{name}_many_first"] = f"{run.peak_activations[0]:.4g}"
        known[f"{name}_many_last"] = f"{run.peak_activations[-1]:.4g}"
        known[f"{name}_many_messages"] = run.messages
    times = Times(p2p=TRANSFER)
    right = simulate("interleaved", MANY_STAGES, MANY_MICRO, 4, times)
    late = play(PipelineSchedule("late", _late, flexible=True), MANY_STAGES, MANY_MICRO, 4, times)
    enough = next(v for v in count(1) if simulate("interleaved", MANY_STAGES, MANY_MICRO, v).bubble_fraction < WANTED)
    return known | {
        "late_over": f"{late.stage_span / right.stage_span:.2f}",
        "predict_answer": round(100 * simulate("1f1b", STAGES, MICRO).bubble_fraction, 1),
        "predict_tolerance": 0.02,
        "calc_kept": KEPT,
        "calc_micro": CALC_MICRO,
        "calc_bubble": f"{WANTED:.0%}",
        "calculate_1_answer": KEPT * (_first("gpipe").peak_activations[0] - _first("1f1b").peak_activations[0]),
        "calculate_1_tolerance": 0.0,
        "calculate_2_answer": enough,
        "calculate_2_tolerance": 0.0,
    }


def _first(schedule: str) -> PipelineRun:
    return simulate(schedule, MANY_STAGES, CALC_MICRO)


def _late(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """Interleaved, but only as far ahead as 1F1B."""
    order = [
        (i, c) for start in range(0, microbatches, ranks) for c in range(chunks) for i in range(start, start + ranks)
    ]
    forwards: list[Action] = [Forward(i, c) for i, c in order]
    backwards: list[Action] = [Backward(i, chunks - 1 - c) for i, c in order]
    return ahead(ranks - rank - 1 + (chunks - 1) * ranks, forwards, backwards)
