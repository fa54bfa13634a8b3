"""The numbers of lesson 20: a layer of GPT-3 in a node and across nodes, and two ways out of attention."""

from __future__ import annotations

from collectives.contract import contract_of
from lessons.figures import LayerTimes
from sim.planner.models import MODELS
from sim.presets import find_machine
from sim.units import show_bytes, show_count, show_time

RANKS, WIDER, ITEM = 8, 16, 2
SLOW, FAST = ("a100", "p4d"), ("h100", "dgx-h100")
KEY_HEADS = "llama3-70b"


def facts() -> dict[str, str | int | float]:
    """See ``lesson20.toml``."""
    model, grouped = MODELS["gpt3-175b"], MODELS[KEY_HEADS]
    times = LayerTimes((FAST, SLOW))
    known: dict[str, str | int | float] = {
        "ranks": RANKS,
        "wider": WIDER,
        "heads": model.heads,
        "own_heads": model.heads // RANKS,
        "sequence": model.sequence,
        "hidden": model.hidden,
        "grouped": grouped.name,
        "grouped_heads": grouped.heads,
        "grouped_kv_heads": grouped.kv_heads,
    }
    for name, (gpu, machine) in (("fast", FAST), ("slow", SLOW)):
        for ranks in (RANKS, WIDER):
            computing, sums = times.seconds(gpu, machine, ranks)
            known[f"{name}_{ranks}"] = show_time(computing + sums)
            known[f"{name}_share_{ranks}"] = f"{sums / (computing + sums):.0%}"
    output = ITEM * model.sequence * model.hidden
    for name, collective, shares in (("summed", "all_reduce", RANKS), ("gathered", "all_gather", 1)):
        known[f"{name}_sent"] = show_bytes(contract_of(collective).factor(RANKS) * output)
        known[f"{name}_parameters"] = show_count(model.hidden**2 / shares)
        known[f"{name}_flops"] = show_count(2 * model.sequence * model.hidden**2 / shares)
    links = find_machine(SLOW[1]).parameters
    before, after = (sum(times.seconds(*SLOW, ranks)) for ranks in (RANKS, WIDER))
    sent = contract_of("all_reduce").factor(WIDER) * output
    node = links["nics"] * links["nic"]
    return known | {
        "nvlink": f"{links['nvlink'] / 1e9:g} GB/s",
        "node": f"{node / 1e9:g} GB/s",
        "sent_16": show_bytes(sent),
        "nvlink_sum": show_time(sent / links["nvlink"]),
        "predict_answer": round(after / before, 2),
        "predict_tolerance": 0.1,
        "calculate_1_answer": grouped.kv_heads,
        "calculate_1_tolerance": 0.0,
        "calculate_2_answer": round(sent / node * 1e3, 2),
        "calculate_2_tolerance": 0.03,
    }
