"""What a training run is to do, checked before any process starts. No torch.

ranks = dp · pp · tp        batch rows of the whole run ──▶ dp shares ──▶ microbatches each
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from ..pipeline.schedules import find
from ..pipeline.stages import Stages

if TYPE_CHECKING:
    from ..llama import LlamaConfig
    from ..model import Config

PRECISIONS = ("fp32", "fp64", "bf16", "fp16")
RECOMPUTES = ("none", "full")
CLIPS = ("sync", "postvalidate")
OFFLOADS = ("activations", "optimizer")


@dataclass(frozen=True, slots=True)
class Recipe:
    """One run.

    model: one of ``models.MODELS``. dp, pp, tp: ranks along each axis. sp: sequence parallelism beside tp. zero: stage,
    0 without. schedule: of the pipeline; vpp: chunks a rank, where it leaves that open. microbatches: of each replica.
    precision: see ``PRECISIONS``; the rounded ones have fp32 masters. recompute: "full" keeps a block's input only.
    offload: what goes to a slower tier, of ``OFFLOADS``. batch: rows of all ranks together; sequence: bytes a row.
    lr: after ``warmup`` steps of a straight rise. max_norm: gradients are clipped to it; clip: when, see
    ``pipeline.stepper``. text: a file, None is Python's standard library.

    One seed gives the same first weights and the same data on every mesh.
    """

    model: str = "small"
    dp: int = 1
    pp: int = 1
    tp: int = 1
    sp: bool = False
    zero: int = 0
    schedule: str = "1f1b"
    vpp: int | None = None
    microbatches: int = 1
    precision: str = "fp32"
    recompute: str = "none"
    offload: tuple[str, ...] = ()
    batch: int = 8
    sequence: int = 64
    lr: float = 1e-3
    warmup: int = 0
    max_norm: float = 1.0
    clip: str = "sync"
    seed: int = 0
    text: str | None = None

    @property
    def ranks(self) -> int:
        return self.dp * self.pp * self.tp

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0: a function of the step, so a resumed run needs no other."""
        return self.lr * min(1.0, (step + 1) / (self.warmup + 1))

    def check(self, config: Config | LlamaConfig) -> None:
        """Refuse what cannot work.

        Raises:
            ValueError: naming the argument, its value and what would do.
        """
        for name in ("dp", "pp", "tp", "microbatches", "batch", "sequence"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} {getattr(self, name)}: use at least 1")
        self._check_choices()
        if self.batch < self.dp * self.microbatches:
            raise ValueError(
                f"--batch {self.batch}: {self.dp} data-parallel ranks with {self.microbatches} microbatches each need "
                f"a row each; use --batch {self.dp * self.microbatches}, or fewer microbatches"
            )
        if self.sp and self.tp == 1:
            raise ValueError("--sp with --tp 1: there are no tensor-parallel ranks to share a sequence; leave --sp out")
        self._check_pipeline(config)
        if self.sequence > config.positions:
            raise ValueError(f"--sequence {self.sequence}: the model {self.model} has places for {config.positions}")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"--lr {self.lr:g}: use a number above 0")
        if self.warmup < 0:
            raise ValueError(f"--warmup {self.warmup}: use a number of steps, 0 for none")
        if not self.max_norm > 0:
            raise ValueError(f"--max-norm {self.max_norm:g}: use a number above 0; inf does not clip")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"--seed {self.seed}: use a number from 0 to 2**63 - 1")

    def _check_pipeline(self, config: Config | LlamaConfig) -> None:
        schedule = find(self.schedule)
        if self.clip == "postvalidate" and (self.pp == 1 or self.zero or self.precision in ("bf16", "fp16")):
            raise ValueError(
                "--clip postvalidate: a step is taken back where a pipeline's ranks update whole parameters of their "
                "own; use --clip sync, or --pp above 1 with fp32 and without --zero"
            )
        if self.pp == 1:
            return
        stages = Stages(schedule, self.pp, self.vpp).count
        if stages > config.layers:
            raise ValueError(
                f"--pp {self.pp} with --schedule {self.schedule} is {stages} stages, but {self.model} has "
                f"{config.layers} layers: use fewer stages, or a deeper model"
            )
        if self.zero > 1:
            raise ValueError(
                f"--zero {self.zero} beside --pp {self.pp}: it would send gradients, and from 3 on parameters, once a "
                "microbatch; use --zero 1"
            )

    def _check_choices(self) -> None:
        if self.zero not in range(4):
            raise ValueError(f"--zero {self.zero}: use 0, 1, 2 or 3")
        chosen = [
            ("precision", self.precision, PRECISIONS),
            ("recompute", self.recompute, RECOMPUTES),
            ("clip", self.clip, CLIPS),
        ]
        for name, value, choices in [*chosen, *(("offload", each, OFFLOADS) for each in self.offload)]:
            if value not in choices:
                near = difflib.get_close_matches(value, choices, 1)
                raise ValueError(f"--{name} {value}: use {near[0] if near else ' or '.join(choices)}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"offload": list(self.offload)}

    def differences(self, other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Where another recipe, from JSON, differs: its value and this one's, by field."""
        mine = self.to_json()
        return {f.name: (other.get(f.name), mine[f.name]) for f in fields(self) if other.get(f.name) != mine[f.name]}
