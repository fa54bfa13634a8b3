"""What ``Zero`` accepts; everything else is refused before anything is sent."""

from __future__ import annotations

import torch
from torch import nn

from ..precision import Factory

# Their update of an element looks at others of the same parameter, which a slice has not.
_NOT_BY_ELEMENT = ("Adafactor", "LBFGS", "Muon", "SparseAdam")


def check_arguments(module: nn.Module, optimizer: Factory, stage: int, prefetch: int) -> None:
    """Raises:
    ValueError: an argument of ``Zero`` that makes no sense.
    """
    if stage not in (1, 2, 3) or isinstance(stage, bool):
        raise ValueError(f"stage={stage!r}: give 1 (optimizer states), 2 (and gradients) or 3 (and parameters)")
    if not isinstance(prefetch, int) or prefetch < 0:
        raise ValueError(f"prefetch={prefetch!r}: give a number of layers, 0 or more")
    if not isinstance(module, nn.Module):
        raise ValueError(f"module is a {type(module).__name__}: give a torch.nn.Module")
    if not callable(optimizer):
        raise ValueError(
            f"optimizer is a {type(optimizer).__name__}: give a function that makes one of a list of parameters, "
            "for instance lambda parameters: torch.optim.AdamW(parameters)"
        )
    if not any(parameter.requires_grad and parameter.numel() for parameter in module.parameters()):
        raise ValueError("module has no trainable parameter: nothing to cut, nothing to optimize")


def check_optimizer(optimizer: object, known: set[int]) -> None:
    """What a factory made, of the parameters (by ``id``) that it may have.

    Raises:
        ValueError: no optimizer, one that needs whole parameters, or one of other parameters.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"optimizer returned a {type(optimizer).__name__}: let it return a torch.optim.Optimizer")
    name, home = type(optimizer).__name__, type(optimizer).__module__
    if name in _NOT_BY_ELEMENT:
        raise ValueError(f"optimizer={name}: it needs whole parameters, but ranks have pieces; take AdamW, SGD, …")
    if not home.startswith("torch.optim"):
        return  # one that may update copies of its own
    for number, group in enumerate(optimizer.param_groups):
        if any(id(parameter) not in known for parameter in group["params"]):
            raise ValueError(
                f"optimizer: its group {number} has a parameter that is no trainable one of the module: "
                "make it of the list that it is given"
            )
