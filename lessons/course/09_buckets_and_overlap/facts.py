"""The numbers of lesson 9: the gradients of GPT-2 in buckets of every size, from the simulator."""

from __future__ import annotations

from lessons.figures.backward import ALL, EACH, Backward
from parallel.buckets import assign
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.units import show_bytes, show_time

MIB = 1 << 20
CAPS = {"each": EACH, "one": MIB, "four": 4 * MIB, "default": 25 * MIB, "many": 100 * MIB, "all": ALL}
FIRST = MIB  # torch.distributed's _DEFAULT_FIRST_BUCKET_BYTES
SMALL = 20_000  # elements of a layer of the first problem
LAYERS = 200


def facts() -> dict[str, str | int | float]:
    """See ``lesson09.toml``."""
    figure = Backward()
    sizes, seconds = figure.parameters()
    backward, whole = sum(seconds), figure.cost(sum(sizes))
    made = {name: assign(sizes, [0] * len(sizes), cap) for name, cap in CAPS.items()}
    ends = {name: figure.end(cap) for name, cap in CAPS.items()}
    last = sum(sizes[index] for index in made["default"][-1])
    alpha = 2 * (figure.ranks - 1) * figure.alpha
    best = min(ends, key=lambda name: ends[name])
    return {
        "parameters": f"{total(MODELS[figure.model]) / 1e6:.0f}",
        "tensors": len(sizes),
        "gradients": show_bytes(sum(sizes)),
        "ranks": figure.ranks,
        "rows": figure.rows,
        "bandwidth": f"{figure.bandwidth / 1e9:g} GB/s",
        "link_alpha": show_time(figure.alpha),
        "alpha": show_time(alpha),
        "alphas": show_time(alpha * len(sizes)),
        "backward": show_time(backward),
        "whole": show_time(whole),
        **{f"cap_{name}": show_bytes(cap) for name, cap in CAPS.items() if cap not in (EACH, ALL)},
        **{f"count_{name}": len(one) for name, one in made.items()},
        **{f"end_{name}": show_time(end) for name, end in ends.items()},
        **{f"left_{name}": show_time(end - backward) for name, end in ends.items()},
        "best": show_time(ends[best]),
        "last": show_bytes(last),
        "last_time": show_time(figure.cost(last)),
        "embedding": show_bytes(sizes[0]),
        "first": show_bytes(FIRST),
        "layers": LAYERS,
        "small": show_bytes(4 * SMALL),
        "predict_answer": round(ends["default"] * 1e3, 1),
        "predict_tolerance": 0.05,
        "calculate_1_answer": round(LAYERS * alpha * 1e3, 1),
        "calculate_1_tolerance": 0.02,
        "calculate_2_answer": round((backward + whole) / ends[best], 2),
        "calculate_2_tolerance": 0.02,
    }
