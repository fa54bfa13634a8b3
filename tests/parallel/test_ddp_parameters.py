"""Parameters of every kind under DDP: frozen, tied, unused, checkpointed, changed later; and what is refused."""

from __future__ import annotations

import copy
import gc
import re

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from collectives.launch import RankFailed
from parallel import DistributedDataParallel
from tests.parallel.averaged import here, largest


class Odd(nn.Module):
    """Frozen, tied, used twice, unused by all, used by some, empty, and a buffer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.tied = nn.Linear(5, 5)
        self.tied.weight = self.first.weight
        self.twice = nn.Linear(5, 5)
        self.frozen = nn.Linear(5, 5)
        self.frozen.weight.requires_grad_(False)
        self.never = nn.Linear(5, 3)
        self.sometimes = nn.Linear(5, 5)
        self.empty = nn.Parameter(torch.zeros(0, 5))
        self.register_buffer("shift", torch.randn(5))

    def forward(self, x, detour):
        x = self.twice(torch.tanh(self.tied(self.first(x + self.shift))))
        x = self.frozen(self.twice(torch.tanh(x)))
        return self.sometimes(x) if detour else x


def odd_reference(size, detours, steps=4):
    torch.manual_seed(0)
    model = Odd().double()
    stepper = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0.1)
    for step in range(steps):
        stepper.zero_grad()
        for rank in range(size):
            torch.manual_seed(100 * step + rank)
            (model(torch.randn(3, 5, dtype=torch.float64), rank in detours).square().sum() / size).backward()
        stepper.step()
    return state(model)


def state(model):
    tensors = [*model.named_parameters(), *model.named_buffers()]
    grads = {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
    return {name: t.detach().clone() for name, t in tensors}, grads


def odd_train(detours, to_none=True, steps=4, bucket_mb=0.0001):
    rank, _ = here()
    torch.manual_seed(rank)
    model = Odd().double()
    ddp = DistributedDataParallel(model, bucket_mb=bucket_mb)
    stepper = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0.1)
    for step in range(steps):
        stepper.zero_grad(set_to_none=to_none)
        torch.manual_seed(100 * step + rank)
        ddp(torch.randn(3, 5, dtype=torch.float64), rank in detours).square().sum().backward()
        stepper.step()
    return state(model)


@pytest.mark.parametrize("bucket_mb", [0, 0.0003, 25])
@pytest.mark.parametrize("detours", [set(), {1}, {0, 2}, {0, 1, 2}])
def test_frozen_tied_used_twice_unused_on_some_or_all(ranks, detours, bucket_mb):
    """What no rank uses has no gradient and does not decay; what one rank uses has one on all."""
    wanted, gradients = odd_reference(3, detours)
    for values, grads in ranks(3, odd_train, detours, bucket_mb=bucket_mb):
        assert largest(values, wanted) < 1e-12
        unused = {name for name, g in grads.items() if g is None}
        assert unused == {name for name, g in gradients.items() if g is None}
        assert {"never.weight", "never.bias", "frozen.weight", "empty"} <= unused
        assert ("sometimes.weight" in unused) == (not detours)


def test_zeroed_gradients_that_stay(ranks):
    """zero_grad(set_to_none=False): an unused parameter keeps its gradient of zeros, and decays, as in one process."""
    values = ranks(2, odd_train, {0}, False)
    assert largest(values[0][0], values[1][0]) == 0
    assert largest(values[0][0], odd_reference(2, {0})[0]) < 1e-12


def used_early(size):
    """One branch in the first microbatch only, the other in the second."""
    rank, _ = here()
    torch.manual_seed(0)
    plain = nn.ModuleList(nn.Linear(2, 1) for _ in range(2))
    model = copy.deepcopy(plain)
    model.forward = lambda x, branch: model[branch](x)
    ddp = DistributedDataParallel(model)
    shares = [torch.full((1, 2), r + 1.0) for r in range(size)]
    for share in shares:
        ((plain[0](share) + plain[1](share)).sum() / size).backward()
    with ddp.no_sync():
        ddp(shares[rank], 0).sum().backward()
    ddp(shares[rank], 1).sum().backward()
    return largest(*({name: p.grad for name, p in m.named_parameters()} for m in (model, plain)))


@pytest.mark.parametrize("size", [1, 3])
def test_what_only_an_earlier_microbatch_has_used(ranks, size):
    assert max(ranks(size, used_early, size)) < 1e-6


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, reentrant):
        for _ in range(2):  # both used twice, in two segments
            x = torch_checkpoint(lambda y: self.b(torch.tanh(self.a(y))), x, use_reentrant=reentrant)
        return {"out": [x]}


def checkpointed(reentrant, bucket_mb):
    rank, size = here()
    torch.manual_seed(0)
    plain = Checkpointed().double()
    model = copy.deepcopy(plain)
    ddp = DistributedDataParallel(model, bucket_mb=bucket_mb)
    shares = [torch.full((2, 4), r + 1.0, dtype=torch.float64, requires_grad=True) for r in range(size)]
    for share in shares:
        (plain(share, False)["out"][0].square().sum() / size).backward()
    ddp(shares[rank], reentrant)["out"][0].square().sum().backward()
    return largest(
        {name: p.grad for name, p in model.named_parameters()}, {name: p.grad for name, p in plain.named_parameters()}
    )


def test_checkpointed_segments_that_share_parameters(ranks):
    assert max(ranks(2, checkpointed, False, 0)) < 1e-12


def test_a_reentrant_checkpoint_is_refused(ranks):
    with pytest.raises(RankFailed, match="came twice in one backward pass"):
        ranks(2, checkpointed, True, 0)


def frozen_later():
    """A layer frozen after two steps on every rank stays as it is; the rest goes on."""
    rank, size = here()
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    model = copy.deepcopy(plain)
    ddp = DistributedDataParallel(model, bucket_mb=0)
    shares = [torch.full((1, 3), r + 1.0, dtype=torch.float64) for r in range(size)]
    steppers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (plain, model)]
    for step in range(4):
        if step == 2:
            plain[1].requires_grad_(False)
            model[1].requires_grad_(False)
        for stepper in steppers:
            stepper.zero_grad()
        for share in shares:
            (plain(share).square().sum() / size).backward()
        ddp(shares[rank]).square().sum().backward()
        for stepper in steppers:
            stepper.step()
    return largest(dict(model.named_parameters()), dict(plain.named_parameters()))


def test_a_layer_frozen_in_mid_training(ranks):
    assert max(ranks(2, frozen_later)) < 1e-12


def wrapped_again():
    """Hooks go with the wrapper, so that a module can be wrapped anew; nothing keeps the old one."""
    model = nn.Linear(2, 2)
    for _ in range(3):
        ddp = DistributedDataParallel(model)
        ddp(torch.ones(1, 2)).sum().backward()
        model.zero_grad()
        gc.disable()
        del ddp
        gc.enable()
    return [len(p._post_accumulate_grad_hooks or {}) for p in model.parameters()]


def test_wrapped_anew(ranks):
    assert ranks(2, wrapped_again) == [[0, 0]] * 2


# Bad input.


def change(what):
    """Wrap a layer, train a step, change the layer, and call it again."""
    model = nn.Linear(3, 3)
    model.bias.requires_grad_(what != "unfrozen")
    ddp = DistributedDataParallel(model)
    ddp(torch.ones(1, 3)).sum().backward()
    if what == "added":
        model.register_parameter("late", nn.Parameter(torch.ones(3)))
    elif what == "replaced":
        model.weight = nn.Parameter(torch.ones(3, 3))
    elif what == "converted":
        model.double()
    model.bias.requires_grad_(True)
    ddp(torch.ones(1, 3))


def wrap_twice(rank):
    ddp = DistributedDataParallel(nn.Linear(3, 3))
    return DistributedDataParallel(ddp)


REFUSED = {
    "empty": lambda rank: DistributedDataParallel(nn.ReLU()),
    "frozen": lambda rank: DistributedDataParallel(nn.Linear(3, 3).requires_grad_(False)),
    "wire": lambda rank: DistributedDataParallel(nn.Linear(3, 3), wire="fp8"),
    "bucket": lambda rank: DistributedDataParallel(nn.Linear(3, 3), bucket_mb=-1),
    "differ": lambda rank: DistributedDataParallel(nn.Linear(3, 3 + rank)),
    "settings": lambda rank: DistributedDataParallel(nn.Linear(3, 3), bucket_mb=rank),
    "twice": wrap_twice,
    "added": lambda rank: change("added"),
    "replaced": lambda rank: change("replaced"),
    "converted": lambda rank: change("converted"),
    "unfrozen": lambda rank: change("unfrozen"),
}


def refused(what):
    try:
        REFUSED[what](dist.get_rank())
    except ValueError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("empty", "no parameters"),
        ("frozen", "no trainable parameter"),
        ("wire", "give one of fp16, bf16, int8"),
        ("bucket", "give MiB of at least 0"),
        ("settings", "settings differ between ranks"),
        ("twice", "averaged by another wrapper already"),
        ("differ", r"rank 0: 2 tensors, 12 elements; rank 1: 2 tensors, 16 elements"),
        ("added", "'late' was not there, or not trainable"),
        ("replaced", "'weight' was not there"),
        ("converted", "was torch.float32 .* and is torch.float64"),
        ("unfrozen", "'bias' was not there, or not trainable"),
    ],
)
def test_refused_on_every_rank(ranks, what, said):
    for message in ranks(2, refused, what):
        assert re.search(said, message), message
