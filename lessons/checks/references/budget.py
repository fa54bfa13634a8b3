"""The formulas of lessons 11 and 12: parameters, bytes, operations, days."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sim.planner.activations import layer
from sim.planner.campaign import DAY
from sim.planner.flops import forward, six_nd, training
from sim.planner.layout import Layout, Recompute
from sim.planner.parameters import by_formula, total
from sim.planner.precision import find_precision
from sim.planner.transformer import Transformer

from ..reference import Reference

_PRECISIONS = {"fp32": "fp32", "mixed": "bf16", "pure": "pure-bf16"}


def _gpt(layers: int, hidden: int, vocab: int, sequence: int, heads: int = 1) -> Transformer:
    return Transformer("gpt", layers, hidden, heads, 4 * hidden, vocab, sequence, positions=sequence)


def _parameters(layers: int, hidden: int, vocab: int, positions: int) -> int:
    return total(_gpt(layers, hidden, vocab, positions))


def _rank_parameters(layers: int, hidden: int, vocab: int, positions: int, tp: int, pp: int) -> float:
    return by_formula(_gpt(layers, hidden, vocab, positions), Layout(tp=tp, pp=pp))


def _state_bytes(parameters: int, precision: str, optimizer: str) -> float:
    return parameters * find_precision(_PRECISIONS[precision], optimizer).state.total


def _activation_bytes(batch: int, sequence: int, hidden: int, heads: int, recompute: Recompute) -> float:
    model = _gpt(1, hidden, 1, sequence, heads)
    return layer(model, Layout(microbatch=batch, flash=False, recompute=recompute)).kept


def _layer_flops(batch: int, sequence: int, hidden: int) -> int:
    once = forward(_gpt(1, hidden, 1, sequence), batch)
    return sum(once.values()) - once["logits"]


def _step_flops(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> int:
    return training(forward(_gpt(layers, hidden, vocab, sequence), batch))


def _matmul_time(m: int, n: int, k: int, peak: float, bandwidth: float) -> float:
    return max(2 * m * n * k / peak, 2 * (m * k + k * n + m * n) / bandwidth)


def _training_days(parameters: int, tokens: int, gpus: int, peak: float, mfu: float) -> float:
    model = Transformer("said", 1, 1, 1, 4, 1, 1, stated=parameters)
    return six_nd(model, tokens) / (gpus * peak * mfu) / DAY


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
    "layer_flops": Reference(
        examples=((1, 1024, 768), (8, 2048, 12288), (3, 7, 10), (2, 100, 64), (1, 1, 5)),
        answer=_layer_flops,
        mistakes={
            "budget.layer_flops.multiplications": lambda b, s, h: 12 * b * s * h * h + 2 * b * s * s * h,
            "budget.layer_flops.no_attention": lambda b, s, h: 24 * b * s * h * h,
            "budget.layer_flops.scores_only": lambda b, s, h: 24 * b * s * h * h + 2 * b * s * s * h,
            "budget.layer_flops.causal": lambda b, s, h: 24 * b * s * h * h + 4 * b * s * (s // 2) * h,
            "budget.layer_flops.attention_linear": lambda b, s, h: 24 * b * s * h * h + 4 * b * s * h,
            "budget.layer_flops.attention_wide": lambda b, s, h: 24 * b * s * h * h + 4 * b * s * s * h * h,
            "budget.layer_flops.attention_counts_once": lambda b, s, h: 24 * b * s * h * h + 2 * b * s * s,
            "budget.layer_flops.one_sequence": lambda b, s, h: 24 * s * h * h + 4 * s * s * h,
            "budget.layer_flops.whole_batch": lambda b, s, h: 24 * b * s * h * h + 4 * (b * s) ** 2 * h,
            "budget.layer_flops.no_mlp": lambda b, s, h: 8 * b * s * h * h + 4 * b * s * s * h,
            "budget.layer_flops.mlp_only": lambda b, s, h: 16 * b * s * h * h,
            "budget.layer_flops.one_matrix": lambda b, s, h: 16 * b * s * h * h + 4 * b * s * s * h,
            "budget.layer_flops.no_projection": lambda b, s, h: 22 * b * s * h * h + 4 * b * s * s * h,
            "budget.layer_flops.softmax": lambda b, s, h: 24 * b * s * h * h + 4 * b * s * s * h + 3 * b * s * s,
            "budget.layer_flops.training": lambda b, s, h: 3 * (24 * b * s * h * h + 4 * b * s * s * h),
        },
    ),
    "step_flops": Reference(
        examples=(
            (1, 1024, 12, 768, 50257),
            (1536, 2048, 96, 12288, 50257),
            (2, 10, 3, 8, 20),
            (5, 33, 2, 16, 7),
            (1, 1, 1, 4, 3),
        ),
        answer=_step_flops,
        mistakes={
            "budget.step_flops.forward_only": lambda b, s, n, h, v: _step_flops(b, s, n, h, v) / 3,
            "budget.step_flops.backward_once": lambda b, s, n, h, v: _step_flops(b, s, n, h, v) * 2 / 3,
            "budget.step_flops.recompute": lambda b, s, n, h, v: _step_flops(b, s, n, h, v) + n * _layer_flops(b, s, h),
            "budget.step_flops.look_up": lambda b, s, n, h, v: _step_flops(b, s, n, h, v) + 6 * b * s * h * v,
            "budget.step_flops.look_up_once": lambda b, s, n, h, v: _step_flops(b, s, n, h, v) + 2 * b * s * h * v,
            "budget.step_flops.no_logits": lambda b, s, n, h, v: 3 * n * _layer_flops(b, s, h),
            "budget.step_flops.logits_multiplied": lambda b, s, n, h, v: _step_flops(b, s, n, h, v) - 3 * b * s * h * v,
            "budget.step_flops.logits_forward": lambda b, s, n, h, v: _step_flops(b, s, n, h, v) - 4 * b * s * h * v,
            "budget.step_flops.logits_each_layer": lambda b, s, n, h, v: (
                3 * n * (_layer_flops(b, s, h) + 2 * b * s * h * v)
            ),
            "budget.step_flops.one_logit": lambda b, s, n, h, v: 3 * (n * _layer_flops(b, s, h) + 2 * b * h * v),
            "budget.step_flops.one_layer": lambda b, s, n, h, v: _step_flops(b, s, 1, h, v),
            "budget.step_flops.logits_backward": lambda b, s, n, h, v: n * _layer_flops(b, s, h) + 6 * b * s * h * v,
        },
    ),
    "matmul_time": Reference(
        examples=(
            (4096, 4096, 4096, 989.4e12, 3352e9),
            (1, 4096, 4096, 989.4e12, 3352e9),
            (64, 12288, 12288, 312e12, 2039e9),
            (300, 300, 300, 100e12, 1e12),
            (2, 3, 5, 10.0, 4.0),
            (512, 1024, 256, 1e12, 1e12),
        ),
        answer=_matmul_time,
        mistakes={
            "budget.matmul_time.sum": lambda m, n, k, p, w: 2 * m * n * k / p + 2 * (m * k + k * n + m * n) / w,
            "budget.matmul_time.least": lambda m, n, k, p, w: min(2 * m * n * k / p, 2 * (m * k + k * n + m * n) / w),
            "budget.matmul_time.compute_only": lambda m, n, k, p, w: 2 * m * n * k / p,
            "budget.matmul_time.memory_only": lambda m, n, k, p, w: 2 * (m * k + k * n + m * n) / w,
            "budget.matmul_time.multiplications": lambda m, n, k, p, w: max(
                m * n * k / p, 2 * (m * k + k * n + m * n) / w
            ),
            "budget.matmul_time.elements": lambda m, n, k, p, w: max(2 * m * n * k / p, (m * k + k * n + m * n) / w),
            "budget.matmul_time.four_bytes": lambda m, n, k, p, w: max(
                2 * m * n * k / p, 4 * (m * k + k * n + m * n) / w
            ),
            "budget.matmul_time.no_result": lambda m, n, k, p, w: max(2 * m * n * k / p, 2 * (m * k + k * n) / w),
            "budget.matmul_time.weights_only": lambda m, n, k, p, w: max(2 * m * n * k / p, 2 * k * n / w),
            "budget.matmul_time.no_reuse": lambda m, n, k, p, w: max(2 * m * n * k / p, 4 * m * n * k / w),
            "budget.matmul_time.exchanged": lambda m, n, k, p, w: max(
                2 * m * n * k / w, 2 * (m * k + k * n + m * n) / p
            ),
            "budget.matmul_time.both_over_peak": lambda m, n, k, p, w: max(
                2 * m * n * k / p, 2 * (m * k + k * n + m * n) / p
            ),
            "budget.matmul_time.bits": lambda m, n, k, p, w: max(2 * m * n * k / p, 16 * (m * k + k * n + m * n) / w),
        },
    ),
    "mfu": Reference(
        examples=(
            (874_944_921_600, 0.01, 1, 312e12),
            (4.5e18, 35.0, 1024, 312e12),
            (1e15, 2.5, 8, 989.4e12),
            (100.0, 4.0, 5, 10.0),
        ),
        answer=lambda flops, seconds, gpus, peak: flops / (seconds * gpus * peak),
        mistakes={
            "budget.mfu.one_gpu": lambda f, t, n, p: f / (t * p),
            "budget.mfu.rate": lambda f, t, n, p: f / (t * n),
            "budget.mfu.whole_rate": lambda f, t, n, p: f / t,
            "budget.mfu.upside_down": lambda f, t, n, p: t * n * p / f,
            "budget.mfu.count_over_peak": lambda f, t, n, p: f / (n * p),
            "budget.mfu.multiplied": lambda f, t, n, p: f * t / (n * p),
            "budget.mfu.gpus_multiplied": lambda f, t, n, p: f * n / (t * p),
            "budget.mfu.percent": lambda f, t, n, p: 100 * f / (t * n * p),
        },
    ),
    "training_days": Reference(
        examples=(
            (174_604_259_328, 300_000_000_000, 1024, 312e12, 0.337),
            (6_738_415_616, 2_000_000_000_000, 256, 312e12, 0.45),
            (124_439_808, 10_000_000_000, 1, 989.4e12, 0.4),
            (1000, 500, 3, 7.0, 0.5),
        ),
        answer=_training_days,
        mistakes={
            "budget.training_days.forward_only": lambda x, d, n, p, u: 2 * x * d / (n * p * u) / DAY,
            "budget.training_days.backward_only": lambda x, d, n, p, u: 4 * x * d / (n * p * u) / DAY,
            "budget.training_days.multiplications": lambda x, d, n, p, u: 3 * x * d / (n * p * u) / DAY,
            "budget.training_days.recompute": lambda x, d, n, p, u: 8 * x * d / (n * p * u) / DAY,
            "budget.training_days.at_peak": lambda x, d, n, p, u: 6 * x * d / (n * p) / DAY,
            "budget.training_days.mfu_multiplied": lambda x, d, n, p, u: 6 * x * d * u / (n * p) / DAY,
            "budget.training_days.one_gpu": lambda x, d, n, p, u: 6 * x * d / (p * u) / DAY,
            "budget.training_days.gpu_days": lambda x, d, n, p, u: 6 * x * d * n / (p * u) / DAY,
            "budget.training_days.seconds": lambda x, d, n, p, u: 6 * x * d / (n * p * u),
            "budget.training_days.hours": lambda x, d, n, p, u: 6 * x * d / (n * p * u) / 3600,
            "budget.training_days.gpu_hours": lambda x, d, n, p, u: 6 * x * d / (p * u) / 3600,
            "budget.training_days.no_tokens": lambda x, d, n, p, u: 6 * x / (n * p * u) / DAY,
        },
    ),
}
