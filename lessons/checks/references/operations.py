"""The formulas of lesson 12: operations, the roofline, days."""

from __future__ import annotations

from collections.abc import Mapping

from sim.planner.campaign import DAY
from sim.planner.flops import forward, six_nd, training
from sim.planner.transformer import Transformer

from ..reference import Reference
from .budget import gpt


def _layer_flops(batch: int, sequence: int, hidden: int) -> int:
    once = forward(gpt(1, hidden, 1, sequence), batch)
    return sum(once.values()) - once["logits"]


def _step_flops(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> int:
    return training(forward(gpt(layers, hidden, vocab, sequence), batch))


def _matmul_time(m: int, n: int, k: int, peak: float, bandwidth: float) -> float:
    return max(2 * m * n * k / peak, 2 * (m * k + k * n + m * n) / bandwidth)


def _training_days(parameters: int, tokens: int, gpus: int, peak: float, mfu: float) -> float:
    model = Transformer("said", 1, 1, 1, 4, 1, 1, stated=parameters)
    return six_nd(model, tokens) / (gpus * peak * mfu) / DAY


OPERATIONS: Mapping[str, Reference] = {
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
