"""{{stub.file}}"""

from __future__ import annotations

from lessons.planning import Cluster, Model, Plan


def choose(gpus: int, local: int, fits: bool, layer_fits: bool, fast: bool) -> str:
    """{{stub.choose}}"""
    # TODO: {{stub.choose_todo}}
    raise NotImplementedError


def memory(model: Model, plan: Plan) -> float:
    """{{stub.memory}}"""
    # TODO: {{stub.memory_todo}}
    raise NotImplementedError


def rate(size: int, stride: int, cluster: Cluster) -> float:
    """{{stub.rate}}"""
    near = max(1, min(size, cluster.local // stride))
    return cluster.nvlink if near == size else min(cluster.nvlink, near * cluster.nic)


def seconds(model: Model, plan: Plan, cluster: Cluster) -> float:
    """{{stub.seconds}}"""
    m, own = model.batch // plan.dp, model.parameters / (plan.pp * plan.tp)
    flops = 6 * model.parameters * model.batch * model.sequence * (4 / 3 if plan.recompute else 1)
    compute = flops / cluster.gpus / cluster.flops

    units = 12 if plan.recompute else 8
    sums = 2 * units * model.sequence * model.hidden * (plan.tp - 1) / plan.tp
    tensor = m * model.layers / plan.pp * sums / rate(plan.tp, 1, cluster)

    passes = (2, 2, m + 1, 3 * m)[plan.zero]
    data = 2 * passes * own * (plan.dp - 1) / plan.dp / rate(plan.dp, plan.tp, cluster)
    return (compute + tensor) * (1 + (plan.pp - 1) / m) + data


def best_plan(model: Model, cluster: Cluster) -> Plan | None:
    """{{stub.best_plan}}"""
    # TODO: {{stub.best_plan_todo}}
    raise NotImplementedError
