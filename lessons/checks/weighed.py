"""Formulas of memory held against this machine: the bytes of a small model's storages are counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..answer import Answer, describe, unwritten
from ..catalogue import Catalogue
from ..said import Said, Shown
from .measurement import Measurement, table

if TYPE_CHECKING:
    from parallel.model import GPT

STATES = (("fp32", "adam"), ("mixed", "adam"), ("fp32", "momentum"), ("mixed", "sgd"))


@dataclass(frozen=True)
class Weight:
    """name: of ``weighed.row``; bytes that the learner's functions foretell, and bytes that there are."""

    name: str
    predicted: float
    counted: int


@dataclass(frozen=True)
class Weighed(Measurement):
    """What the functions of the learner's file say of a model of ours."""

    layers: int = 4
    hidden: int = 128
    heads: int = 4
    vocabulary: int = 256
    sequence: int = 128
    batch: int = 4

    def shown(self, answer: Answer, say: Catalogue, ranks: tuple[int, ...] = ()) -> Iterator[Said | Shown]:
        """See :class:`Measurement`; it runs in this process, on no ranks."""
        yield Said("weighed.begins")
        try:
            rows = list(self._rows(answer))
        except Exception as error:
            yield Shown(Said("weighed.failed", {"error": describe(error)}))
            return
        head = [say(f"weighed.column.{name}") for name in ("what", "predicted", "counted", "ratio")]
        lines = [
            [say(f"weighed.row.{row.name}"), f"{row.predicted:,.0f}", f"{row.counted:,}", _ratio(row)] for row in rows
        ]
        shape = {"layers": self.layers, "hidden": self.hidden, "batch": self.batch, "sequence": self.sequence}
        yield Shown(
            Said("weighed.model", shape),
            table([head, *lines]),
            (Said("weighed.states"), *[Said("weighed.masks")] * (rows[-1].name == "layer")),
            {"rows": [asdict(row) for row in rows]},
        )

    def _rows(self, answer: Answer) -> Iterator[Weight]:
        count = answer.module.gpt_parameters(self.layers, self.hidden, self.vocabulary, self.sequence)
        for precision, optimizer in STATES:
            held = answer.module.bytes_at_rest(count, precision, optimizer)
            yield Weight(f"{precision}_{optimizer}", float(held), self._states(precision, optimizer))
        if unwritten(answer.source, ["activation_bytes"]) or not hasattr(answer.module, "activation_bytes"):
            return
        kept = answer.module.activation_bytes(self.batch, self.sequence, self.hidden, self.heads, "selective")
        yield Weight("layer", float(kept), self._activations(self.layers) - self._activations(self.layers - 1))

    def _model(self, layers: int) -> GPT:
        import torch

        from parallel.model import GPT, Config

        torch.manual_seed(0)
        return GPT(Config(layers, self.hidden, self.heads, self.vocabulary, self.sequence))

    def _states(self, precision: str, optimizer: str) -> int:
        """Bytes of parameters, gradients and optimizer after a step and one more backward."""
        import torch

        from parallel.memory import Ledger
        from parallel.precision import MixedPrecision

        model, tokens = self._model(self.layers), torch.zeros(1, self.sequence, dtype=torch.int64)

        def make(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
            if optimizer == "adam":
                return torch.optim.AdamW(parameters)
            return torch.optim.SGD(parameters, lr=0.1, momentum=0.9 * (optimizer == "momentum"))

        stepper = make(list(model.parameters())) if precision == "fp32" else MixedPrecision(model, make, "bf16")
        model(tokens).sum().backward()
        stepper.step()
        stepper.zero_grad()
        model(tokens).sum().backward()
        now = Ledger(model, stepper).now()
        return now["parameters"] + now["gradients"] + now["optimizer"]

    def _activations(self, layers: int) -> int:
        """Bytes that a forward of so many layers leaves for the backward, in 16 bits."""
        import torch

        from parallel.memory import Ledger

        model = self._model(layers).to(torch.bfloat16)
        tokens = torch.zeros(self.batch, self.sequence, dtype=torch.int64)
        with Ledger(model) as ledger:
            logits = model(tokens)
            kept = ledger.now()["activations"]
        del logits
        return kept


def _ratio(row: Weight) -> str:
    return f"{row.predicted / row.counted:.4f}"
