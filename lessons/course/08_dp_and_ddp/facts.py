"""The numbers of lesson 8: GPT-2 by threads and by processes, from the closed forms of `parallel` and the simulator."""

from __future__ import annotations

from collectives.contract import contract_of
from lessons.figures.replicas import FORMS, Replicas
from parallel.formulas import thread_exchanges
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.units import show_gigabytes, show_time

GPUS, ROWS = 4, 8  # rows of a GPU
ETHERNET = 1e9 / 8  # bytes a second
SHARES = (4, 3)  # rows of two ranks
PADDED, OF = 10, 4  # rows, ranks


def facts() -> dict[str, str | int | float]:
    """See ``lesson08.toml``."""
    figure = Replicas(GPUS, ROWS)
    step = figure.step()
    model, sequence = MODELS[figure.model], MODELS[figure.model].sequence
    size = round(step.model)
    moved = thread_exchanges(size, size, round(step.inputs), round(step.outputs), GPUS)
    by_threads, by_processes = sum(moved.values()), 2 * contract_of("all_reduce").factor(GPUS) * size
    small = sum(thread_exchanges(size, size, round(step.inputs), 4 * GPUS, GPUS).values())
    ends = {form: max(span.end for span in figure.spans(form)) for form in FORMS}
    fast, slow = SHARES
    reduced = contract_of("all_reduce").factor(2) * size / ETHERNET
    return {
        "parameters": f"{total(model) / 1e6:.0f}",
        "gradients": show_gigabytes(size),
        "gpus": GPUS,
        "rows": ROWS,
        "batch": GPUS * ROWS,
        "tokens": sequence,
        "vocab": model.vocab,
        "port": f"{1 / figure.link.beta / 1e9:g} GB/s",
        "chip": figure.chip.upper(),
        "share": f"{figure.share:.0%}",
        "logits": show_gigabytes(step.outputs),
        **{f"dp_{name}": f"{count / 1e9:.3g}" for name, count in moved.items()},
        "dp_total": f"{by_threads / 1e9:.2f}",
        "dp_other": f"{by_threads / (GPUS - 1) / 1e9:.2f}",
        "dp_small": f"{small / 1e9:.2f}",
        "ddp_total": f"{by_processes / 1e9:.2f}",
        "ratio_small": f"{small / by_processes:.2g}",
        "dp_time": show_time(ends["threads"]),
        "ddp_time": show_time(ends["processes"]),
        "fast": fast,
        "slow": slow,
        "fast_share": f"1/{2 * fast}",
        "slow_share": f"1/{2 * slow}",
        "whole_share": f"1/{fast + slow}",
        "padded": PADDED,
        "of": OF,
        "filled": -(-PADDED // OF) * OF,
        "dropped": PADDED - PADDED // OF * OF,
        "ethernet": "1 Gbit/s",
        "ethernet_time": show_time(reduced),
        "predict_answer": round(by_threads / by_processes, 1),
        "predict_tolerance": 0.15,
        "calculate_1_answer": round(step.outputs / 1e9, 2),
        "calculate_1_tolerance": 0.02,
        "calculate_2_answer": round(2 * reduced, 2),
        "calculate_2_tolerance": 0.02,
    }
