"""DistributedDataParallel on real ranks, against one process with the whole batch, and against torch's own."""

from __future__ import annotations

import contextlib
import copy
import gc
import re

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as torch_checkpoint

import collectives
from collectives.launch import RankFailed
from parallel import DistributedDataParallel, formulas
from parallel.loss import token_weight
from parallel.model import GPT, NO_TARGET, SIZES, Config, cross_entropy
from parallel.traffic import counted

WORLDS = [1, 2, 3, 4, 5]
ODD = Config(layers=2, hidden=12, heads=3, vocabulary=37, positions=9)  # sizes that no world divides


def here():
    return dist.get_rank(), dist.get_world_size()


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


def largest(ours, theirs):
    assert ours.keys() == theirs.keys()
    return max((ours[name] - theirs[name]).abs().max().item() for name in ours if ours[name].numel())


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


# Parameters of every kind.


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


def unused_zero_gradient():
    """Rank 1 alone uses the weight, with gradients that are zeros of both signs and numbers too small to halve."""
    rank, _ = here()
    results = []
    for dtype, tiny in [(torch.float32, -1e-45), (torch.bfloat16, -1e-40), (torch.float64, -5e-324)]:
        for wire in (None, "fp16", "int8"):
            for value in (-0.0, 0.0, tiny):
                model = nn.Linear(3, 1, bias=False, dtype=dtype)
                other = nn.Parameter(torch.ones(1, dtype=dtype))
                model.register_parameter("other", other)
                model.forward = lambda x, m=model, p=other: p * 1 if x is None else (m.weight * x).sum() + p
                ddp = DistributedDataParallel(model, wire=wire)
                ddp(torch.full((3,), value, dtype=dtype) if rank else None).sum().backward()
                results.append(model.weight.grad is not None)
    return results


def test_a_gradient_of_zeros_is_used_nevertheless(ranks):
    """Neither −0.0 nor a number that rounds to it, in the mean or on the wire, is taken for 'nobody used it'."""
    assert ranks(2, unused_zero_gradient) == [[True] * 27] * 2


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


# What is sent.


def sent(config, microbatches, wire, dtype, bucket_mb):
    model = GPT(config).to(dtype)
    ddp = DistributedDataParallel(model, bucket_mb=bucket_mb, wire=wire)
    tokens = torch.arange(2 * config.positions).view(2, -1) % config.vocabulary
    dist.barrier()
    with counted() as traffic:
        for i in range(microbatches):
            with ddp.no_sync() if i < microbatches - 1 else contextlib.nullcontext():
                ddp(tokens).square().mean().backward()
    return sum(p.numel() for p in model.parameters()), dict(traffic.elements), traffic.bytes


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("config", [ODD, SIZES["tiny"]])
@pytest.mark.parametrize(("microbatches", "bucket_mb"), [(1, 25), (3, 0.01)])
def test_elements_sent_are_those_of_the_formula(ranks, size, config, microbatches, bucket_mb):
    """2Ψ(N − 1)/N a step, whatever the microbatches and buckets: of all ranks together to the element."""
    everyone = ranks(size, sent, config, microbatches, None, torch.float32, bucket_mb)
    parameters = everyone[0][0]
    formula = formulas.elements_sent(parameters, size, 0, microbatches)
    assert {dtype for _, elements, _ in everyone for dtype in elements} == {torch.float32}
    total = sum(elements[torch.float32] for _, elements, _ in everyone)
    assert total == round((formula.parameters + formula.gradients) * size) == 2 * (size - 1) * parameters


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(("wire", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_half_as_many_bytes_in_sixteen_bits(ranks, size, wire, dtype):
    everyone = ranks(size, sent, ODD, 1, wire, torch.float32, 25)
    parameters = everyone[0][0]
    assert {d for _, elements, _ in everyone for d in elements} == {dtype}
    assert sum(elements[dtype] for _, elements, _ in everyone) == 2 * (size - 1) * parameters
    assert sum(nbytes for *_, nbytes in everyone) == 2 * (size - 1) * parameters * formulas.wire_bytes(wire)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_quarter_as_many_bytes_in_int8(ranks, size):
    """One byte an element and four for a scale, whose last in each part may be for fewer than 128 elements."""
    everyone = ranks(size, sent, ODD, 1, "int8", torch.float32, 25)
    parameters = everyone[0][0]
    wanted = 2 * (size - 1) * parameters * formulas.wire_bytes("int8")
    total = sum(nbytes for *_, nbytes in everyone)
    assert wanted <= total < wanted + 2 * (size - 1) * size * 4


# Overlap: the order of things, not their time.


def order_of_launches():
    """When each bucket leaves, as how many of the parameters have their gradient by then."""
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(6)))
    ddp = DistributedDataParallel(model, bucket_mb=2 * 256 / 2**20)
    begun = []
    for bucket in ddp._reducer.buckets:
        start = bucket.transfer.start

        def noted(start=start):
            begun.append(sum(p.grad is not None for p in model.parameters()))
            start()

        bucket.transfer.start = noted
    ddp(torch.ones(1, 8)).sum().backward()
    return begun, all(p.grad._base is b.flat for b in ddp._reducer.buckets for p in b.parameters)


