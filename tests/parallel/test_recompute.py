"""Activation checkpointing: the same numbers as without, and less memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint as checkpoint_of_torch

from parallel.recompute import checkpoint, in_segments, matmuls

Run = Callable[["Stack", Tensor], Tensor]


class Block(nn.Module):
    """With everything that makes a second run go wrong: dropout, running statistics, None and tuples."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.BatchNorm1d(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        self.drop = nn.Dropout(0.3)

    def forward(self, pair: tuple[Tensor, Tensor | None], *, scale: float = 1.0) -> tuple[Tensor, Tensor | None]:
        value, mask = pair
        hidden = self.drop(torch.relu(self.up(self.norm(value)))) * scale
        return value + self.down(hidden if mask is None else hidden * mask), mask


class Stack(nn.Module):
    def __init__(self, depth: int = 4, width: int = 7) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))


def plain(stack: Stack, value: Tensor) -> Tensor:
    pair: Any = (value, None)
    for block in stack.blocks:
        pair = block(pair, scale=0.5)
    return pair[0]


def each(save: Any = None) -> Run:
    def run(stack: Stack, value: Tensor) -> Tensor:
        pair: Any = (value, None)
        for block in stack.blocks:
            pair = checkpoint(block, pair, scale=0.5, save=save)
        return pair[0]

    return run


def whole(stack: Stack, value: Tensor) -> Tensor:
    return checkpoint(each(), stack, value)


def twice(stack: Stack, value: Tensor) -> Tensor:
    return checkpoint(whole, stack, value)


def segments(number: int) -> Run:
    def run(stack: Stack, value: Tensor) -> Tensor:
        steps = [lambda pair, block=block: block(pair, scale=0.5) for block in stack.blocks]
        return in_segments(steps, number, (value, None))[0]

    return run


