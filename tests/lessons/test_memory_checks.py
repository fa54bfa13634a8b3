"""What lessons 13 to 16 are held against is right: beside the library, and with mistakes that can be told apart."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lessons.catalogue import Catalogue
from lessons.checks.experiments.memory import MEMORY
from lessons.checks.experiments.precision import BEYOND, LARGE, SMALL, Batch, data, step
from lessons.checks.experiments.quantization import REDUCE_SCATTER
from lessons.checks.trial import Trial
from lessons.course import __file__ as folder
from lessons.course import __name__ as course
from lessons.judge import judge
from lessons.manifest import lesson_numbered
from lessons.said import Finding, Passed, Said
from parallel.precision import MixedPrecision, Precision

EVERY = pytest.mark.parametrize("name", MEMORY)


@EVERY
@pytest.mark.parametrize("size", [2, 3])
def test_no_two_mistakes_look_alike(name: str, size: int) -> None:
    experiment = MEMORY[name]
    ways = {"right": experiment.expected, **experiment.mistakes}
    came = {
        way: [list(outcomes(example, size)) for example in experiment.examples(size)] for way, outcomes in ways.items()
    }
    alike = [pair for pair in itertools.combinations(ways, 2) if experiment.same(came[pair[0]], came[pair[1]])]
    assert alike == []


@EVERY
def test_every_mistake_is_said(name: str) -> None:
    say = Catalogue()
    assert all(f".{name}." in mistake and say(mistake) for mistake in MEMORY[name].mistakes)


class Layers(nn.Module):
    """The layers of all ranks in one process."""

    def __init__(self, masters: list[Tensor], factors: list[Tensor]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(masters)
        self.factors = factors

    def forward(self) -> tuple[Tensor, ...]:
        return tuple(weight * factor for weight, factor in zip(self.weights, self.factors, strict=True))


@pytest.mark.parametrize("batch", [SMALL, LARGE, BEYOND])
@pytest.mark.parametrize("size", [1, 3])
def test_a_mixed_step_is_the_librarys(batch: Batch, size: int) -> None:
    ranks = [data(batch, rank, size) for rank in range(size)]
    model = Layers(
        [m.clone() for _, _, masters in ranks for m in masters], [f for loss, _, _ in ranks for f in loss.factors]
    )
    mixed = MixedPrecision(
        model, lambda masters: torch.optim.SGD(masters, batch.lr), Precision("fp16", scale=batch.scale)
    )
    loss = torch.stack([output.sum() for output in model()]).sum() * 2.0**batch.tiny
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(mixed.parameters(), batch.max_norm)
    stepped = mixed.step()
    outcomes: list[Any] = step(batch, size)
    assert [came["stepped"] for came in outcomes] == [stepped] * size
    torch.testing.assert_close(
        [m for came in outcomes for m in came["masters"]], [m.detach() for m in mixed.parameters()]
    )
    torch.testing.assert_close([w for came in outcomes for w in came["weights"]], [w.detach() for w in model.weights])


def test_the_formula_is_what_was_measured() -> None:
    from importlib import import_module

    found = import_module(f"{course}.14_recompute.facts").segments().curves
    assert found["measured"] == found["formula"]


@pytest.mark.parametrize("size", [2, 4])
def test_a_compressed_sum_is_off_by_its_roundings_only(size: int) -> None:
    for example in REDUCE_SCATTER.examples(size):
        given = [REDUCE_SCATTER.arguments(example, rank, size) for rank in range(size)]
        right = torch.stack([gradient + residual for gradient, residual, _ in given]).sum(0)
        bound = sum(float((gradient + residual).abs().max()) for gradient, residual, _ in given) / 254
        outcomes: list[Any] = list(REDUCE_SCATTER.expected(example, size))
        parts = torch.stack([came["part"] for came in outcomes])
        assert float((parts - right).abs().max()) <= bound * (1 + 1e-5)
        lost = torch.stack([came["residual"] for came in outcomes]).sum(0)
        torch.testing.assert_close(parts + lost, right)


# A function that is checked in one process is told nothing of ranks.


@pytest.mark.parametrize("number", [14, 15, 16])
def test_one_process_is_not_called_real_ranks(number: int) -> None:
    lesson, say = lesson_numbered(number), Catalogue()
    single = {check.function for check in lesson.checks if isinstance(check, Trial) and check.ranks == (1,)}
    assert single
    events = list(judge(lesson, Path(folder).parent / lesson.folder / "solution.py", say))
    begun = [
        say.say(one) for one in events if isinstance(one, Said) and one.fields.get("functions") in map(list, single)
    ]
    passed = [say.say(one.sentence) for one in events if isinstance(one, Passed) and one.function in single]
    assert len(passed) == len(single)
    assert not [sentence for sentence in begun + passed if "rank" in sentence or "real" in sentence]


ODD = {
    "values.none": "return print()",
    "process.all_raised": "raise ValueError('no')",
    "process.exited": "__import__('os')._exit(3)",
    "trial.shape": "return torch.zeros(1)",
    "trial.dtype": "return torch.zeros(codes.shape, dtype=torch.float64)",
    "trial.kind": "return 'codes'",
    "trial.nan": "return codes * float('nan')",
    "trial.value": "return codes * 3.1416",
}


@pytest.mark.parametrize("sentence", ODD)
def test_what_is_wrong_in_one_process_names_no_rank(sentence: str, tmp_path: Path) -> None:
    path, say = tmp_path / "answer.py", Catalogue()
    path.write_text(f"import torch\n\n\ndef dequantize(codes, scales, block):\n    {ODD[sentence]}\n")
    events = judge(lesson_numbered(16), path, say)
    finding = next(one for one in events if isinstance(one, Finding) and one.function == "dequantize")
    assert isinstance(finding.sentence, Said)
    assert finding.sentence.id == f"alone.{sentence}"
    assert "rank" not in say.say(finding.sentence)
