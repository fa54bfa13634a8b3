"""The formulas of lessons 22 to 24: bubbles and what ranks hold, as the simulator finds them."""

from __future__ import annotations

from collections.abc import Mapping

from ..reference import Reference


def _bubble(ranks: int, microbatches: int) -> float:
    from sim.pipeline import simulate

    return simulate("gpipe", ranks, microbatches).bubble_fraction


def _in_flight(rank: int, ranks: int, microbatches: int) -> float:
    from sim.pipeline import simulate

    return simulate("1f1b", ranks, microbatches).peak_activations[rank]


def _interleaved(ranks: int, microbatches: int, chunks: int) -> float:
    from sim.pipeline import simulate

    return simulate("interleaved", ranks, microbatches, chunks).bubble_fraction


def _split(ranks: int, forward: float, input: float, weight: float) -> float:
    """What the slowest rank waits, in a step that is long enough."""
    from sim.pipeline import Times, simulate

    microbatches = 3 * ranks
    run = simulate("zb-h1", ranks, microbatches, times=Times(forward, input + weight, weight))
    return run.stage_span - microbatches * (forward + input + weight)


PIPELINES: Mapping[str, Reference] = {
    "bubble": Reference(
        examples=((4, 8), (4, 1), (2, 3), (8, 32), (3, 100), (16, 16), (5, 2)),
        answer=_bubble,
        mistakes={
            "pipelines.bubble.over_ideal": lambda p, m: (p - 1) / m,
            "pipelines.bubble.ranks": lambda p, m: p / (m + p - 1),
            "pipelines.bubble.whole": lambda p, m: (p - 1) / (m + p),
            "pipelines.bubble.both": lambda p, m: p / (m + p),
            "pipelines.bubble.busy": lambda p, m: m / (m + p - 1),
            "pipelines.bubble.naive": lambda p, m: (p - 1) / p,
            "pipelines.bubble.twice": lambda p, m: 2 * (p - 1) / (m + 2 * (p - 1)),
            "pipelines.bubble.double": lambda p, m: 2 * (p - 1) / (m + p - 1),
            "pipelines.bubble.slots": lambda p, m: p - 1,
            "pipelines.bubble.product": lambda p, m: (p - 1) / (m * p),
            "pipelines.bubble.upside_down": lambda p, m: (m + p - 1) / (p - 1),
            "pipelines.bubble.brackets": lambda p, m: (p - 1) / m + p - 1,
            "pipelines.bubble.exchanged": lambda p, m: (m - 1) / (m + p - 1),
        },
    ),
    "in_flight": Reference(
        examples=((0, 4, 8), (3, 4, 8), (1, 4, 8), (0, 4, 2), (2, 8, 3), (5, 8, 32), (0, 1, 5), (6, 8, 1)),
        answer=_in_flight,
        mistakes={
            "pipelines.in_flight.warm_up": lambda r, p, m: min(m, p - r - 1),
            "pipelines.in_flight.warm_up_unbounded": lambda r, p, m: p - r - 1,
            "pipelines.in_flight.unbounded": lambda r, p, m: p - r,
            "pipelines.in_flight.one_more": lambda r, p, m: min(m, p - r + 1),
            "pipelines.in_flight.reversed": lambda r, p, m: min(m, r + 1),
            "pipelines.in_flight.reversed_unbounded": lambda r, p, m: r + 1,
            "pipelines.in_flight.gpipe": lambda r, p, m: m,
            "pipelines.in_flight.same": lambda r, p, m: min(m, p),
            "pipelines.in_flight.same_unbounded": lambda r, p, m: p,
            "pipelines.in_flight.larger": lambda r, p, m: max(m, p - r),
            "pipelines.in_flight.left": lambda r, p, m: m - (p - r),
        },
    ),
    "interleaved_bubble": Reference(
        examples=((4, 8, 2), (4, 8, 1), (2, 6, 3), (8, 32, 4), (3, 3, 2), (4, 64, 5)),
        answer=_interleaved,
        mistakes={
            "pipelines.interleaved_bubble.no_chunks": lambda p, m, v: (p - 1) / (m + p - 1),
            "pipelines.interleaved_bubble.over_ideal": lambda p, m, v: (p - 1) / (v * m),
            "pipelines.interleaved_bubble.divided": lambda p, m, v: (p - 1) / (m + p - 1) / v,
            "pipelines.interleaved_bubble.deeper": lambda p, m, v: (p * v - 1) / (m + p * v - 1),
            "pipelines.interleaved_bubble.longer": lambda p, m, v: v * (p - 1) / (m + v * (p - 1)),
            "pipelines.interleaved_bubble.ranks": lambda p, m, v: p / (v * m + p),
            "pipelines.interleaved_bubble.busy": lambda p, m, v: v * m / (v * m + p - 1),
            "pipelines.interleaved_bubble.half": lambda p, m, v: (p - 1) / v / (m + p - 1 / v),
            "pipelines.interleaved_bubble.brackets": lambda p, m, v: (p - 1) / v * m + p - 1,
            "pipelines.interleaved_bubble.upside_down": lambda p, m, v: (v * m + p - 1) / (p - 1),
        },
    ),
    "split_bubble": Reference(
        examples=((4, 1.0, 1.0, 1.0), (2, 3.0, 2.0, 1.0), (8, 1.0, 1.5, 0.5), (3, 2.0, 3.0, 2.0), (16, 2.0, 2.0, 1.5)),
        answer=_split,
        mistakes={
            "pipelines.split_bubble.unsplit": lambda p, f, i, w: (p - 1) * (f + i + w),
            "pipelines.split_bubble.whole": lambda p, f, i, w: (p - 1) * (f + i),
            "pipelines.split_bubble.h2": lambda p, f, i, w: (p - 1) * (f + i - 2 * w),
            "pipelines.split_bubble.ranks": lambda p, f, i, w: p * (f + i - w),
            "pipelines.split_bubble.third": lambda p, f, i, w: (p - 1) * (f + i + w) / 3,
            "pipelines.split_bubble.forward": lambda p, f, i, w: (p - 1) * (f - w),
            "pipelines.split_bubble.exchanged": lambda p, f, i, w: (p - 1) * (f + w - i),
            "pipelines.split_bubble.brackets": lambda p, f, i, w: (p - 1) * f + i - w,
            "pipelines.split_bubble.one_turn": lambda p, f, i, w: f + i - w,
        },
    ),
}