def trained(run: Run, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Outputs, gradients, statistics and the generator's next number after two steps of two backwards each."""
    stack = Stack().to(dtype)
    value = torch.arange(35, dtype=dtype).sin().reshape(5, 7).requires_grad_()
    torch.manual_seed(11)
    found = []
    for _ in range(2):
        result = run(stack, value)
        result.square().sum().backward(retain_graph=True)
        result.sum().backward()
        found.append(result.detach())
    assert value.grad is not None
    gradients = [parameter.grad for parameter in stack.parameters()]
    return [*found, value.grad, *gradients, *stack.buffers(), torch.rand(1)]


@pytest.mark.parametrize(
    "run", [each(), each(matmuls), whole, twice, segments(1), segments(2), segments(3), segments(4)]
)
def test_nothing_but_memory_changes(run: Run) -> None:
    """Bitwise: gradients of a graph that is used twice, statistics that count a batch once, random numbers."""
    for ours, reference in zip(trained(run), trained(plain), strict=True):
        assert torch.equal(ours, reference)


def test_gradients_are_those_of_torchs_own() -> None:
    def reference(stack: Stack, value: Tensor) -> Tensor:
        pair: Any = (value, None)
        for block in stack.blocks:
            block.norm.eval()  # torch's counts a batch twice
            pair = checkpoint_of_torch(block, pair, scale=0.5, use_reentrant=False)
        return pair[0]

    def ours(stack: Stack, value: Tensor) -> Tensor:
        for block in stack.blocks:
            block.norm.eval()
        return each()(stack, value)

    for one, other in zip(trained(ours), trained(reference), strict=True):
        assert torch.equal(one, other)


def test_autograd_grad_and_inputs_without_gradients() -> None:
    weight = torch.arange(6.0).reshape(2, 3).requires_grad_()
    data = torch.tensor([[1.0, -2.0]])
    result = checkpoint(lambda x, w: torch.tanh(x @ w), data, w=weight)
    (gradient,) = torch.autograd.grad(result.sum(), weight)
    expected = data.T @ (1 - torch.tanh(data @ weight.detach()).square())
    assert torch.allclose(gradient, expected)
    assert checkpoint(lambda: None) is None
    with torch.no_grad():
        assert not checkpoint(lambda w: w * 2, weight).requires_grad


def test_autocast_is_the_same_in_the_second_run() -> None:
    seen = []

    def product(x: Tensor, w: Tensor) -> Tensor:
        result = x @ w
        seen.append(result.dtype)
        return torch.sin(result)

    weight = torch.ones(3, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        result = checkpoint(product, torch.ones(2, 3), weight)
    result.float().sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]


def held(run: Run, depth: int, width: int) -> int:
    """Bytes that autograd holds between forward and backward, of storages that are not parameters."""
    stack, alive = Stack(depth, width), weakref.WeakValueDictionary[int, Any]()

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        alive[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run(stack, torch.ones(50, width, requires_grad=True))
    gc.collect()
    own = {parameter.untyped_storage().data_ptr() for parameter in stack.parameters()}
    total = sum(storage.nbytes() for key, storage in alive.items() if key not in own)
    assert result.requires_grad
    return total


def test_a_segment_keeps_its_input_alone() -> None:
    """Of each block its input, 50 × width floats; the last one's result is the caller's."""
    depth, width = 6, 64
    assert held(each(), depth, width) == depth * 50 * width * 4
    assert held(segments(2), depth, width) == 2 * 50 * width * 4
    assert held(whole, depth, width) == 50 * width * 4  # not the inputs of the segments inside


def test_matmuls_that_are_kept_do_not_run_again() -> None:
    ran = []

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            ran.append(operator.overloadpacket.__name__)
            return operator(*args, **(kwargs or {}))

    def products(save: Any) -> tuple[int, int]:
        """Matrix products of forward and backward."""
        stack = Stack()
        ran.clear()
        with Counting():  # type: ignore[no-untyped-call]
            result = each(save)(stack, torch.ones(5, 7, requires_grad=True))
            forward = sum(name in ("addmm", "mm") for name in ran)
            result.sum().backward()
        return forward, sum(name in ("addmm", "mm") for name in ran) - forward

    forward, backward = products(matmuls)
    assert (forward, backward) == (8, 16)  # two a block; each has two in its backward
    assert products(None) == (8, 16 + 4)  # the last of a block is left out: nothing of it is saved


def test_a_function_that_does_something_else_is_named() -> None:
    calls = []

    def fickle(value: Tensor) -> Tensor:
        calls.append(1)
        return (value if len(calls) == 1 else value[:1]).exp()

    result = checkpoint(fickle, torch.ones(3, requires_grad=True))
    with pytest.raises(
        RuntimeError, match=r"checkpoint\(fickle\): .*tensor 0 is \(1,\) of torch.float32, and was \(3,\)"
    ):
        result.sum().backward()
    calls.clear()
    result = checkpoint(lambda v: v.exp().sin() if not calls else v * 1, torch.ones(3, requires_grad=True))
    calls.append(1)
    with pytest.raises(RuntimeError, match="0 tensors instead of 2"):
        result.sum().backward()


def test_an_input_that_was_changed_meanwhile_is_noticed() -> None:
    value = torch.ones(3)
    weight = torch.ones(3, requires_grad=True)
    result = checkpoint(lambda v, w: (v * w).exp(), value, weight)
    value.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("number", [0, 5, -1])
def test_segments_that_make_no_sense_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"segments={number}: give 1 to 4"):
        segments(number)(Stack(), torch.ones(5, 7))


def test_a_module_that_runs_twice_in_a_segment_counts_its_batch_twice_as_without() -> None:
    statistics = []
    for wrapped in (False, True):
        block = Stack().blocks[0]
        value = torch.arange(35.0).reshape(5, 7)

        def both(value: Tensor, block: nn.Module = block) -> Tensor:
            return block((block((value, None))[0], None))[0]

        torch.manual_seed(0)
        (checkpoint(both, value) if wrapped else both(value)).sum().backward()
        statistics.append([buffer.clone() for buffer in block.buffers()])
    assert all(torch.equal(one, other) for one, other in zip(*statistics, strict=True))
    assert statistics[0][2] == 2


def test_inputs_need_no_gradient_of_their_own() -> None:
    """As the first layer of a model has it: data without gradient, parameters that the function brings along."""
    weight = torch.ones(3, requires_grad=True)
    checkpoint(lambda v: (v * weight).exp(), torch.arange(3.0)).sum().backward()
    assert weight.grad is not None
    assert torch.allclose(weight.grad, torch.arange(3.0) * torch.arange(3.0).exp())


def test_what_was_computed_again_goes_when_it_has_been_used() -> None:
    def living() -> int:
        gc.collect()
        return sum(type(found) is Tensor for found in gc.get_objects())

    weight = torch.ones(3, requires_grad=True)
    weight.grad = torch.zeros(3)
    result = checkpoint(lambda v: v.exp().sin().tanh(), weight)
    before = living()
    result.sum().backward(retain_graph=True)
    assert living() == before
