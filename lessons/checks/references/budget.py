"""The formulas of lesson 11: parameters, and the bytes of training."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sim.planner.activations import layer
from sim.planner.layout import Layout, Recompute
from sim.planner.parameters import by_formula, total
from sim.planner.precision import find_precision
from sim.planner.transformer import Transformer

from ..reference import Reference

_PRECISIONS = {"fp32": "fp32", "mixed": "bf16", "pure": "pure-bf16"}


def gpt(layers: int, hidden: int, vocab: int, sequence: int, heads: int = 1) -> Transformer:
    """As lessons 11 and 12 count it: biases, learned positions, a tied output."""
    return Transformer("gpt", layers, hidden, heads, 4 * hidden, vocab, sequence, positions=sequence)


def _parameters(layers: int, hidden: int, vocab: int, positions: int) -> int:
    return total(gpt(layers, hidden, vocab, positions))


def _rank_parameters(layers: int, hidden: int, vocab: int, positions: int, tp: int, pp: int) -> float:
    return by_formula(gpt(layers, hidden, vocab, positions), Layout(tp=tp, pp=pp))


def _state_bytes(parameters: int, precision: str, optimizer: str) -> int:
    return round(parameters * find_precision(_PRECISIONS[precision], optimizer).state.total)


def _activation_bytes(batch: int, sequence: int, hidden: int, heads: int, recompute: Recompute) -> int:
    model = gpt(1, hidden, 1, sequence, heads)
    return round(layer(model, Layout(microbatch=batch, flash=False, recompute=recompute)).kept)


def _states(**bytes_of: tuple[float, float, float]) -> Callable[[int, str, str], float]:
    """A mistaken ``bytes_at_rest``: bytes of weights with gradients, of a master copy, of a moment, by precision."""
    moments = {"adam": 2, "momentum": 1, "sgd": 0}

    def mistaken(parameters: int, precision: str, optimizer: str) -> float:
        plain, master, moment = bytes_of[precision]
        return parameters * (plain + master + moment * moments[optimizer])

    return mistaken


_RIGHT = {"fp32": (8.0, 0.0, 4.0), "mixed": (4.0, 4.0, 4.0), "pure": (4.0, 0.0, 2.0)}


def _blocks(layers: int, hidden: int) -> int:
    return 12 * layers * hidden**2


BUDGET: Mapping[str, Reference] = {
    "gpt_parameters": Reference(
        examples=(
            (12, 768, 50257, 1024),
            (96, 12288, 50257, 2048),
            (4, 128, 256, 128),
            (1, 8, 10, 4),
            (3, 5, 7, 11),
        ),
        answer=_parameters,
        mistakes={
            "budget.gpt_parameters.untied": lambda n, h, v, s: _parameters(n, h, v, s) + v * h,
            "budget.gpt_parameters.no_positions": lambda n, h, v, s: _parameters(n, h, v, s) - s * h,
            "budget.gpt_parameters.no_vocabulary": lambda n, h, v, s: _parameters(n, h, v, s) - v * h,
            "budget.gpt_parameters.no_last_norm": lambda n, h, v, s: _parameters(n, h, v, s) - 2 * h,
            "budget.gpt_parameters.no_norms": lambda n, h, v, s: _blocks(n, h) + 9 * n * h + (v + s) * h,
            "budget.gpt_parameters.norms_without_bias": lambda n, h, v, s: _parameters(n, h, v, s) - (2 * n + 1) * h,
            "budget.gpt_parameters.no_biases": lambda n, h, v, s: _blocks(n, h) + 4 * n * h + (v + s) * h + 2 * h,
            "budget.gpt_parameters.matrices_only": lambda n, h, v, s: _blocks(n, h) + (v + s) * h,
            "budget.gpt_parameters.blocks_only": lambda n, h, v, s: _blocks(n, h),
            "budget.gpt_parameters.layers_only": lambda n, h, v, s: _blocks(n, h) + 13 * n * h,
            "budget.gpt_parameters.no_projection": lambda n, h, v, s: _parameters(n, h, v, s) - n * (h * h + h),
            "budget.gpt_parameters.one_matrix": lambda n, h, v, s: _parameters(n, h, v, s) - n * (4 * h * h + h),
            "budget.gpt_parameters.narrow": lambda n, h, v, s: _parameters(n, h, v, s) - n * (6 * h * h + 3 * h),
            "budget.gpt_parameters.one_norm": lambda n, h, v, s: _parameters(n, h, v, s) - 2 * n * h,
            "budget.gpt_parameters.one_layer": lambda n, h, v, s: _parameters(1, h, v, s),
            "budget.gpt_parameters.tables_in_layers": lambda n, h, v, s: (
                n * (12 * h * h + 13 * h + (v + s) * h) + 2 * h
            ),
            "budget.gpt_parameters.table_product": lambda n, h, v, s: _blocks(n, h) + 13 * n * h + v * s * h + 2 * h,
            "budget.gpt_parameters.biased_head": lambda n, h, v, s: _parameters(n, h, v, s) + v,
        },
    ),
    "rank_parameters": Reference(
        examples=(
            (96, 12288, 50257, 2048, 8, 16),
            (12, 768, 50257, 1024, 1, 1),
            (10, 64, 100, 32, 2, 3),
            (4, 128, 256, 128, 4, 2),
            (6, 100, 1000, 50, 5, 1),
        ),
        answer=_rank_parameters,
        mistakes={
            "budget.rank_parameters.tables_whole": lambda n, h, v, s, t, p: _blocks(n, h) / (t * p) + (v + s) * h,
            "budget.rank_parameters.tables_over_stages": lambda n, h, v, s, t, p: (
                (_blocks(n, h) + (v + s) * h) / (t * p)
            ),
            "budget.rank_parameters.all_layers": lambda n, h, v, s, t, p: (_blocks(n, h) + (v + s) * h) / t,
            "budget.rank_parameters.whole_matrices": lambda n, h, v, s, t, p: _blocks(n, h) / p + (v + s) * h / t,
            "budget.rank_parameters.no_tables": lambda n, h, v, s, t, p: _blocks(n, h) / (t * p),
            "budget.rank_parameters.no_positions": lambda n, h, v, s, t, p: _blocks(n, h) / (t * p) + v * h / t,
            "budget.rank_parameters.positions_whole": lambda n, h, v, s, t, p: (
                _blocks(n, h) / (t * p) + v * h / t + s * h
            ),
            "budget.rank_parameters.everything": lambda n, h, v, s, t, p: _parameters(n, h, v, s) / (t * p),
            "budget.rank_parameters.with_small": lambda n, h, v, s, t, p: (
                (_blocks(n, h) + 13 * n * h) / (t * p) + (v + s) * h / t
            ),
            "budget.rank_parameters.added": lambda n, h, v, s, t, p: _blocks(n, h) / (t + p) + (v + s) * h / t,
            "budget.rank_parameters.twice": lambda n, h, v, s, t, p: _blocks(n, h) / (t * p) + (2 * v + s) * h / t,
            "budget.rank_parameters.cut": lambda n, h, v, s, t, p: n // p * 12 * h * h / t + (v + s) * h / t,
        },
    ),
    "bytes_at_rest": Reference(
        examples=(
            (1_557_611_200, "mixed", "adam"),
            (1_000_000, "fp32", "adam"),
            (1_000_003, "mixed", "sgd"),
            (7, "fp32", "sgd"),
            (124_439_808, "mixed", "momentum"),
            (10_000, "fp32", "momentum"),
            (12_345, "pure", "adam"),
            (99, "pure", "sgd"),
            (100, "pure", "momentum"),
        ),
        answer=_state_bytes,
        mistakes={
            "budget.bytes_at_rest.no_master": _states(**{**_RIGHT, "mixed": (4, 0, 4)}),
            "budget.bytes_at_rest.half": _states(**{**_RIGHT, "mixed": (4, 0, 2)}),
            "budget.bytes_at_rest.moments_in_half": _states(**{**_RIGHT, "mixed": (4, 4, 2)}),
            "budget.bytes_at_rest.pure_with_master": _states(**{**_RIGHT, "pure": (4, 4, 4)}),
            "budget.bytes_at_rest.pure_moments": _states(**{**_RIGHT, "pure": (4, 0, 4)}),
            "budget.bytes_at_rest.master_everywhere": _states(**{**_RIGHT, "fp32": (8, 4, 4)}),
            "budget.bytes_at_rest.fp32_gradients": _states(**{**_RIGHT, "mixed": (6, 4, 4)}),
            "budget.bytes_at_rest.no_gradients": _states(fp32=(4, 0, 4), mixed=(2, 4, 4), pure=(2, 0, 2)),
            "budget.bytes_at_rest.weights_only": _states(fp32=(4, 0, 0), mixed=(2, 0, 0), pure=(2, 0, 0)),
            "budget.bytes_at_rest.no_optimizer": _states(fp32=(8, 0, 0), mixed=(4, 0, 0), pure=(4, 0, 0)),
            "budget.bytes_at_rest.always_16": lambda x, precision, optimizer: 16 * x,
            "budget.bytes_at_rest.always_adam": lambda x, precision, optimizer: _state_bytes(x, precision, "adam"),
            "budget.bytes_at_rest.one_moment": lambda x, precision, optimizer: _state_bytes(
                x, precision, "momentum" if optimizer == "adam" else optimizer
            ),
            "budget.bytes_at_rest.momentum_two": lambda x, precision, optimizer: _state_bytes(
                x, precision, "adam" if optimizer == "momentum" else optimizer
            ),
            "budget.bytes_at_rest.sgd_one": lambda x, precision, optimizer: _state_bytes(
                x, precision, "momentum" if optimizer == "sgd" else optimizer
            ),
            "budget.bytes_at_rest.master_with_adam": lambda x, precision, optimizer: (
                _state_bytes(x, precision, optimizer) - 4 * x * (precision == "mixed" and optimizer == "sgd")
            ),
        },
    ),
    "activation_bytes": Reference(
        examples=(
            (1, 2048, 12288, 96, "none"),
            (4, 1024, 1600, 25, "none"),
            (3, 7, 10, 5, "none"),
            (2, 512, 768, 12, "selective"),
            (5, 11, 6, 2, "selective"),
            (1, 128, 64, 4, "full"),
            (3, 100, 36, 6, "full"),
        ),
        answer=_activation_bytes,
        mistakes={
            "budget.activation_bytes.no_batch": lambda b, s, h, a, r: _activation_bytes(1, s, h, a, r),
            "budget.activation_bytes.scores_of_one_sample": lambda b, s, h, a, r: (
                34 * s * b * h + 5 * a * s * s if r == "none" else _activation_bytes(b, s, h, a, r)
            ),
            "budget.activation_bytes.scores_not_squared": lambda b, s, h, a, r: (
                34 * s * b * h + 5 * a * s * b if r == "none" else _activation_bytes(b, s, h, a, r)
            ),
            "budget.activation_bytes.one_head": lambda b, s, h, a, r: _activation_bytes(b, s, h, 1, r),
            "budget.activation_bytes.scores_once": lambda b, s, h, a, r: (
                34 * s * b * h + 2 * a * s * s * b if r == "none" else _activation_bytes(b, s, h, a, r)
            ),
            "budget.activation_bytes.scores_wide": lambda b, s, h, a, r: (
                34 * s * b * h + 5 * s * s * b * h if r == "none" else _activation_bytes(b, s, h, a, r)
            ),
            "budget.activation_bytes.no_scores": lambda b, s, h, a, r: _activation_bytes(
                b, s, h, a, "selective" if r == "none" else r
            ),
            "budget.activation_bytes.full_is_nothing": lambda b, s, h, a, r: (
                0 if r == "full" else _activation_bytes(b, s, h, a, r)
            ),
            "budget.activation_bytes.full_in_bytes": lambda b, s, h, a, r: (
                s * b * h if r == "full" else _activation_bytes(b, s, h, a, r)
            ),
            "budget.activation_bytes.full_is_selective": lambda b, s, h, a, r: _activation_bytes(
                b, s, h, a, "selective" if r == "full" else r
            ),
            "budget.activation_bytes.selective_is_full": lambda b, s, h, a, r: _activation_bytes(
                b, s, h, a, "full" if r == "selective" else r
            ),
            "budget.activation_bytes.no_attention": lambda b, s, h, a, r: (
                23 * s * b * h if r == "selective" else _activation_bytes(b, s, h, a, r)
            ),
            "budget.activation_bytes.never_dropped": lambda b, s, h, a, r: _activation_bytes(b, s, h, a, "none"),
            "budget.activation_bytes.brackets": lambda b, s, h, a, r: (
                s * b * h * 34 + 5 * a * s / h if r == "none" else _activation_bytes(b, s, h, a, r)
            ),
            "budget.activation_bytes.no_masks": lambda b, s, h, a, r: {
                "none": 32 * s * b * h + 4 * a * s * s * b,
                "selective": 32 * s * b * h,
                "full": 2 * s * b * h,
            }[r],
        },
    ),
}
