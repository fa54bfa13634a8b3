"""What the tests of ZeRO share: models of every kind, training in one process and on ranks, and comparing the two."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel.recompute import checkpoint
from parallel.zero import Zero

STAGES = [1, 2, 3]
WIDTH, ROWS = 6, 2  # features, and rows of the batch on each rank


class Layer(nn.Module):
    """63 parameters: no number of ranks up to 5 but 1 and 3 divides it."""

    def __init__(self):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gain, self.shift = nn.Parameter(torch.randn(())), nn.Parameter(torch.randn(2))

    def forward(self, x):
        return x + self.gain * torch.tanh(self.inner(self.norm(x))) + self.shift.sum()


class Stack(nn.Module):
    """Layers in a list, and parameters that belong to none, one of them used at both ends."""

    def __init__(self, layers=3):
        super().__init__()
        self.entry, self.exit = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.exit.weight = self.entry.weight
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, x):
        x = self.entry(x)
        for layer in self.layers:
            x = layer(x)
        return self.exit(x)


class Twice(Stack):
    """Layers are called A, B, C, A, and listed in another order; the last has a parameter that nobody uses."""

    def __init__(self):
        super().__init__()
        self.layers[2].never = nn.Parameter(torch.randn(5))

    def forward(self, x):
        a, b, c = self.layers[1], self.layers[0], self.layers[2]
        return self.exit(a(c(b(a(self.entry(x))))))


class Frozen(Stack):
    """The middle layer is frozen, and of the last what its backward needs after all its gradients have come."""

    def __init__(self):
        super().__init__()
        self.layers[1].requires_grad_(False)
        self.layers[2].norm.requires_grad_(False)


class Shared(nn.Module):
    """The same layer is listed twice, another shares its weight, and there is a list in a list."""

    def __init__(self):
        super().__init__()
        first, second = Layer(), Layer()
        second.inner.weight = first.inner.weight
        self.layers = nn.ModuleList([first, Layer(), first, nn.ModuleList([second, Layer()])])

    def forward(self, x):
        *simple, last = self.layers
        for layer in [*simple, *last]:
            x = layer(x)
        return x


class Flat(nn.Module):
    """No list: the children are the layers, and the module has a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.scale * self.b(torch.relu_(self.a(x)))


class Alone(nn.Module):
    """No children at all: 57 parameters."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, 8))
        self.bias = nn.Parameter(torch.randn(9))

    def forward(self, x):
        return (x @ self.weight).sum(-1, keepdim=True) * self.bias.sum()


class Again(Layer):
    """Its inner part runs twice, each time in a reentrant checkpoint: those gradients come twice, before the others."""

    def forward(self, x):
        for _ in range(2):
            x = torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=True)
        return super().forward(x)


class Recomputed(Stack):
    """Around a layer and inside of one, by this project's way and torch's own two."""

    def __init__(self):
        super().__init__()
        self.layers.append(Again())

    def forward(self, x):
        x = checkpoint(self.layers[0], self.entry(x))
        x = torch.utils.checkpoint.checkpoint(self.layers[1], x, use_reentrant=False)
        for _ in range(2):  # reentrant: the gradients of the layer come twice in one backward pass
            x = torch.utils.checkpoint.checkpoint(self.layers[2], x, use_reentrant=True)
        return self.exit(self.layers[3](x))


MODELS = [Stack, Twice, Frozen, Shared, Flat, Alone, Recomputed]


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01)


def built(model, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return model().to(dtype)


def on_rank(model, dtype=torch.float64):
    """As a user would: every rank draws other numbers; the first rank's are those of ``built``."""
    return built(model, dtype, seed=dist.get_rank())


def batch(step, rows, dtype=torch.float64):
    torch.manual_seed(1000 + step)
    return torch.randn(rows, WIDTH, dtype=dtype), torch.randn(rows, 1, dtype=dtype)


def mine(tensor, rows=ROWS):
    return tensor[dist.get_rank() * rows : (dist.get_rank() + 1) * rows]


def parameters_of(zero):
    with zero.whole() as module:
        return {name: p.detach().clone() for name, p in module.named_parameters()}


def train_plain(model, world, optimizer, steps=5, dtype=torch.float64):
    """Outputs, input gradients, gradients and parameters of every step, in one process."""
    module, history = built(model, dtype), []
    optimizer = optimizer([p for p in module.parameters() if p.requires_grad])
    for step in range(steps):
        x, y = batch(step, ROWS * world, dtype)
        x.requires_grad_()
        out = module(x)
        optimizer.zero_grad()
        F.mse_loss(out, y.expand_as(out)).backward()
        gradients = {name: p.grad for name, p in module.named_parameters()}
        optimizer.step()
        history.append((out.detach(), x.grad, gradients, {n: p.detach().clone() for n, p in module.named_parameters()}))
    return history


def train_zero(model, optimizer, steps=5, dtype=torch.float64, **options):
    zero, history = Zero(on_rank(model, dtype), optimizer, **options), []
    for step in range(steps):
        x, y = (mine(t) for t in batch(step, ROWS * dist.get_world_size(), dtype))
        x.requires_grad_()
        out = zero(x)
        zero.zero_grad()
        F.mse_loss(out, y.expand_as(out)).backward()
        gradients = zero.gradients()
        assert zero.step() is True
        history.append((out.detach(), x.grad, gradients, parameters_of(zero)))
    return history


def same(got, wanted, tolerance=1e-9):
    assert got.keys() <= wanted.keys()
    for name, value in wanted.items():
        other = got.get(name)
        if value is None or other is None:
            assert value is other, name
        else:
            torch.testing.assert_close(other, value, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def compare(histories, plain, tolerance=1e-9):
    """Rank by rank; the loss is a mean, so a rank's input gradient is world times that of the whole batch."""
    world = len(histories)
    for rank, history in enumerate(histories):
        rows = slice(rank * ROWS, (rank + 1) * ROWS)
        for (out, dx, gradients, after), (all_out, all_dx, all_gradients, all_after) in zip(
            history, plain, strict=True
        ):
            torch.testing.assert_close(out, all_out[rows], rtol=tolerance, atol=tolerance)
            torch.testing.assert_close(dx / world, all_dx[rows], rtol=tolerance, atol=tolerance)
            same(gradients, all_gradients, tolerance)
            same(after, all_after, tolerance)
