"""A formula of steps held against the planner's step, number of GPUs by number of GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..answer import Answer, describe
from ..catalogue import Catalogue
from ..said import Said, Shown
from .measurement import Measurement, table

if TYPE_CHECKING:
    from sim.planner.step import StepTime


@dataclass(frozen=True)
class Row:
    """Seconds of a step on so many GPUs: by the learner's ``strong_time``, and by the planner."""

    gpus: int
    predicted: float
    planned: float


@dataclass(frozen=True)
class Planned(Measurement):
    """What ``strong_time`` of the learner's file says of data parallel training on a cluster of the planner's.

    gpus: the numbers of them; batch: samples of the whole step, one microbatch a GPU.
    """

    model: str = "gpt2-xl"
    chip: str = "h100"
    gpus: tuple[int, ...] = (8, 64, 256, 512, 1024, 2048, 4096)
    batch: int = 4096

    def shown(self, answer: Answer, say: Catalogue, ranks: tuple[int, ...] = ()) -> Iterator[Said | Shown]:
        """See :class:`Measurement`; nothing runs, the planner computes."""
        yield Said("planned.begins")
        try:
            alpha, beta, nbytes = self.links()
            compute, least = self.step(1).compute, self.step(self.gpus[-1])
            rows = [
                Row(
                    count,
                    float(answer.module.strong_time(count, compute, nbytes, alpha, beta)),
                    self.step(count).time_s,
                )
                for count in self.gpus
            ]
        except Exception as error:
            yield Shown(Said("planned.failed", {"error": describe(error)}))
            return
        from sim.units import show_gigabytes, show_time

        head = [say(f"planned.column.{name}") for name in ("gpus", "predicted", "planned", "ratio")]
        lines = [
            [f"{row.gpus:,}", show_time(row.predicted), show_time(row.planned), f"{row.predicted / row.planned:.2f}"]
            for row in rows
        ]
        fields = {
            "model": self.model,
            "chip": self.chip,
            "batch": self.batch,
            "alpha": show_time(alpha),
            "bandwidth": f"{1 / beta / 1e9:.0f} GB/s",
            "size": show_gigabytes(nbytes),
        }
        numbers = {"alpha": alpha, "beta": beta, "rows": [asdict(row) for row in rows]}
        why = Said("planned.why", {"optimizer": show_time(least.optimizer)})
        yield Shown(Said("planned.table", fields), table([head, *lines]), (why,), numbers)

    def links(self) -> tuple[float, float, float]:
        """α and β of a ring through all GPUs, and the bytes of the gradients."""
        from sim.chip import CHIPS
        from sim.planner import links, parameters
        from sim.planner.hardware import hardware_of
        from sim.planner.models import find_model
        from sim.planner.precision import PRECISIONS

        hardware = hardware_of(CHIPS[self.chip])
        nbytes = parameters.total(find_model(self.model)) * PRECISIONS["bf16"].state.gradients
        return hardware.inside, 1 / links.rate(hardware, self.gpus[-1], 1), nbytes

    def step(self, gpus: int) -> StepTime:
        """The planner's step, in seconds."""
        from sim.chip import CHIPS
        from sim.planner.constants import software_of
        from sim.planner.hardware import hardware_of
        from sim.planner.layout import Layout
        from sim.planner.models import find_model
        from sim.planner.step import step_time

        layout = Layout(dp=gpus, microbatch=self.batch // gpus, global_batch=self.batch)
        chip = CHIPS[self.chip]
        return step_time(find_model(self.model), layout, hardware_of(chip), software_of(chip=self.chip))
