# expects: seconds: the bubble as a share of the whole
# finding: seconds plans.seconds.bubble_of_all
# says: The bubble's share of the whole is (PP−1)/(m + PP−1). Here it comes on top of the work, and of that it is (PP−1)/m.
from __future__ import annotations

from lessons.planning import Cluster, Model, Plan


def choose(gpus: int, local: int, fits: bool, layer_fits: bool, fast: bool) -> str:
    if gpus == 1:
        return "as it is" if fits else "offload"
    if gpus <= local:
        return "ddp" if fits else "zero, pp or tp" if layer_fits else "tp or zero"
    return "zero or pp+tp+dp" if fast else "dp+tp+pp+zero-1"


def memory(model: Model, plan: Plan) -> float:
    own, dp = model.parameters / (plan.pp * plan.tp), plan.dp
    states = own * (16, 4 + 12 / dp, 2 + 14 / dp, 16 / dp)[plan.zero]
    layer = 34 * model.sequence * model.hidden / plan.tp
    kept = layer / 17 if plan.recompute else layer
    in_flight = min(plan.pp, model.batch // dp)
    return states + in_flight * model.layers / plan.pp * kept + (layer if plan.recompute else 0)


def rate(size: int, stride: int, cluster: Cluster) -> float:
    near = max(1, min(size, cluster.local // stride))
    return cluster.nvlink if near == size else min(cluster.nvlink, near * cluster.nic)


def seconds(model: Model, plan: Plan, cluster: Cluster) -> float:
    m, own = model.batch // plan.dp, model.parameters / (plan.pp * plan.tp)
    flops = 6 * model.parameters * model.batch * model.sequence * (4 / 3 if plan.recompute else 1)
    compute = flops / cluster.gpus / cluster.flops

    units = 12 if plan.recompute else 8
    sums = 2 * units * model.sequence * model.hidden * (plan.tp - 1) / plan.tp
    tensor = m * model.layers / plan.pp * sums / rate(plan.tp, 1, cluster)

    passes = (2, 2, m + 1, 3 * m)[plan.zero]
    data = 2 * passes * own * (plan.dp - 1) / plan.dp / rate(plan.dp, plan.tp, cluster)
    return (compute + tensor) * (1 + (plan.pp - 1) / (m + plan.pp - 1)) + data


def best_plan(model: Model, cluster: Cluster) -> Plan | None:
    fitting = []
    for tp in range(1, cluster.local + 1):
        for pp in range(1, model.layers + 1):
            dp = cluster.gpus // (tp * pp)
            if dp * tp * pp != cluster.gpus or model.layers % pp or model.batch % dp:
                continue
            candidates = [Plan(dp, pp, tp, zero, again) for zero in range(4) for again in (False, True)]
            fitting += [plan for plan in candidates if memory(model, plan) <= cluster.memory]
    return min(fitting, key=lambda plan: seconds(model, plan, cluster), default=None)
