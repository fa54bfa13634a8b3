"""The differentiable collectives: forward values, and backward values as one process has them."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from parallel.tensor import functional


def mine(rank, *shape):
    """Distinct by rank and position; places along dimension 1."""
    count = torch.Size(shape).numel()
    return torch.arange(count, dtype=torch.float64).view(shape) + 1000 * rank


def forward_and_backward(name, options):
    """Output, and input gradient for an output gradient that is distinct by rank and position."""
    size, rank = dist.get_world_size(), dist.get_rank()
    x = mine(rank, 2, size * 3, 2)
    x = x.transpose(0, 2).contiguous().transpose(0, 2).requires_grad_()  # not contiguous
    kept = x.detach().clone()
    y = getattr(functional, name)(x, **options)
    gradient = 7 + 10 * mine(rank, *y.shape)
    (found,) = torch.autograd.grad(y, x, gradient)
    assert torch.equal(x, kept)  # nobody has written the input
    return y.detach(), found


def expected(name, size):
    """The same, by rank, from all ranks' inputs."""
    inputs = [mine(r, 2, size * 3, 2) for r in range(size)]

    def gradients(*shape):
        return [7 + 10 * mine(r, *shape) for r in range(size)]

    if name == "copy":
        return [(x, sum(gradients(2, size * 3, 2))) for x in inputs]
    if name == "reduce":
        return [(sum(inputs), g) for g in gradients(2, size * 3, 2)]
    if name in ("gather", "all_gather"):
        out, back = torch.cat(inputs, 1), gradients(2, size * size * 3, 2)
        total = sum(back)
        return [(out, (back[r] if name == "gather" else total).chunk(size, 1)[r]) for r in range(size)]
    back = gradients(2, 3, 2)
    total = sum(inputs)
    return [((inputs[r] if name == "scatter" else total).chunk(size, 1)[r], torch.cat(back, 1)) for r in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["copy", "reduce", "gather", "scatter", "all_gather", "reduce_scatter"])
def test_forward_and_its_dual(ranks, size, name):
    options = {} if name in ("copy", "reduce") else {"dim": 1}
    results = ranks(size, forward_and_backward, name, options)
    for (out, gradient), (wanted, wanted_gradient) in zip(results, expected(name, size), strict=True):
        assert torch.equal(out, wanted)
        assert torch.equal(gradient, wanted_gradient)


def used_again():
    """y = reduce(x); z = x + y: both are what they say; and a gradient that is one number with stride 0."""
    x = mine(dist.get_rank(), 3).requires_grad_()
    y = functional.reduce(x)
    z = x + y
    (gradient,) = torch.autograd.grad(z.sum(), x, retain_graph=True)
    (copied,) = torch.autograd.grad(functional.copy(x).sum(), x)
    return z.detach(), gradient, copied


def test_a_tensor_is_used_again_after_the_collective(ranks):
    total = mine(0, 3) + mine(1, 3)
    for rank, (z, gradient, copied) in enumerate(ranks(2, used_again)):
        assert torch.equal(z, mine(rank, 3) + total)
        assert torch.equal(gradient, torch.full((3,), 2.0, dtype=torch.float64))  # through x, and through y
        assert torch.equal(copied, torch.full((3,), 2.0, dtype=torch.float64))  # of both ranks


def without_copy(forgotten):
    """Two layers, the first by columns, the second by rows: the input gradient."""
    torch.manual_seed(0)
    rank, x = dist.get_rank(), torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    up, down = torch.randn(6, 4, dtype=torch.float64), torch.randn(4, 6, dtype=torch.float64)
    torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(x, up)), down).square().sum().backward()
    whole, x.grad = x.grad, None
    inner = x if forgotten else functional.copy(x)
    hidden = torch.tanh(torch.nn.functional.linear(inner, up.chunk(2)[rank]))
    y = functional.reduce(torch.nn.functional.linear(hidden, down.chunk(2, 1)[rank]))
    y.square().sum().backward()
    return torch.allclose(x.grad, whole, rtol=1e-12)


def test_a_forgotten_copy_leaves_input_gradients_partial(ranks):
    assert ranks(2, without_copy, False) == [True, True]
    assert ranks(2, without_copy, True) == [False, False]


def twice():
    """The second derivative of Σ (all_gather(x)³) on one rank: Σ over ranks of 6x times what it is multiplied with."""
    x = mine(dist.get_rank(), 4).requires_grad_()
    (first,) = torch.autograd.grad(functional.all_gather(x, 0).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return torch.equal(second, 6 * x.detach() * dist.get_world_size())


def test_backwards_can_be_differentiated(ranks):
    assert ranks(3, twice) == [True] * 3


def uneven(name):
    with pytest.raises(ValueError, match="x has 5 places along dim=0, which 2 ranks do not divide: pad it"):
        getattr(functional, name)(torch.zeros(5), 0)


@pytest.mark.parametrize("name", ["scatter", "reduce_scatter"])
def test_what_does_not_divide_is_refused(ranks, name):
    ranks(2, uneven, name)
