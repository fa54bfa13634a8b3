"""Few bits: within the stated error, in the stated bytes, and with a loss in accuracy that is measured."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import AdamW

from parallel.memory import Ledger
from parallel.quantize import Adam8bit, Int8Linear, QuantizedLinear, all_gather, all_reduce, quantize, quantize_
from parallel.quantize.adam import decode, encode
from parallel.quantize.linear import _int_product
from tests.conftest import Ranks


def matrix(rows: int, columns: int, seed: int = 0) -> Tensor:
    """Rows of very different sizes, with zeros and an all-zero row."""
    torch.manual_seed(seed)
    found = torch.randn(rows, columns) * torch.logspace(-6, 3, rows)[:, None]
    found[rows // 2] = 0
    found[:, 0] = 0
    return found


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    ("rows", "columns", "block"), [(5, 256, 64), (7, 130, 128), (3, 37, None), (1, 1, 128), (4, 9, 2)]
)
def test_every_element_is_within_half_a_step(bits: int, rows: int, columns: int, block: int | None) -> None:
    given = matrix(rows, columns)
    found = quantize(given, bits, block)
    width = min(block or columns, columns)
    parts = given.split(width, dim=1)
    bound = torch.cat([p.abs().amax(1, keepdim=True).expand_as(p) for p in parts], 1) / {8: 254, 4: 14}[bits]
    assert ((found.dequantize() - given).abs() <= bound * (1 + 1e-5)).all()
    assert found.nbytes == rows * (columns if bits == 8 else -(-columns // 2)) + 4 * rows * len(parts)
    largest = given.abs().argmax(dim=1)
    assert torch.allclose(found.dequantize()[range(rows), largest], given[range(rows), largest])


def test_the_example_of_the_drawing() -> None:
    found = quantize(torch.tensor([[0.50, -1.27, 0.02, 0.64]]))
    assert found.codes.tolist() == [[50, -127, 2, 64]]
    packed = quantize(torch.tensor([[7.0, -7.0, 1.0]]), bits=4)
    assert packed.codes.tolist() == [[15 | 1 << 4, 9 | 8 << 4]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: quantize(torch.ones(2, 2), bits=5), "bits=5: give 8 or 4"),
        (lambda: quantize(torch.ones(2, 2), block=0), "block=0"),
        (lambda: quantize(torch.ones(2)), r"shape \(2,\)"),
        (lambda: quantize(torch.tensor([[1.0, float("nan")]])), "NaN"),
        (lambda: quantize_(nn.Sequential(nn.ReLU())), "nothing to quantize"),
        (lambda: quantize_(nn.Linear(2, 2)), "nothing to quantize"),
        (lambda: quantize_(nn.Sequential(nn.Linear(2, 2)), bits=4, activations=True), "give bits=8"),
        (lambda: Adam8bit([torch.ones(1)], lr=-1.0), "lr=-1.0"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_integer_products_are_exact() -> None:
    torch.manual_seed(1)
    a, b = (torch.randint(-127, 128, shape, dtype=torch.int8) for shape in ((5, 77), (3, 77)))
    assert torch.equal(_int_product(a, b), a.int() @ b.int().T)


def test_int8_products_are_within_the_error_of_both_factors() -> None:
    """|x̂ŵ − xw| ≤ Σ (|x| ew + |w| ex + ex ew), with e half a step of each row."""
    torch.manual_seed(2)
    linear, x = nn.Linear(50, 20, dtype=torch.float64), torch.randn(4, 3, 50, dtype=torch.float64)
    found = Int8Linear(linear)(x)
    ex, ew = x.abs().amax(-1, keepdim=True) / 254, linear.weight.abs().amax(1) / 254
    bound = x.abs().sum(-1, keepdim=True) * ew + ex * linear.weight.abs().sum(1) + 50 * ex * ew
    error = (found - linear(x)).abs()
    assert (error <= bound + 1e-5).all()
    assert (error > 0).any()


def test_layers_are_replaced_except_where_the_weight_is_somebody_elses() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 8)
            self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8, bias=False))
            self.head = nn.Linear(8, 10, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(self.embedding(x)))

    torch.manual_seed(0)
    model = Tied()
    reference = copy.deepcopy(model)
    assert quantize_(model, bits=8, block=4) is model
    assert [type(part) for part in (model.body[0], model.body[2], model.head)] == [
        QuantizedLinear,
        QuantizedLinear,
        nn.Linear,
    ]
    assert model.head.weight is model.embedding.weight
    data = torch.arange(10)
    assert torch.allclose(model(data), reference(data), atol=0.02)
    assert not torch.equal(model(data), reference(data))
    again = quantize_(copy.deepcopy(reference), bits=8, block=4)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(data), model(data))
    assert Ledger(model).now()["buffers"] == 2 * 8 * 16 * (1 + 4 / 4)


def test_logarithmic_codes_are_off_by_the_stated_share() -> None:
    torch.manual_seed(3)
    values = torch.randn(1000) * torch.logspace(0, 3, 1000)
    for signed, share, lowest in ((True, 0.0443, 2**-15.75), (False, 0.0219, 2**-15.875)):
        given = values if signed else values.abs()
        codes, largest = encode(given, 64, signed)
        back = decode(codes, largest, 64)
        floor = largest.repeat_interleave(64)[:1000] * lowest
        kept = given.abs() >= floor
        assert ((back - given).abs() <= share * given.abs())[kept].all()
        assert (back.abs()[~kept] <= 1.05 * floor[~kept]).all()
        assert codes.element_size() == 1
    assert decode(*encode(torch.zeros(5), 2, True), 2).tolist() == [0] * 5
    assert decode(*encode(torch.tensor([1.0, float("nan")]), 2, True), 2).isnan().any()


def teacher_loss(optimizer_of: Any, steps: int = 150) -> tuple[float, nn.Module, Any]:
    """The loss on a regression that a small network can learn, after so many steps."""
    torch.manual_seed(4)
    teacher, model = (nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 8)) for _ in range(2))
    optimizer = optimizer_of(model.parameters())
    data = torch.randn(256, 32)
    wanted = teacher(data).detach()
    loss = torch.tensor(0.0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data), wanted)
        loss.backward()
        optimizer.step()
    return loss.item(), model, optimizer


def test_adam_in_8_bits_learns_as_well_and_holds_a_quarter() -> None:
    exact, _, wide = teacher_loss(lambda p: AdamW(p, lr=3e-3))
    rounded, model, narrow = teacher_loss(lambda p: Adam8bit(p, lr=3e-3, least=1))
    start, _, _ = teacher_loss(lambda p: AdamW(p, lr=0.0), 1)
    assert rounded < 1.15 * exact < 0.2 * start
    held = sum(value.nbytes for state in narrow.state.values() for value in state.values() if torch.is_tensor(value))
    elements = [parameter.numel() for parameter in model.parameters()]
    assert held == 2 * sum(n + 4 * -(-n // 256) for n in elements)
    assert sum(v.nbytes for state in wide.state.values() for v in state.values() if v.dim()) == 8 * sum(elements)


def test_below_the_least_size_it_is_adam() -> None:
    exact = teacher_loss(lambda p: AdamW(p, lr=3e-3), 20)[1]
    same = teacher_loss(lambda p: Adam8bit(p, lr=3e-3, least=1 << 30), 20)[1]
    for one, other in zip(exact.parameters(), same.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bits", [8, 4])
def test_weights_in_few_bits_cost_little_accuracy(bits: int) -> None:
    _, model, _ = teacher_loss(lambda p: AdamW(p, lr=3e-3), 150)
    torch.manual_seed(9)
    data = torch.randn(500, 32)
    wanted = model(data).detach()
    rounded = quantize_(copy.deepcopy(model), bits=bits, block=16)(data)
    share = ((rounded - wanted).norm() / wanted.norm()).item()
    assert 0 < share < {8: 0.01, 4: 0.15}[bits]


def exchanged(elements: int) -> tuple[Tensor, list[Tensor], int]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs = [torch.arange(elements).float().sin() * (1 + r) + r for r in range(ranks)]
    total = inputs[rank].clone()
    all_reduce(total, block=16)
    return total, all_gather(inputs[rank], block=16), ranks


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("elements", [1, 37, 400])
def test_sums_over_ranks_are_within_the_stated_error(ranks: Ranks, size: int, elements: int) -> None:
    inputs = [torch.arange(elements).float().sin() * (1 + r) + r for r in range(size)]
    exact = torch.stack(inputs).sum(0)
    found = ranks(size, exchanged, elements)
    bound = (sum(one.abs().max() for one in inputs) + exact.abs().max() * 1.1) / 254
    for total, gathered, _ in found:
        assert torch.equal(total, found[0][0])
        assert ((total - exact).abs() <= bound * (size > 1)).all()
        for one, given in zip(gathered, inputs, strict=True):
            assert ((one - given).abs() <= given.abs().max() / 254 * 1.0001).all()
