"""The formulas of lessons 19 to 21."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from parallel.formulas import tensor_elements_sent

from ..reference import Reference


def _tensor_parallel_bytes(batch: int, sequence: int, hidden: int, ranks: int, itemsize: int) -> float:
    return tensor_elements_sent(batch * sequence, hidden, ranks) * itemsize


def _layer_activations(sequence: int, batch: int, hidden: int, ranks: int, sequence_parallel: bool) -> float:
    """Of the planner, without the attention scores."""
    from sim.planner.activations import layer
    from sim.planner.layout import Layout
    from sim.planner.models import MODELS

    model = replace(
        MODELS["gpt3-175b"], hidden=hidden, heads=ranks, kv_heads=0, head=0, ffn=4 * hidden, sequence=sequence
    )
    plan = Layout(tp=ranks, sp=sequence_parallel, microbatch=batch, recompute="selective", flash=False)
    return layer(model, plan).kept


def _share(n: int) -> float:
    return (n - 1) / n


TENSOR: Mapping[str, Reference] = {
    "tensor_parallel_bytes": Reference(
        examples=(
            (1, 2048, 12288, 8, 2),
            (4, 1024, 768, 2, 4),
            (3, 128, 64, 4, 2),
            (2, 7, 5, 3, 8),
            (8, 4096, 8192, 16, 2),
            (2, 100, 32, 1, 4),
        ),
        answer=_tensor_parallel_bytes,
        mistakes={
            "tensor.tensor_parallel_bytes.half": lambda b, s, h, n, i: 4 * b * s * h * i * _share(n),
            "tensor.tensor_parallel_bytes.one": lambda b, s, h, n, i: 2 * b * s * h * i * _share(n),
            "tensor.tensor_parallel_bytes.one_walk": lambda b, s, h, n, i: 1 * b * s * h * i * _share(n),
            "tensor.tensor_parallel_bytes.whole": lambda b, s, h, n, i: 8 * b * s * h * i,
            "tensor.tensor_parallel_bytes.calls": lambda b, s, h, n, i: 4 * b * s * h * i,
            "tensor.tensor_parallel_bytes.all_ranks": lambda b, s, h, n, i: 8 * b * s * h * i * (n - 1),
            "tensor.tensor_parallel_bytes.to_each": lambda b, s, h, n, i: 4 * b * s * h * i * (n - 1),
            "tensor.tensor_parallel_bytes.divided": lambda b, s, h, n, i: 8 * b * s * h * i / n,
            "tensor.tensor_parallel_bytes.elements": lambda b, s, h, n, i: 8 * b * s * h * _share(n),
            "tensor.tensor_parallel_bytes.bits": lambda b, s, h, n, i: 64 * b * s * h * i * _share(n),
            "tensor.tensor_parallel_bytes.wide": lambda b, s, h, n, i: 20 * b * s * h * i * _share(n),
            "tensor.tensor_parallel_bytes.all_wide": lambda b, s, h, n, i: 32 * b * s * h * i * _share(n),
            "tensor.tensor_parallel_bytes.weights": lambda b, s, h, n, i: 24 * h * h * i * _share(n),
            "tensor.tensor_parallel_bytes.no_batch": lambda b, s, h, n, i: 8 * s * h * i * _share(n),
            "tensor.tensor_parallel_bytes.no_sequence": lambda b, s, h, n, i: 8 * b * h * i * _share(n),
            "tensor.tensor_parallel_bytes.sequence": lambda b, s, h, n, i: 10 * b * s * h * i * _share(n),
            "tensor.tensor_parallel_bytes.three": lambda b, s, h, n, i: 6 * b * s * h * i * _share(n),
        },
    ),
    "layer_activations": Reference(
        examples=(
            (2048, 1, 12288, 8, True),
            (2048, 1, 12288, 8, False),
            (128, 3, 64, 2, True),
            (96, 2, 48, 4, False),
            (60, 5, 36, 3, True),
            (60, 5, 36, 3, False),
        ),
        answer=_layer_activations,
        mistakes={
            "tensor.layer_activations.always": lambda s, b, h, n, sp: 34 * s * b * h / n,
            "tensor.layer_activations.never": lambda s, b, h, n, sp: s * b * h * (10 + 24 / n),
            "tensor.layer_activations.whole": lambda s, b, h, n, sp: 34 * s * b * h,
            "tensor.layer_activations.exchanged": lambda s, b, h, n, sp: s * b * h * (24 + 10 / (n if sp else 1)),
            "tensor.layer_activations.inverted": lambda s, b, h, n, sp: s * b * h * (10 / (1 if sp else n) + 24 / n),
            "tensor.layer_activations.elements": lambda s, b, h, n, sp: (
                s * b * h * (10 / (n if sp else 1) + 24 / n) / 2
            ),
            "tensor.layer_activations.twice": lambda s, b, h, n, sp: s * b * h * (10 / (n if sp else 1) + 24 / n) * 2,
            "tensor.layer_activations.no_masks": lambda s, b, h, n, sp: s * b * h * (8 / (n if sp else 1) + 24 / n),
            "tensor.layer_activations.no_batch": lambda s, b, h, n, sp: s * h * (10 / (n if sp else 1) + 24 / n),
            "tensor.layer_activations.inside": lambda s, b, h, n, sp: s * b * h * 24 / n,
            "tensor.layer_activations.between": lambda s, b, h, n, sp: s * b * h * 10 / (n if sp else 1),
        },
    ),
}
