"""The planner: what a model needs and costs on a machine, in closed forms. It imports no torch.

``transformer`` and ``models`` say what is trained, ``layout`` how it is split; ``parameters``, ``memory``, ``flops``
and ``inference`` compute. Their formulas are plain arithmetic: any number of a :class:`~sim.planner.layout.Layout` may
be a numpy array, so that a search over plans calls the same functions for thousands of plans at once. What is not a
number (ZeRO stage, recompute, schedule, precision, …) is one choice for all of them.
"""
