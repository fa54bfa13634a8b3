"""The formulas of lesson 26: which rule, how many bytes, how fast, how many seconds, which plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from parallel.formulas import elements_sent, state_bytes

from ...planning import Cluster, Model, Plan
from ..reference import Example, Reference
from ..reference import near as alike

WORDS = ("as it is", "offload", "ddp", "zero, pp or tp", "tp or zero", "zero or pp+tp+dp", "dp+tp+pp+zero-1")

GPT3 = Model(174_604_259_328, 96, 12288, 2048, 1536)
GPT13 = Model(12_853_473_280, 40, 5120, 2048, 512)
SMALL = Model(1_557_611_200, 48, 1600, 1024, 64)
A100S = Cluster(1024, 8, 78e9, 240e12, 300e9, 25e9)
NODE = Cluster(8, 8, 78e9, 240e12, 300e9, 25e9)
SLOW = Cluster(64, 8, 78e9, 240e12, 300e9, 1.5e9)
FEW = Cluster(16, 4, 38e9, 120e12, 150e9, 12e9)


# Which rule.


def _choose(gpus: int, local: int, fits: bool, layer_fits: bool, fast: bool) -> str:
    if gpus == 1:
        return "as it is" if fits else "offload"
    if gpus <= local:
        return "ddp" if fits else "zero, pp or tp" if layer_fits else "tp or zero"
    return "zero or pp+tp+dp" if fast else "dp+tp+pp+zero-1"


def _same_word(value: object, other: object, example: Example) -> bool:
    return isinstance(value, str) and value == other


_CHOOSE = Reference(
    examples=tuple(
        (gpus, 8, fits, layer, fast)
        for gpus in (1, 4, 8, 9, 1024)
        for fits, layer in ((True, True), (False, True), (False, False))
        for fast in (True, False)
    ),
    answer=_choose,
    kind="word",
    same=_same_word,
    mistakes={
        "plans.choose.ends_at_local": lambda gpus, local, *rest: _choose(gpus + (gpus == local), local, *rest),
        "plans.choose.one_like_many": lambda gpus, local, *rest: _choose(max(2, gpus), local, *rest),
        "plans.choose.fits_first": lambda gpus, local, fits, layer, fast: (
            ("as it is" if gpus == 1 else "ddp") if fits else _choose(gpus, local, fits, layer, fast)
        ),
        "plans.choose.no_offload": lambda gpus, local, fits, layer, fast: (
            "as it is" if gpus == 1 else _choose(gpus, local, fits, layer, fast)
        ),
        "plans.choose.no_layer": lambda gpus, local, fits, layer, fast: _choose(gpus, local, fits, True, fast),
        "plans.choose.layer_the_other_way": lambda gpus, local, fits, layer, fast: _choose(
            gpus, local, fits, not layer, fast
        ),
        "plans.choose.fits_the_other_way": lambda gpus, local, fits, layer, fast: _choose(
            gpus, local, not fits, layer, fast
        ),
        "plans.choose.fast_the_other_way": lambda gpus, local, fits, layer, fast: _choose(
            gpus, local, fits, layer, not fast
        ),
        "plans.choose.always_fast": lambda gpus, local, fits, layer, fast: _choose(gpus, local, fits, layer, True),
        "plans.choose.links_inside": lambda gpus, local, fits, layer, fast: (
            _choose(gpus, local, fits, layer, fast) if gpus == 1 or fast else "dp+tp+pp+zero-1"
        ),
    },
)


# How many bytes.


def _states(model: Model, plan: Plan) -> float:
    return state_bytes(round(model.parameters / (plan.pp * plan.tp)), plan.dp, plan.zero).total


def _layer(model: Model, plan: Plan) -> float:
    """Bytes that one layer keeps of a microbatch of one sample."""
    return 34 * model.sequence * model.hidden / plan.tp


def _microbatches(model: Model, plan: Plan) -> int:
    return model.batch // plan.dp


def _kept(model: Model, plan: Plan) -> float:
    return _layer(model, plan) / (17 if plan.recompute else 1)


def _in_flight(model: Model, plan: Plan) -> int:
    return min(plan.pp, _microbatches(model, plan))


def held(
    model: Model,
    plan: Plan,
    states: Callable[[Model, Plan], float] = _states,
    in_flight: Callable[[Model, Plan], float] = _in_flight,
    kept: Callable[[Model, Plan], float] = _kept,
    layers: Callable[[Model, Plan], float] = lambda model, plan: model.layers / plan.pp,
    working: Callable[[Model, Plan], float] = lambda model, plan: plan.recompute * _layer(model, plan),
) -> float:
    return states(model, plan) + in_flight(model, plan) * layers(model, plan) * kept(model, plan) + working(model, plan)


def _with(**parts: Callable[[Model, Plan], float]) -> Callable[[Model, Plan], float]:
    return lambda model, plan: held(model, plan, **parts)


def _number(value: object, other: object, example: Example) -> bool:
    return alike(value, other, 1e-5)  # a whole parameter more or less


_PLANS = (
    Plan(64, 2, 8),
    Plan(16, 8, 8, zero=1),
    Plan(16, 8, 8, zero=1, recompute=True),
    Plan(512, 1, 2, zero=2),
    Plan(128, 1, 8, zero=3, recompute=True),
    Plan(8, 32, 4),
    Plan(768, 4, 2, zero=1),
)
_MEMORY = Reference(
    examples=(*((GPT3, plan) for plan in _PLANS), (GPT13, Plan(2, 2, 2)), (SMALL, Plan(8, zero=2)), (SMALL, Plan())),
    answer=held,
    same=_number,
    mistakes={
        "plans.memory.states_only": lambda model, plan: _states(model, plan),
        "plans.memory.activations_only": _with(states=lambda model, plan: 0.0),
        "plans.memory.not_cut": _with(
            states=lambda model, plan: state_bytes(model.parameters, plan.dp, plan.zero).total
        ),
        "plans.memory.no_zero": _with(states=lambda model, plan: _states(model, replace(plan, zero=0))),
        "plans.memory.zero_over_all": _with(
            states=lambda model, plan: state_bytes(
                round(model.parameters / (plan.pp * plan.tp)), plan.dp * plan.pp * plan.tp, plan.zero
            ).total
        ),
        "plans.memory.zero_next": _with(
            states=lambda model, plan: _states(model, replace(plan, zero=min(3, plan.zero + 1)))
        ),
        "plans.memory.two_bytes": _with(states=lambda model, plan: 2 * model.parameters / (plan.pp * plan.tp)),
        "plans.memory.one_microbatch": _with(in_flight=lambda model, plan: 1),
        "plans.memory.all_microbatches": _with(in_flight=_microbatches),
        "plans.memory.pp_in_flight": _with(in_flight=lambda model, plan: plan.pp),
        "plans.memory.all_layers": _with(layers=lambda model, plan: model.layers),
        "plans.memory.layer_whole": _with(
            kept=lambda model, plan: _kept(model, plan) * plan.tp,
            working=lambda model, plan: plan.recompute * _layer(model, plan) * plan.tp,
        ),
        "plans.memory.recompute_ignored": _with(kept=_layer, working=lambda model, plan: 0.0),
        "plans.memory.recompute_free": _with(working=lambda model, plan: 0.0),
        "plans.memory.recompute_keeps_nothing": _with(
            kept=lambda model, plan: 0 if plan.recompute else _layer(model, plan)
        ),
        "plans.memory.working_always": _with(working=_layer),
    },
)  # fmt: skip


# How many seconds.


def computing(model: Model, plan: Plan, cluster: Cluster) -> float:
    flops = 6 * model.parameters * model.batch * model.sequence * (4 / 3 if plan.recompute else 1)
    return flops / cluster.gpus / cluster.flops


def near(size: int, stride: int, cluster: Cluster) -> int:
    """Members of a group in one machine; each is ``stride`` after the one before it."""
    return max(1, min(size, cluster.local // stride))


def rate(size: int, stride: int, cluster: Cluster) -> float:
    """Bytes a second at which a ring of the group runs."""
    members = near(size, stride, cluster)
    return cluster.nvlink if members >= size else min(cluster.nvlink, members * cluster.nic)


_RATE = Reference(
    examples=(
        (8, 1, A100S),
        (16, 1, A100S),
        (64, 4, A100S),
        (8, 8, A100S),
        (4, 16, A100S),
        (2, 4, A100S),
        (32, 1, replace(SLOW, nic=60e9)),
        (32, 2, SLOW),
        (3, 4, SLOW),
        (4, 1, FEW),
        (8, 2, FEW),
        (1, 1, FEW),
    ),
    answer=rate,
    mistakes={
        "plans.rate.one_nic": lambda size, stride, cluster: (
            cluster.nvlink if near(size, stride, cluster) >= size else cluster.nic
        ),
        "plans.rate.all_nics": lambda size, stride, cluster: (
            cluster.nvlink if near(size, stride, cluster) >= size else min(cluster.nvlink, cluster.local * cluster.nic)
        ),
        "plans.rate.not_capped": lambda size, stride, cluster: (
            cluster.nvlink if near(size, stride, cluster) >= size else near(size, stride, cluster) * cluster.nic
        ),
        "plans.rate.nvlink": lambda size, stride, cluster: cluster.nvlink,
        "plans.rate.no_stride": lambda size, stride, cluster: rate(size, 1, cluster),
        "plans.rate.stride_in_the_question": lambda size, stride, cluster: (
            cluster.nvlink if size <= cluster.local else min(cluster.nvlink, near(size, stride, cluster) * cluster.nic)
        ),
        "plans.rate.no_member": lambda size, stride, cluster: (
            cluster.nvlink
            if size * stride <= cluster.local or size == 1
            else min(cluster.nvlink, min(size, cluster.local // stride) * cluster.nic)
        ),
        "plans.rate.only_nics": lambda size, stride, cluster: min(
            cluster.nvlink, near(size, stride, cluster) * cluster.nic
        ),
        "plans.rate.nic_shared": lambda size, stride, cluster: (
            cluster.nvlink if near(size, stride, cluster) >= size else cluster.nic / near(size, stride, cluster)
        ),
        "plans.rate.fastest": lambda size, stride, cluster: max(
            cluster.nvlink, near(size, stride, cluster) * cluster.nic
        ),
    },
)


def summing(model: Model, plan: Plan, cluster: Cluster, units: tuple[int, int] = (8, 12), nbytes: int = 2) -> float:
    """Seconds of the sums along tp of all microbatches of a stage."""
    elements = units[plan.recompute] * model.sequence * model.hidden * (plan.tp - 1) / plan.tp
    each = nbytes * elements / rate(plan.tp, 1, cluster)
    return _microbatches(model, plan) * model.layers / plan.pp * each


def stretch(model: Model, plan: Plan) -> float:
    return 1 + (plan.pp - 1) / _microbatches(model, plan)


def exchanging(model: Model, plan: Plan, cluster: Cluster) -> float:
    own = model.parameters / (plan.pp * plan.tp)
    sent = elements_sent(1, plan.dp, plan.zero, _microbatches(model, plan)).total * own
    return 2 * sent / rate(plan.dp, plan.tp, cluster)


def timed(model: Model, plan: Plan, cluster: Cluster) -> float:
    together = computing(model, plan, cluster) + summing(model, plan, cluster)
    return together * stretch(model, plan) + exchanging(model, plan, cluster)


_Timed = Callable[[Model, Plan, Cluster], float]


def _only(*parts: _Timed) -> _Timed:
    return lambda model, plan, cluster: sum(part(model, plan, cluster) for part in parts)


def _piped(part: _Timed) -> _Timed:
    return lambda model, plan, cluster: part(model, plan, cluster) * stretch(model, plan)


def _on_link(cluster: Cluster, name: str) -> Cluster:
    """All links as this one."""
    speed = getattr(cluster, name)
    return replace(cluster, nvlink=speed, nic=speed)


_SECONDS = Reference(
    examples=(
        *((GPT3, plan, replace(A100S, gpus=plan.dp * plan.pp * plan.tp)) for plan in _PLANS),
        (GPT13, Plan(2, 2, 2), NODE),
        (GPT13, Plan(4, 1, 2, zero=1), NODE),
        (GPT13, Plan(4, 1, 16), SLOW),
        (SMALL, Plan(16, zero=2), FEW),
        (SMALL, Plan(2, 2, 4, recompute=True), FEW),
    ),
    answer=timed,
    mistakes={
        "plans.seconds.compute_only": computing,
        "plans.seconds.no_bubble": _only(computing, summing, exchanging),
        "plans.seconds.bubble_of_all": lambda model, plan, cluster: (
            (computing(model, plan, cluster) + summing(model, plan, cluster))
            * (1 + (plan.pp - 1) / (plan.pp - 1 + _microbatches(model, plan)))
            + exchanging(model, plan, cluster)
        ),
        "plans.seconds.no_dp": _piped(_only(computing, summing)),
        "plans.seconds.no_tp": _only(_piped(computing), exchanging),
        "plans.seconds.tp_outside": _only(_piped(computing), summing, exchanging),
        "plans.seconds.dp_inside": _piped(_only(computing, summing, exchanging)),
        "plans.seconds.forward_only": _only(
            _piped(_only(lambda model, plan, cluster: computing(model, plan, cluster) / 3, summing)), exchanging
        ),
        "plans.seconds.recompute_free": lambda model, plan, cluster: timed(
            model, replace(plan, recompute=False), cluster
        ),
        "plans.seconds.recompute_without_sums": _only(
            _piped(_only(computing, lambda model, plan, cluster: summing(model, plan, cluster, (8, 8)))), exchanging
        ),
        "plans.seconds.one_sum_a_layer": _only(
            _piped(_only(computing, lambda model, plan, cluster: summing(model, plan, cluster, (4, 6)))), exchanging
        ),
        "plans.seconds.nvlink_everywhere": lambda model, plan, cluster: timed(
            model, plan, _on_link(cluster, "nvlink")
        ),
        "plans.seconds.nic_everywhere": lambda model, plan, cluster: timed(
            model, plan, _on_link(cluster, "nic")
        ),
        "plans.seconds.dp_alone_local": lambda model, plan, cluster: (
            _piped(_only(computing, summing))(model, plan, cluster)
            + exchanging(model, plan, cluster) * rate(plan.dp, plan.tp, cluster) / rate(plan.dp, 1, cluster)
        ),
        "plans.seconds.dp_whole_model": lambda model, plan, cluster: (
            _piped(_only(computing, summing))(model, plan, cluster)
            + exchanging(model, plan, cluster) * plan.pp * plan.tp
        ),
        "plans.seconds.zero_once": lambda model, plan, cluster: (
            _piped(_only(computing, summing))(model, plan, cluster)
            + exchanging(model, replace(plan, zero=0), cluster) * (1.5 if plan.zero == 3 else 1)
        ),
        "plans.seconds.tokens_of_one": lambda model, plan, cluster: (
            timed(model, plan, cluster)
            - computing(model, plan, cluster) * stretch(model, plan) * (1 - 1 / model.batch)
        ),
    },
)  # fmt: skip


# Which plan.


def plans(model: Model, cluster: Cluster) -> Iterator[Plan]:
    """Every plan of the lesson: TP inside a machine, stages of as many layers, replicas of as many samples."""
    for tp in range(1, cluster.local + 1):
        for pp in range(1, model.layers + 1):
            dp = cluster.gpus // (tp * pp)
            if model.layers % pp == 0 and dp * tp * pp == cluster.gpus and model.batch % dp == 0:
                yield from (Plan(dp, pp, tp, zero, again) for zero in range(4) for again in (False, True))


def best(
    model: Model,
    cluster: Cluster,
    key: Callable[[Model, Plan, Cluster], Any] = timed,
    fits: Callable[[Model, Plan, Cluster], bool] = lambda model, plan, cluster: held(model, plan) <= cluster.memory,
    which: Callable[[Plan, Cluster], bool] = lambda plan, cluster: True,
) -> Plan | None:
    kept = [plan for plan in plans(model, cluster) if which(plan, cluster) and fits(model, plan, cluster)]
    return min(kept, key=lambda plan: key(model, plan, cluster), default=None)


def _same_plan(value: object, other: object, example: Example) -> bool:
    """Two plans that fit and are as fast; or none, where none fits."""
    model, cluster = example
    if value is None or other is None:
        return value is other
    try:
        if not isinstance(value, Plan) or value not in set(plans(model, cluster)):
            return False
        assert isinstance(other, Plan)
        slow, fast = timed(model, value, cluster), timed(model, other, cluster)
        return held(model, value) <= cluster.memory and alike(slow, fast, 1e-5)
    except (TypeError, ZeroDivisionError):
        return False


def _no_smaller(model: Model, plan: Plan, cluster: Cluster) -> float:
    return -timed(model, plan, cluster)


_BEST = Reference(
    examples=(
        (GPT3, A100S),
        (GPT13, NODE),
        (SMALL, NODE),
        (GPT13, SLOW),
        (replace(GPT13, batch=64), FEW),
        (GPT3, NODE),
        (SMALL, replace(NODE, gpus=1, local=1, memory=26e9)),
        (replace(SMALL, batch=8), FEW),
        (replace(GPT3, batch=128), replace(A100S, gpus=128)),
    ),
    answer=best,
    kind="plan",
    same=_same_plan,
    exactly=lambda value, other, example: value == other,
    mistakes={
        "plans.best_plan.fits_ignored": lambda model, cluster: best(model, cluster, fits=lambda *one: True),
        "plans.best_plan.smallest": lambda model, cluster: best(
            model, cluster, lambda model, plan, cluster: held(model, plan)
        ),
        "plans.best_plan.slowest": lambda model, cluster: best(model, cluster, _no_smaller),
        "plans.best_plan.states_fit": lambda model, cluster: best(
            model, cluster, fits=lambda model, plan, cluster: _states(model, plan) <= cluster.memory
        ),
        "plans.best_plan.no_zero": lambda model, cluster: best(
            model, cluster, which=lambda plan, cluster: plan.zero == 0
        ),
        "plans.best_plan.no_recompute": lambda model, cluster: best(
            model, cluster, which=lambda plan, cluster: not plan.recompute
        ),
        "plans.best_plan.always_recompute": lambda model, cluster: best(
            model, cluster, which=lambda plan, cluster: plan.recompute
        ),
        "plans.best_plan.no_tp": lambda model, cluster: best(model, cluster, which=lambda plan, cluster: plan.tp == 1),
        "plans.best_plan.no_pp": lambda model, cluster: best(model, cluster, which=lambda plan, cluster: plan.pp == 1),
        "plans.best_plan.full_tp": lambda model, cluster: best(
            model, cluster, which=lambda plan, cluster: plan.tp == cluster.local
        ),
        "plans.best_plan.first": lambda model, cluster: best(model, cluster, lambda *one: 0),
        "plans.best_plan.all_memory_free": lambda model, cluster: best(
            model, cluster, fits=lambda model, plan, cluster: held(model, plan) <= cluster.memory * cluster.gpus
        ),
    },
)

PLANS: Mapping[str, Reference] = {
    "choose": _CHOOSE,
    "memory": _MEMORY,
    "rate": _RATE,
    "seconds": _SECONDS,
    "best_plan": _BEST,
}
