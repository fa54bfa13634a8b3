"""The ways to train that ``python -m parallel compare`` knows: a strategy is data, which three readers share.

reader       makes of it                                              in
build        a model in training on real ranks                        ``trainee``
expect       bytes sent and bytes held, in closed form                ``expectations``
name         the lines of a table                                     ``commands/compare``

No torch here.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to train.

    wrapper: ``"none"`` (one process, the whole batch), ``"threads"``, ``"ddp"`` or ``"zero"``.
    stage: of ZeRO, 0 without; kept: parameters stay whole between forward and backward; copies: of hybrid sharding.
    wire: of gradients, in fewer bits; computes: ``"fp32"``, or ``"bf16"``/``"fp16"`` with fp32 masters.
    activations: ``"held"``, ``"recomputed"`` or ``"away"`` (on a slower tier).
    optimizer: ``"adam"``, ``"adam-8bit"``, ``"away"`` (its states on a slower tier) or ``"on-host"`` (all of it).
    """

    name: str
    does: str
    wrapper: str
    stage: int = 0
    kept: bool = False
    copies: int = 1
    wire: str | None = None
    computes: str = "fp32"
    activations: str = "held"
    optimizer: str = "adam"

    @property
    def alone(self) -> bool:
        """Whether one process trains, with the whole batch."""
        return self.wrapper in ("none", "threads")

    @property
    def precision(self) -> str:
        """``fp32`` if nothing is rounded or quantised, else the fewest bits that something has."""
        return "int8" if self.optimizer == "adam-8bit" else self.wire or self.computes

    def refusal(self, ranks: int) -> str:
        """Why so many ranks cannot train like this; empty if they can."""
        if self.copies > 1 and (ranks % self.copies or ranks < 2 * self.copies):
            return f"{self.name} needs an even number of ranks from {2 * self.copies} on, and there are {ranks}"
        return ""


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy("single", "one process, the whole batch", "none"),
        Strategy("dp", "replicas in threads of one process", "threads"),
        Strategy("ddp", "replicas in processes, gradients all-reduced in buckets", "ddp"),
        Strategy("ddp-fp16", "gradients cross the wire in fp16, with error feedback", "ddp", wire="fp16"),
        Strategy("ddp-bf16", "in bf16", "ddp", wire="bf16"),
        Strategy("ddp-int8", "in int8, block by block", "ddp", wire="int8"),
        Strategy("zero-1", "optimizer states cut", "zero", 1),
        Strategy("zero-2", "gradients too", "zero", 2),
        Strategy("zero-3", "parameters too", "zero", 3),
        Strategy("zero-3-kept", "whole parameters stay from forward to backward", "zero", 3, kept=True),
        Strategy("hybrid", "zero-3 in two copies", "zero", 3, copies=2),
        Strategy("bf16", "ddp in bf16, with fp32 masters", "ddp", computes="bf16"),
        Strategy("fp16", "ddp in fp16, with fp32 masters and a loss scale", "ddp", computes="fp16"),
        Strategy("zero-3-bf16", "zero-3 in bf16, with fp32 masters", "zero", 3, computes="bf16"),
        Strategy("recompute", "ddp; a block's inside is computed again", "ddp", activations="recomputed"),
        Strategy("offload-activations", "ddp; activations on a slower tier", "ddp", activations="away"),
        Strategy("offload-states", "ddp; Adam's states on a slower tier", "ddp", optimizer="away"),
        Strategy("zero-offload", "zero-2; master, states and update on the host", "zero", 2, optimizer="on-host"),
        Strategy("adam-8bit", "ddp; Adam's states in 8 bits", "ddp", optimizer="adam-8bit"),
    )
}


def choose(names: str, ranks: int) -> tuple[list[Strategy], list[str]]:
    """The strategies that ``"ddp,zero-3"`` or ``"all"`` names, and why some of ``all`` were left out.

    Raises:
        ValueError: none, one that there is not, or one that so many ranks cannot do.
    """
    chosen: dict[str, Strategy] = {}
    left: list[str] = []
    for name in (piece.strip() for piece in names.split(",") if piece.strip()):
        for strategy in STRATEGIES.values() if name == "all" else [_find(name)]:
            refusal = strategy.refusal(ranks)
            if refusal and name != "all":
                raise ValueError(f"--strategies {name}: {refusal}; use other --ranks, or zero-3")
            if refusal:
                left.append(refusal)
            else:
                chosen[strategy.name] = strategy
    if not chosen:
        raise ValueError(f"--strategies {names!r} names none: use all, or some of {', '.join(STRATEGIES)}")
    return list(chosen.values()), left


def _find(name: str) -> Strategy:
    if name not in STRATEGIES:
        near = difflib.get_close_matches(name, STRATEGIES, n=3) or list(STRATEGIES)
        raise ValueError(f"--strategies {name}: there is no such strategy; use {' or '.join(near)}")
    return STRATEGIES[name]
