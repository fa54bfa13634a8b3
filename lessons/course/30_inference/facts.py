"""The numbers of lesson 30: caches, prompts and answers, from the planner's closed forms; at data-sheet rates."""

from __future__ import annotations

from lessons.checks.references import REFERENCES
from lessons.figures.plot import Data
from lessons.figures.stacks import Row
from sim.chip import CHIPS
from sim.planner.inference import Serving, cache_per_token, largest_batch, prefill_flops, two_n
from sim.planner.layout import Layout
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.planner.transformer import Transformer
from sim.units import show_bytes, show_gigabytes, show_time

OLD, NEW, LARGE = MODELS["llama2-7b"], MODELS["llama3-8b"], MODELS["llama3-70b"]
CHIP = CHIPS["h100"]
LENGTH, LONG, LONGER = 1024, 4096, 32768
MANY, LARGE_MANY = 32, 32
BATCHES = (1, 8, 32, 64)


def facts() -> dict[str, str | int | float]:
    """See ``lesson30.toml``."""
    prompts = [
        REFERENCES["prompt_flops"].answer(total(NEW), NEW.layers, NEW.hidden, length) for length in (LONG, LONGER)
    ]
    alone, together = _token(NEW, 1, LENGTH), _token(NEW, MANY, LENGTH)
    weights, peak = 2 * total(NEW), CHIP.speed("bf16")
    limit = weights * CHIP.bandwidth / peak / _each(NEW)
    return {
        "old": "Llama 2 7B",
        "new": "Llama 3 8B",
        "large": "Llama 3 70B",
        "bits": 16,
        "roofline": 12,
        "old_heads": OLD.heads,
        "old_kv": OLD.kv_heads,
        "new_heads": NEW.heads,
        "new_kv": NEW.kv_heads,
        "new_weights": show_gigabytes(weights),
        "old_token": show_bytes(_each(OLD)),
        "new_token": show_bytes(_each(NEW)),
        "old_long": show_gigabytes(LONG * _each(OLD)),
        "new_long": show_gigabytes(LONG * _each(NEW)),
        "old_batch": largest_batch(OLD, Layout(), _serving(), CHIP),
        "new_batch": largest_batch(NEW, Layout(), _serving(), CHIP),
        "length": f"{LENGTH:,}",
        "long": f"{LONG:,}",
        "longer": f"{LONGER:,}",
        "times_longer": LONGER // LONG,
        "times_flops": f"{prompts[1] / prompts[0]:.1f}",
        "square_times": (LONGER // LONG) ** 2,
        "many": MANY,
        "alone": show_time(alone),
        "together": show_time(together),
        "alone_rate": f"{1 / alone:.0f}",
        "together_rate": f"{MANY / together:,.0f}",
        "prompt_time": show_time(prompts[0] / peak),
        "prompt_exactly": show_time(prefill_flops(NEW, Serving(prompt=LONG)) / peak),
        "prompt_as_answer": show_time(LONG * alone),
        "bandwidth": f"{CHIP.bandwidth / 1e9:,.0f} GB/s",
        "peak": f"{peak / 1e12:.0f} TFLOP/s",
        "bend": f"{peak / CHIP.bandwidth:.0f}",
        "kept": f"{limit:.0f}",
        "large_token": show_bytes(_each(LARGE)),
        "large_many": LARGE_MANY,
        "large_length": f"{LARGE.sequence:,}",
        "large_kv": LARGE.kv_heads,
        "large_layers": LARGE.layers,
        "large_head": LARGE.head,
        "predict_answer": round(together / alone, 2),
        "predict_tolerance": 0.12,
        "calculate_1_answer": round(LARGE_MANY * LARGE.sequence * _each(LARGE) / 1e9, 1),
        "calculate_1_tolerance": 0.02,
        "calculate_2_answer": round(limit),
        "calculate_2_tolerance": 0.03,
    }


def _serving() -> Serving:
    return Serving(prompt=LONG - 128, answer=128)


def _each(model: Transformer) -> int:
    """Bytes of the cache of one token, in 16 bits."""
    return cache_per_token(model, Serving())


def _token(model: Transformer, batch: int, length: int) -> float:
    """Seconds of one more token for each of so many sequences, at the rates of the data sheet."""
    arithmetic = two_n(model) * batch / CHIP.speed("bf16")
    return max(arithmetic, (2 * total(model) + batch * length * _each(model)) / CHIP.bandwidth)


def reads() -> list[Row]:
    """What one step of a batch reads, of two models."""
    return [
        Row(
            "serving",
            {"weights": 2.0 * total(model), "cache": 1.0 * batch * LONG * _each(model)},
            {"model": name, "batch": batch},
        )
        for name, model in (("Llama 2 7B", OLD), ("Llama 3 8B", NEW))
        for batch in BATCHES[:3]
    ]


def rates() -> Data:
    """Tokens a second of all sequences together, over the batch."""
    batches = [2.0**power for power in range(11)]
    wanted = {"old_long": (OLD, LONG), "new_long": (NEW, LONG), "new_none": (NEW, 0)}
    curves = {
        name: [batch / _token(model, int(batch), length) for batch in batches]
        for name, (model, length) in wanted.items()
    }
    return Data(batches, curves)
