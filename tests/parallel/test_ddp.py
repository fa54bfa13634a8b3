"""Training with DDP on real ranks, against one process with the whole batch, and against torch's own."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import collectives
from collectives.launch import RankFailed
from parallel import DistributedDataParallel
from parallel.loss import token_weight
from parallel.model import GPT, NO_TARGET, cross_entropy
from tests.parallel.averaged import ODD, here, largest

WORLDS = [1, 2, 3, 4, 5]


def batch(size):
    """Rows for every rank, one more for rank 0; a third of the targets count for nothing, most of them on rank 0."""
    seeded = torch.Generator().manual_seed(7)
    tokens = torch.randint(0, ODD.vocabulary, (2 * size + 1, ODD.positions + 1), generator=seeded)
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[:2, 1:] = NO_TARGET
    targets[-1, ::3] = NO_TARGET
    return inputs, targets


OPTIMIZERS = {
    "adamw": lambda ps, eps: torch.optim.AdamW(ps, lr=1e-2, weight_decay=0.1, eps=eps),
    "sgd": lambda ps, eps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
}


def one_process(dtype, optimizer, eps, size, steps=5):
    """The plain model with the whole batch: losses, gradients of the first step, parameters in the end."""
    torch.manual_seed(0)
    model = GPT(ODD).to(dtype)
    stepper = OPTIMIZERS[optimizer](model.parameters(), eps)
    inputs, targets = batch(size)
    losses, first = [], {}
    for step in range(steps):
        total, count = cross_entropy(model(inputs), targets)
        loss = total / count
        loss.backward()
        if step == 0:
            first = {name: p.grad.clone() for name, p in model.named_parameters()}
        losses.append(loss.item())
        stepper.step()
        stepper.zero_grad()
    return losses, first, {name: p.detach().clone() for name, p in model.named_parameters()}


def train(dtype, optimizer, eps, wire=None, bucket_mb=0.005, microbatches=1, steps=5):
    """The same on this rank's rows, from another seed on every rank but 0."""
    rank, size = here()
    torch.manual_seed(rank)
    model = GPT(ODD).to(dtype)
    ddp = DistributedDataParallel(model, bucket_mb=bucket_mb, wire=wire)
    stepper = OPTIMIZERS[optimizer](ddp.parameters(), eps)
    inputs, targets = (t.tensor_split(size)[rank] for t in batch(size))
    pairs = list(zip(inputs.tensor_split(microbatches), targets.tensor_split(microbatches), strict=True))
    losses, first = [], {}
    for step in range(steps):
        weight = token_weight([(t != NO_TARGET).sum() for _, t in pairs])
        loss = torch.zeros((), dtype=dtype)
        for i, (tokens, wanted) in enumerate(pairs):
            with ddp.no_sync() if i < len(pairs) - 1 else contextlib.nullcontext():
                part = cross_entropy(ddp(tokens), wanted)[0] * weight
                part.backward()
                loss += part.detach()
        collectives.all_reduce(loss, "avg")
        if step == 0:
            first = {name: p.grad.clone() for name, p in model.named_parameters()}
        losses.append(loss.item())
        stepper.step()
        stepper.zero_grad()
    return losses, first, {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("size", WORLDS)
@pytest.mark.parametrize("microbatches", [1, 3])
def test_float64_is_one_process_to_1e_9(ranks, size, microbatches):
    """Losses, every gradient, and parameters after five steps of AdamW."""
    losses, first, parameters = one_process(torch.float64, "adamw", 1e-8, size)
    everyone = ranks(size, train, torch.float64, "adamw", 1e-8, microbatches=microbatches)
    for ours in everyone:
        assert ours[0] == pytest.approx(losses, abs=1e-9)
        assert largest(ours[1], first) < 1e-9
        assert largest(ours[2], parameters) < 1e-9
        assert largest(ours[2], everyone[0][2]) == 0  # bitwise the same on every rank


@pytest.mark.parametrize(("optimizer", "eps"), [("sgd", 0.0), ("adamw", 1e-4)])
@pytest.mark.parametrize("size", WORLDS)
def test_float32_is_one_process_to_1e_5(ranks, size, optimizer, eps):
    losses, _, parameters = one_process(torch.float32, optimizer, eps, size)
    for ours in ranks(size, train, torch.float32, optimizer, eps):
        assert ours[0] == pytest.approx(losses, abs=1e-5)
        assert largest(ours[2], parameters) < 1e-5


def test_key_bias_is_rounding_noise_which_adam_makes_full_steps_of(ranks):
    """Why float32 parameters are compared with SGD, or with an epsilon of at least 1e-4.

    A key bias adds q·b to all scores of a query, and a softmax does not care: its gradient is 0, in floats noise
    (1e-12 here, more in larger models). Adam divides a gradient by its own size, so as soon as the noise is above eps
    each step is lr in a direction that is chance, and two orders of addition part by whole steps. Nothing else parts.
    """
    _, first, parameters = one_process(torch.float32, "adamw", 1e-12, 3)
    ours = ranks(3, train, torch.float32, "adamw", 1e-12)[0][2]
    keys = slice(ODD.hidden, 2 * ODD.hidden)
    noise, key_bias, others = [], [], []
    for name, value in parameters.items():
        apart = (ours[name] - value).abs()
        if name.endswith("qkv.bias"):
            noise.append(first[name][keys].abs().max().item())
            key_bias.append(apart[keys].max().item())
            apart[keys] = 0
        others.append(apart.max().item())
    assert max(noise) < 1e-9
    assert max(key_bias) > 1e-3
    assert max(others) < 1e-5


def train_both(dtype, bucket_mb):
    """Our wrapper and torch's on the same job; the loss is a mean over equal shares, as torch's users have it."""
    rank, size = here()
    torch.manual_seed(rank)
    model = GPT(ODD).to(dtype)
    theirs = copy.deepcopy(model)
    ours = DistributedDataParallel(model, bucket_mb=bucket_mb)
    torchs = nn.parallel.DistributedDataParallel(theirs, bucket_cap_mb=bucket_mb)
    inputs, targets = (t[: 2 * size].tensor_split(size)[rank] for t in batch(size))
    for wrapped, plain in [(ours, model), (torchs, theirs)]:
        stepper = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            stepper.zero_grad()
            F.cross_entropy(wrapped(inputs).flatten(0, 1), targets.flatten()).backward()
            stepper.step()
    same = [
        torch.allclose(a, b, rtol=0, atol=1e-12) and torch.allclose(a.grad, b.grad, rtol=0, atol=1e-12)
        for a, b in zip(model.parameters(), theirs.parameters(), strict=True)
    ]
    return all(same), ours.state_dict().keys() == torchs.state_dict().keys()


@pytest.mark.parametrize("size", [2, 3])
def test_same_as_torch_ddp(ranks, size):
    assert ranks(size, train_both, torch.float64, 0.01) == [(True, True)] * size


# Microbatches, groups and failures.


def three_microbatches(inside):
    """The published case: gradients 1, 10, 100 make 111; here rank r has them r + 1 times."""
    rank, _ = here()
    model = nn.Linear(1, 1, bias=False)
    ddp = DistributedDataParallel(model)
    for i, gradient in enumerate([1.0, 10.0, 100.0]):
        quiet = ddp.no_sync() if i < 2 else contextlib.nullcontext()
        x = torch.full((1, 1), gradient * (rank + 1))
        if inside:
            with quiet:
                ddp(x).sum().backward()
        else:
            loss = ddp(x).sum()
            with quiet:
                loss.backward()
    before = model.weight.grad.item()
    ddp(torch.ones(1, 1)).sum().backward()  # once more, without zeroing: adds to the mean
    return before, model.weight.grad.item()


@pytest.mark.parametrize("inside", [True, False])
def test_no_sync_adds_up_whether_or_not_it_covers_the_forward(ranks, inside):
    assert ranks(2, three_microbatches, inside) == [(166.5, 167.5)] * 2


def one_parameter(wire):
    rank, _ = here()
    model = nn.Linear(1, 1, bias=False)
    ddp = DistributedDataParallel(model, wire=wire)
    ddp(torch.full((1, 1), rank + 1.0)).sum().backward()
    return model.weight.grad.item()


@pytest.mark.parametrize("wire", [None, "fp16", "bf16", "int8"])
def test_more_ranks_than_parameters(ranks, wire):
    """The mean of 1 … 5, of one parameter on five ranks."""
    assert ranks(5, one_parameter, wire) == pytest.approx([3.0] * 5, rel=0.02)


def subgroup():
    """Ranks 1 and 2 of three."""
    rank, _ = here()
    group = dist.new_group([1, 2])
    if rank == 0:
        return None
    torch.manual_seed(rank)
    model = nn.Linear(2, 1, bias=False)
    ddp = DistributedDataParallel(model, group)
    ddp(torch.full((1, 2), float(rank))).sum().backward()
    return model.weight.grad.tolist(), model.weight.tolist()


def test_a_subgroup(ranks):
    _, one, two = ranks(3, subgroup)
    torch.manual_seed(1)
    assert one == two == ([[1.5, 1.5]], nn.Linear(2, 1, bias=False).weight.tolist())


class Box:
    """Outputs of a kind that nobody can look into."""

    def __init__(self, tensor):
        self.tensor = tensor

    def sum(self):
        return self.tensor.sum()


class Failing(nn.Module):
    def __init__(self, wrap=lambda x: x):
        super().__init__()
        self.wrap = wrap
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

    def forward(self, x, fail):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if fail and i == 0:
                x.register_hook(lambda g: (_ for _ in ()).throw(ArithmeticError("in the middle of the backward")))
        return self.wrap(x)


def failed_and_again(wrap):
    """All ranks fail after two of three buckets have left; the next backward pass is whole again."""
    rank, _ = here()
    torch.manual_seed(0)
    model = Failing(wrap)
    ddp = DistributedDataParallel(model, bucket_mb=0)
    with pytest.raises(ArithmeticError):
        ddp(torch.ones(1, 2) + rank, True).sum().backward()
    model.zero_grad()
    ddp(torch.ones(1, 2) + rank, False).sum().backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    ((model(torch.ones(1, 2), False).sum() + model(torch.ones(1, 2) + 1, False).sum()) / 2).backward()
    del ddp
    return max((a - p.grad).abs().max().item() for a, p in zip(got, model.parameters(), strict=True))


@pytest.mark.parametrize("wrap", [torch.nn.Identity(), Box])
def test_after_a_failed_backward_pass(ranks, wrap):
    assert max(ranks(2, failed_and_again, wrap)) < 1e-6


def one_fails():
    rank, _ = here()
    ddp = DistributedDataParallel(Failing(), bucket_mb=0)
    ddp(torch.ones(1, 2), rank == 1).sum().backward()


def test_one_rank_that_fails_ends_the_others(ranks):
    with pytest.raises(RankFailed, match="in the middle of the backward"):
        ranks(3, one_fails)