def test_buckets_leave_while_the_backward_pass_runs(ranks):
    """Three buckets of two layers, the last layers first; gradients are views of the buckets."""
    assert ranks(2, order_of_launches) == [([2, 4, 6], True)] * 2


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


def with_nan(wire):
    rank, _ = here()
    model = nn.Linear(300, 1, bias=False)
    ddp = DistributedDataParallel(model, wire=wire)
    x = torch.ones(1, 300)
    if rank == 1:
        x[0, 5] = float("nan")
    ddp(x).sum().backward()
    first = model.weight.grad.isnan()
    model.weight.grad = None
    ddp(torch.ones(1, 300)).sum().backward()
    return first[0, 5].item(), first[0, 200].item(), model.weight.grad.isfinite().all().item()


@pytest.mark.parametrize("wire", [None, "fp16", "bf16", "int8"])
def test_a_nan_on_one_rank_is_seen_by_all_and_forgotten(ranks, wire):
    """It stays where it is (its block of 128), and error feedback does not keep it."""
    assert ranks(2, with_nan, wire) == [(True, False, True)] * 2


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


def error_feedback(wire):
    """Delivered means add up to the exact ones, but for what the errors of one step hold."""
    rank, size = here()
    model = nn.Linear(300, 1, bias=False)
    ddp = DistributedDataParallel(model, wire=wire)
    delivered, exact = torch.zeros(300, dtype=torch.float64), torch.zeros(300, dtype=torch.float64)
    apart = []
    for step in range(40):
        seeded = torch.Generator().manual_seed(step)
        shares = torch.randn(size, 300, generator=seeded) * torch.logspace(-3, 0, 300)
        model.weight.grad = None
        ddp(shares[rank : rank + 1]).sum().backward()
        delivered += model.weight.grad[0]
        exact += shares.double().mean(0)
        apart.append((delivered - exact).abs().max().item())
    return apart


@pytest.mark.parametrize(("wire", "step"), [("fp16", 2**-9), ("bf16", 2**-6), ("int8", 4 / 127)])
def test_error_feedback_loses_nothing_for_good(ranks, wire, step):
    """After forty steps the sums are no farther apart than two rounding steps of a number of size 4; without feedback
    they would part like a random walk. Every rank has the same."""
    everyone = ranks(3, error_feedback, wire)
    assert everyone[0] == everyone[1] == everyone[2]
    assert 0 < max(everyone[0]) < 2 * step


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.other = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(1))

    def forward(self, rest):
        return self.other.sum() if rest else (self.used * torch.tensor([1.0, 0.001, 1.0, 0.001])).sum()


def resting():
    """Every second element is too small for int8 beside the one before, and used in every other step alone."""
    model = Two()
    ddp = DistributedDataParallel(model, wire="int8")
    delivered = 0.0
    for step in range(16):
        model.zero_grad()
        ddp(step % 2 == 1).backward()
        delivered += 0.0 if model.used.grad is None else model.used.grad[1].item()
    return delivered


def test_what_was_lost_waits_while_a_parameter_rests(ranks):
    """Eight times 0.001, to half a step of 1/127; without what was lost it would be 0."""
    assert ranks(2, resting) == [pytest.approx(0.008, abs=0.5 / 127)] * 2
