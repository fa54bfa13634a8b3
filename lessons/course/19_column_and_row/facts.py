"""The numbers of lesson 19: a layer of GPT-3, what it sends, and what GELU does to a sum."""

from __future__ import annotations

import torch
from torch.nn.functional import gelu

from collectives.contract import contract_of
from parallel.formulas import MIXED, elements_sent, state_bytes, tensor_elements_sent
from sim.planner.models import MODELS
from sim.presets import find_machine
from sim.units import show_bytes, show_count, show_gigabytes, show_time

RANKS, ITEM = 8, 2  # 16-bit activations
WIDER = 4  # the MLP inside, in hidden widths
LAYER = 12  # parameters of a layer, in h²: 4 of attention, 8 of the MLP


def facts() -> dict[str, str | int | float]:
    """See ``lesson19.toml``."""
    model = MODELS["gpt3-175b"]
    hidden, tokens = model.hidden, model.sequence
    parameters = LAYER * hidden**2
    known: dict[str, str | int | float] = {
        "hidden": hidden,
        "sequence": tokens,
        "layers": model.layers,
        "layer_parameters": show_count(parameters),
        "layer_state": show_gigabytes(state_bytes(parameters, element=MIXED).total),
        "ranks": RANKS,
    }
    one, other = gelu(torch.tensor([1.0, -1.0], dtype=torch.float64)).tolist()
    known |= {
        "gelu_one": f"{one:.2f}",
        "gelu_other": f"{other:.2f}".replace("-", "−"),
        "gelu_sum": f"{one + other:.2f}",
    }
    for ranks in (2, 4, RANKS):
        layer = ITEM * tensor_elements_sent(tokens, hidden, ranks)
        known[f"layer_{ranks}"] = show_gigabytes(layer)
        known[f"model_{ranks}"] = show_gigabytes(model.layers * layer)
    columns = contract_of("all_reduce").factor(RANKS)  # of one tensor of width h
    rows = WIDER * contract_of("all_reduce").factor(RANKS) + contract_of("all_gather").factor(RANKS)
    gradients = elements_sent(parameters, RANKS).total
    sent = ITEM * model.layers * tensor_elements_sent(tokens, hidden, RANKS)
    links = find_machine("dgx-h100").parameters
    return known | {
        "columns_first": show_bytes(columns * ITEM * tokens * hidden),
        "rows_first": show_bytes(rows * ITEM * tokens * hidden),
        "predict_answer": rows / columns,
        "predict_tolerance": 0.0,
        "nvlink_time": show_time(sent / links["nvlink"]),
        "nic_time": show_time(sent / links["nic"]),
        "calculate_1_answer": round(sent / 1e9, 2),
        "calculate_1_tolerance": 0.02,
        "calculate_2_answer": round(gradients / tensor_elements_sent(1, hidden, RANKS)),
        "calculate_2_tolerance": 0.01,
    }
