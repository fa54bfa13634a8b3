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
    # TODO: {{stub.rate_todo}}
    raise NotImplementedError


def seconds(model: Model, plan: Plan, cluster: Cluster) -> float:
    """{{stub.seconds}}"""
    # TODO: {{stub.seconds_todo}}
    raise NotImplementedError


def best_plan(model: Model, cluster: Cluster) -> Plan | None:
    """{{stub.best_plan}}"""
    # TODO: {{stub.best_plan_todo}}
    raise NotImplementedError
