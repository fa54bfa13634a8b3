"""ZeRO on real ranks against one process that trains the plain model on the whole batch."""

from __future__ import annotations

import contextlib
import copy
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import parallel
from parallel.mesh import Mesh
from parallel.model import GPT, Config
from parallel.recompute import checkpoint
from parallel.zero import Zero

WORLDS = [1, 2, 3, 4, 5]
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


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("model", "world"), [(model, world) for model in MODELS for world in (WORLDS if model in (Stack, Twice) else [3])]
)
def test_trains_like_one_process(ranks, model, world, stage):
    compare(ranks(world, train_zero, model, adamw, stage=stage), train_plain(model, world, adamw))


@pytest.mark.parametrize("options", [
    {"gather": "broadcast"}, {"gather": "broadcast", "stage": 1}, {"prefetch": 0}, {"prefetch": 2}, {"prefetch": 9},
    {"reshard_after_forward": False}, {"gather": "broadcast", "prefetch": 0, "reshard_after_forward": False},
])  # fmt: skip
@pytest.mark.parametrize("model", [Stack, Twice, Frozen, Recomputed])
def test_options_change_no_number(ranks, model, options):
    compare(ranks(3, train_zero, model, momentum, **options), train_plain(model, 3, momentum))


class Branching(Stack):
    """Rank 1 skips the middle layer, and no rank ever uses the last layer's ``gain``'s neighbour ``spare``."""

    def __init__(self):
        super().__init__(layers=4)
        self.layers[3].spare = nn.Parameter(torch.randn(3))
        self.skips = False

    def forward(self, x):
        x = self.entry(x)
        for number, layer in enumerate(self.layers):
            if not (self.skips and number in (0, 2)):
                x = layer(x)
        return self.exit(x)


def train_branching(stage, **options):
    zero = Zero(on_rank(Branching), adamw, stage=stage, **options)
    zero.module.skips = dist.get_rank() == 1
    found = []
    for step in range(4):
        x, y = (mine(t) for t in batch(step, ROWS * dist.get_world_size()))
        zero.zero_grad()
        out = zero(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        found.append(zero.gradients())
        zero.step()
    return found, parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_branch_that_one_rank_skips(ranks, stage, prefetch):
    """What a rank does not use counts as zero; what nobody uses has no gradient, and AdamW leaves it alone."""
    world = 3
    module = built(Branching)
    optimizer, start = adamw(list(module.parameters())), module.layers[3].spare.detach().clone()
    wanted = []
    for step in range(4):
        x, y = batch(step, ROWS * world)
        loss = 0
        for rank in range(world):
            module.skips = rank == 1
            rows = slice(rank * ROWS, (rank + 1) * ROWS)
            out = module(x[rows])
            loss = loss + F.mse_loss(out, y[rows].expand_as(out)) / world
        optimizer.zero_grad()
        loss.backward()
        wanted.append({name: p.grad for name, p in module.named_parameters()})
        optimizer.step()
    for found, after in ranks(world, train_branching, stage, prefetch=prefetch):
        for got, want in zip(found, wanted, strict=True):
            same(got, want)
        assert found[0]["layers.3.spare"] is None
        assert torch.equal(after["layers.3.spare"], start)
        same(after, dict(module.named_parameters()))


def accumulate(stage, deferred, around, **options):
    """Three microbatches; ``around``: no_sync is around forward and backward, or around the backward alone."""
    zero = Zero(on_rank(Twice), adamw, stage=stage, **options)
    world, micro = dist.get_world_size(), 3
    for step in range(2):
        x, y = batch(step, ROWS * world * micro)
        zero.zero_grad()
        for i in range(micro):
            rows = slice((i * world + dist.get_rank()) * ROWS, (i * world + dist.get_rank() + 1) * ROWS)
            quiet = zero.no_sync() if deferred and i < micro - 1 else contextlib.nullcontext()
            with quiet if around else contextlib.nullcontext():
                out = zero(x[rows])
                loss = F.mse_loss(out, y[rows].expand_as(out)) / micro
                with quiet if not around else contextlib.nullcontext():
                    loss.backward()
        gradients = zero.gradients()
        zero.step()
    return gradients, parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("deferred", "around"), [(False, True), (True, True), (True, False)])
def test_three_microbatches_are_one_batch(ranks, stage, deferred, around):
    module = built(Twice)
    optimizer = adamw(list(module.parameters()))
    for step in range(2):
        x, y = batch(step, ROWS * 2 * 3)
        optimizer.zero_grad()
        out = module(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        gradients = {name: p.grad for name, p in module.named_parameters()}
        optimizer.step()
    for got, after in ranks(2, accumulate, stage, deferred, around):
        same(got, gradients)
        same(after, dict(module.named_parameters()))


class Scalar(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, factor):
        return self.w * factor


def one_ten_hundred(stage, quiet):
    zero = Zero(Scalar(), partial(torch.optim.SGD, lr=1.0), stage=stage)
    for factor in (1.0, 10.0, 100.0):
        with zero.no_sync() if quiet else contextlib.nullcontext():
            zero(torch.tensor([factor * (1 + dist.get_rank())], dtype=torch.float64)).sum().backward()
    zero.step()
    return parameters_of(zero)["w"].item()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("quiet", [False, True])
def test_no_microbatch_is_lost(ranks, stage, quiet):
    """Gradients 1, 10, 100 on rank 0 and twice that on rank 1, even if no backward pass reduces them."""
    assert ranks(2, one_ten_hundred, stage, quiet) == [-111 * 1.5] * 2


def several_graphs(stage):
    """Two forwards and one backward; one backward each, the older first; the same graph twice."""
    zero = Zero(on_rank(Stack), momentum, stage=stage)
    x, y = (mine(t) for t in batch(0, 2 * dist.get_world_size()))
    found = []
    (zero(x) + zero(y * x)).sum().backward()
    found.append(zero.gradients())
    zero.zero_grad()
    first, second = zero(x).sum(), zero(y * x).sum()
    first.backward()
    second.backward()
    found.append(zero.gradients())
    zero.zero_grad()
    zero(y * x).sum()  # a graph that is never used
    loss = zero(x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    found.append(zero.gradients())
    zero.zero_grad()
    with torch.no_grad():
        zero(x)
    zero.step()
    return found


@pytest.mark.parametrize("stage", STAGES)
def test_several_graphs(ranks, stage):
    module = built(Stack)
    x, y = batch(0, 4)

    def gradients(loss):
        return dict(
            zip(dict(module.named_parameters()), torch.autograd.grad(loss / 2, module.parameters()), strict=True)
        )

    both, twice = gradients((module(x) + module(y * x)).sum()), gradients(2 * module(x).sum())
    for found in ranks(2, several_graphs, stage):
        for got, want in zip(found, [both, both, twice], strict=True):
            same(got, want)


def kept(stage):
    """A forward whose parameters are kept for a backward that never comes; then a step."""
    zero = Zero(on_rank(Stack), momentum, stage=stage, reshard_after_forward=False)
    x = mine(batch(0, 2 * dist.get_world_size())[0])
    zero(x).sum().backward()
    zero(x)
    zero.step()
    return zero(x).detach()


@pytest.mark.parametrize("stage", STAGES)
def test_kept_parameters_are_not_of_yesterday(ranks, stage):
    module = built(Stack)
    optimizer, x = momentum(list(module.parameters())), batch(0, 4)[0]
    (module(x).sum() / 2).backward()
    optimizer.step()
    got = torch.cat(ranks(2, kept, stage))
    torch.testing.assert_close(got, module(x).detach(), rtol=1e-9, atol=1e-9)


def decayed(parameters):
    """Weights decay, all else does not; the rate of the second group changes."""
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.3},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0, "lr": 0.03},
        ],
        lr=0.01,
    )


def decayed_by_name(module, parameters):
    """The same, made of the module's own parameters by name, as closures often do."""
    weights = [p for name, p in module.named_parameters() if name.endswith("weight") and "norm" not in name]
    others = [p for name, p in module.named_parameters() if not name.endswith("weight") or "norm" in name]
    groups = [{"params": weights, "weight_decay": 0.3}, {"params": others, "weight_decay": 0.0, "lr": 0.03}]
    return torch.optim.AdamW(groups, lr=0.01)


def schedule(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda step: 1 / (1 + step), lambda step: 2.0**step])


def train_groups(stage, by_name):
    module = on_rank(Stack)
    zero = Zero(module, partial(decayed_by_name, module) if by_name else decayed, stage=stage)
    scheduler = schedule(zero.optimizer)
    for step in range(4):
        x, y = (mine(t) for t in batch(step, ROWS * dist.get_world_size()))
        zero.zero_grad()
        out = zero(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        zero.step()
        scheduler.step()
    return parameters_of(zero), [group["lr"] for group in zero.optimizer.param_groups]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("by_name", [False, True])
def test_groups_and_schedulers(ranks, stage, by_name):
    """A layer has both kinds of parameters, so the border between groups lies inside every rank's slice."""
    module = built(Stack)
    optimizer = decayed(list(module.parameters()))
    scheduler = schedule(optimizer)
    for step in range(4):
        x, y = batch(step, ROWS * 3)
        optimizer.zero_grad()
        out = module(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        optimizer.step()
        scheduler.step()
    for after, rates in ranks(3, train_groups, stage, by_name):
        same(after, dict(module.named_parameters()))
        assert rates == [group["lr"] for group in optimizer.param_groups]


OPTIMIZERS = ["ASGD", "Adadelta", "Adagrad", "Adam", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]


def made(name, options, parameters):
    return getattr(torch.optim, name)(parameters, lr=0.01, **options)


def made_of_the_module(module, name, options, parameters):
    return made(name, options, module.parameters())


def train_each(options):
    return [train_zero(Alone, partial(made, name, options), steps=3) for name in OPTIMIZERS]


def state_made_early():
    module = on_rank(Alone)
    return Zero(module, partial(made_of_the_module, module, "Adagrad", {"initial_accumulator_value": 3.0})).state_dict()


def test_state_that_is_made_early_is_cut(ranks):
    module = built(Alone)
    wanted = made_of_the_module(module, "Adagrad", {"initial_accumulator_value": 3.0}, None).state_dict()["state"]
    for state in ranks(2, state_made_early):
        assert state["optimizer"]["state"].keys() == wanted.keys()
        for number, entries in wanted.items():
            assert torch.equal(state["optimizer"]["state"][number]["sum"], entries["sum"])


@pytest.mark.parametrize("options", [{}, {"foreach": True}])
def test_optimizers_by_element(ranks, options):
    """57 parameters on two ranks; Adagrad makes its state before the first step."""
    for name, *histories in zip(OPTIMIZERS, *ranks(2, train_each, options), strict=True):
        compare(histories, train_plain(Alone, 2, partial(made, name, options), steps=3))


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return (x[:, :3] * self.w).sum(-1, keepdim=True)


@pytest.mark.parametrize("stage", STAGES)
def test_more_ranks_than_parameters(ranks, stage):
    """Three parameters on eight ranks: five of them have nothing but padding."""
    compare(ranks(8, train_zero, Three, adamw, steps=2, stage=stage), train_plain(Three, 8, adamw, steps=2))


def clipped(stage, group):
    group = Mesh(dp_replicate=2, dp_shard=2) if group == "hybrid" else None
    zero = Zero(on_rank(Stack), momentum, stage=stage, group=group)
    norms = []
    for step in range(3):
        x, y = (mine(t) for t in batch(step, ROWS * dist.get_world_size()))
        zero.zero_grad()
        out = zero(x)
        (100 * F.mse_loss(out, y.expand_as(out))).backward()
        norms.append(parallel.clip_grad_norm_(zero, 1.0).item())
        zero.step()
    return norms, parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("group", ["plain", "hybrid"])
def test_clips_by_the_norm_of_all(ranks, stage, group):
    module = built(Stack)
    optimizer, wanted = momentum(list(module.parameters())), []
    for step in range(3):
        x, y = batch(step, ROWS * 4)
        optimizer.zero_grad()
        out = module(x)
        (100 * F.mse_loss(out, y.expand_as(out))).backward()
        wanted.append(nn.utils.clip_grad_norm_(module.parameters(), 1.0).item())
        optimizer.step()
    assert min(wanted) > 1
    for norms, after in ranks(4, clipped, stage, group):
        # torch divides by norm + 1e-6
        assert norms == pytest.approx(wanted, rel=1e-5)
        same(after, dict(module.named_parameters()), 1e-6)


def train_hybrid(shape, model, stage):
    return train_zero(model, adamw, steps=3, stage=stage, group=Mesh(dp_replicate=shape[0], dp_shard=shape[1]))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1)])
def test_hybrid_sharding(ranks, stage, shape):
    world = shape[0] * shape[1]
    compare(ranks(world, train_hybrid, shape, Twice, stage), train_plain(Twice, world, adamw, steps=3))


def tokens(step, rows, config):
    torch.manual_seed(step)
    return torch.randint(config.vocabulary, (rows, 8)), torch.randint(config.vocabulary, (rows, 8))


GPT_CONFIG = Config(layers=3, hidden=20, heads=2, vocabulary=31, positions=8)


def train_gpt(stage, kind):
    """This project's, or torch's twin on the same ranks: FSDP2 for stage 3, ZeroRedundancyOptimizer for stage 1."""
    rank, world, rate = dist.get_rank(), dist.get_world_size(), 1e-2
    factory = partial(torch.optim.AdamW, lr=rate, eps=1e-4)
    torch.manual_seed(0 if kind == "torch" else rank)
    module = GPT(GPT_CONFIG)
    if kind == "ours":
        zero = Zero(module, factory, stage=stage)
        call, zero_grad, step = zero, zero.zero_grad, zero.step
    elif stage == 3:
        from torch.distributed.fsdp import fully_shard

        for block in module.blocks:
            fully_shard(block)
        fully_shard(module)
        optimizer = factory(module.parameters())
        call, zero_grad, step = module, optimizer.zero_grad, optimizer.step
    else:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        call = nn.parallel.DistributedDataParallel(module)
        optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.AdamW, lr=rate, eps=1e-4)
        zero_grad, step = optimizer.zero_grad, optimizer.step
    losses = []
    for number in range(5):
        x, y = (t[2 * rank : 2 * rank + 2] for t in tokens(number, 2 * world, GPT_CONFIG))
        zero_grad()
        loss = F.cross_entropy(call(x).flatten(0, 1), y.flatten())
        loss.backward()
        step()
        losses.append(loss.item())
    if kind == "ours":
        return losses, parameters_of(zero)
    return losses, {
        n: (p.full_tensor() if hasattr(p, "full_tensor") else p).detach() for n, p in module.named_parameters()
    }


@pytest.mark.parametrize("stage", [1, 3])
def test_trains_like_torch_s_own(ranks, stage):
    """fp32. (AdamW with an eps: a key's bias has a gradient of rounding noise, which it would turn into full steps.)"""
    for (losses, after), (wanted, torch_s) in zip(
        ranks(2, train_gpt, stage, "ours"), ranks(2, train_gpt, stage, "torch"), strict=True
    ):
        assert losses == pytest.approx(wanted, abs=1e-5)
        same(after, torch_s, 1e-5)


def test_fp32_loss_is_that_of_one_process(ranks):
    torch.manual_seed(0)
    module = GPT(GPT_CONFIG)
    optimizer, wanted = torch.optim.AdamW(module.parameters(), lr=1e-2, eps=1e-4), []
    for number in range(5):
        x, y = tokens(number, 6, GPT_CONFIG)
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    for stage in STAGES:
        every = ranks(3, train_gpt, stage, "ours")
        means = [sum(losses) / 3 for losses in zip(*(losses for losses, _ in every), strict=True)]
        assert means == pytest.approx(wanted, abs=1e-5)
        same(every[0][1], dict(module.named_parameters()), 1e-5)


# Bad input, and what changes after wrapping.


def refused(world_function):
    with pytest.raises(ValueError, match=r"\w") as caught:
        world_function()
    return str(caught.value)


def bad_inputs():
    linear = nn.Linear(2, 2)
    frozen = nn.Linear(2, 2).requires_grad_(False)
    sgd = partial(torch.optim.SGD, lr=0.1)
    cases = {
        "stage=0": lambda: Zero(linear, sgd, stage=0),
        "stage=4": lambda: Zero(linear, sgd, stage=4),
        "stage=True": lambda: Zero(linear, sgd, stage=True),
        "no trainable parameter": lambda: Zero(frozen, sgd),
        "no trainable parameter ": lambda: Zero(nn.Module(), sgd),
        "prefetch=-1": lambda: Zero(linear, sgd, prefetch=-1),
        "gather='ring'": lambda: Zero(linear, sgd, gather="ring"),
        "optimizer is a SGD": lambda: Zero(linear, sgd(linear.parameters())),
        "returned a list": lambda: Zero(linear, list),
        "LBFGS": lambda: Zero(linear, torch.optim.LBFGS),
        "group 0": lambda: Zero(linear, lambda parameters: sgd(frozen.parameters())),
        "precision='int8'": lambda: Zero(linear, sgd, precision="int8"),
        "module is a list": lambda: Zero([linear], sgd),
    }
    return {words: refused(case) for words, case in cases.items()}


def test_bad_input_is_refused_before_anything_is_sent(ranks):
    for found in ranks(1, bad_inputs):
        for words, message in found.items():
            assert words.strip() in message


DIFFERENT = {
    "shape": lambda rank: Zero(nn.Linear(3 + rank, 2), momentum),
    "frozen": lambda rank: Zero(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(rank == 0)), momentum),
    "stage": lambda rank: Zero(nn.Linear(2, 2), momentum, stage=1 + rank % 2),
    "prefetch": lambda rank: Zero(nn.Linear(2, 2), momentum, prefetch=rank),
    "one copy of two": lambda rank: Zero(
        nn.Linear(2, 2 + rank // 2), momentum, group=parallel.Mesh(dp_replicate=2, dp_shard=2)
    ),
}


def different(what):
    return refused(lambda: DIFFERENT[what](dist.get_rank()))


@pytest.mark.parametrize("what", DIFFERENT)
def test_ranks_that_differ_are_refused_on_all(ranks, what):
    for said in ranks(4, different, what):
        assert "differ between ranks (rank 0:" in said


def nan_on_one(stage):
    zero = Zero(on_rank(Stack), momentum, stage=stage)
    x = torch.full((1, WIDTH), float("nan") if dist.get_rank() == 1 else 1.0, dtype=torch.float64)
    zero(x).sum().backward()
    zero.step()
    return parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
def test_a_nan_on_one_rank_reaches_all(ranks, stage):
    """As one process would have it: silence would be worse."""
    module = built(Stack)
    optimizer = momentum(list(module.parameters()))
    x = torch.ones(3, WIDTH, dtype=torch.float64)
    x[1] = float("nan")
    (module(x).sum() / 3).backward()
    optimizer.step()
    assert module.layers[0].inner.weight.isnan().all()
    for after in ranks(3, nan_on_one, stage):
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(after[name], parameter.detach(), equal_nan=True)


def changed(stage):
    module = on_rank(Frozen)
    zero = Zero(module, adamw, stage=stage)
    x, y = (mine(t) for t in batch(0, ROWS * dist.get_world_size()))
    snapshots = []
    for step in range(4):
        zero.zero_grad()
        out = zero(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        zero.step()
        snapshots.append(parameters_of(zero))
        if step == 1:
            module.layers[0].requires_grad_(False)
    module.layers[1].gain.requires_grad_(True)
    thawed = refused(lambda: zero(x))
    module.layers[1].gain.requires_grad_(False)
    module.float()
    converted = refused(lambda: zero(x))
    module.double()
    module.extra = nn.Linear(2, 2)
    return snapshots, thawed, converted, refused(lambda: zero(x))


@pytest.mark.parametrize("stage", STAGES)
def test_freezing_later_thawing_converting_and_new_parameters(ranks, stage):
    module = built(Frozen)
    optimizer = adamw([p for p in module.parameters() if p.requires_grad])
    x, y = batch(0, ROWS * 2)
    wanted = []
    for step in range(4):
        optimizer.zero_grad()
        out = module(x)
        F.mse_loss(out, y.expand_as(out)).backward()
        optimizer.step()
        wanted.append(copy.deepcopy(dict(module.named_parameters())))
        if step == 1:
            module.layers[0].requires_grad_(False)
    for snapshots, thawed, converted, extra in ranks(2, changed, stage):
        for got, want in zip(snapshots, wanted, strict=True):
            same(got, {name: value.detach() for name, value in want.items()})
        assert "layers.1.gain was frozen" in thawed
        assert "was torch.float64 on cpu when the module was wrapped, and is torch.float32 on cpu" in converted
        assert "extra.weight is a new parameter" in extra


def lost(stage, precision, how):
    """What the forward says after a parameter has been written to or replaced; and after loading what it shall be."""
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    zero = Zero(module, adamw, stage=stage, precision=precision)
    x = torch.ones(1, 3)
    zero(x).sum().backward()
    zero.step()
    state = zero.state_dict()
    if how == "written":
        with torch.no_grad():
            module[1].weight.fill_(0.5)
    else:
        module[1].weight.data = torch.full((2, 3), 0.5, dtype=module[1].weight.dtype)
    try:
        zero(x)
    except ValueError as error:
        said = str(error)
    else:
        return zero.state_dict()["module"]["1.weight"]
    if how == "written":
        state["module"]["1.weight"].fill_(0.5)
        zero.load_state_dict(state)
        zero(x)
    return said


@pytest.mark.parametrize("how", ["written", "replaced"])
@pytest.mark.parametrize(("stage", "precision"), [(1, None), (2, "bf16"), (3, None), (3, "bf16")])
def test_what_would_be_lost_is_refused(ranks, stage, precision, how):
    """Where the parameter is the state itself, what is written to it counts; elsewhere it would silently be undone."""
    for found in ranks(2, lost, stage, precision, how):
        if (stage, how) == (1, "written"):
            assert found.eq(0.5).all()
        else:
            assert "1.weight has been changed since the module was wrapped" in found


def failing_passes(stage):
    """A forward and a backward that fail in the middle, on all ranks; then all is as if they had not been."""
    zero = Zero(on_rank(Stack), momentum, stage=stage)
    x, y = (mine(t) for t in batch(0, ROWS * dist.get_world_size()))
    trouble = zero.module.layers[1].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        zero(x)
    trouble.remove()
    out = zero(x)
    handle = zero.module.layers[1].inner.bias.register_hook(lambda gradient: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        out.sum().backward()
    handle.remove()
    zero.zero_grad()
    out = zero(x)
    F.mse_loss(out, y.expand_as(out)).backward()
    zero.step()
    return parameters_of(zero)


@pytest.mark.parametrize("stage", STAGES)
def test_after_a_pass_that_failed(ranks, stage):
    wanted = train_plain(Stack, 2, momentum, steps=1)[0][3]
    for after in ranks(2, failing_passes, stage):
        same(after, wanted)


def buffers():
    module = nn.BatchNorm1d(4)
    module.running_mean.fill_(7.0 + dist.get_rank())
    Zero(module, momentum)
    return module.running_mean.tolist()


def test_buffers_are_those_of_the_first_rank(ranks):
    assert ranks(3, buffers) == [[7.0] * 4] * 3


def in_words(stage):
    """Parameters outside of a forward in stage 3: empty, not garbage; whole when asked for."""
    zero = Zero(on_rank(Stack), momentum, stage=stage)
    zero(mine(batch(0, 4)[0])).sum().backward()
    return [tuple(p.shape) for p in zero.module.parameters()], {
        n: tuple(v.shape) for n, v in parameters_of(zero).items()
    }


def test_parameters_between_passes(ranks):
    shapes = {name: tuple(p.shape) for name, p in built(Stack).named_parameters()}
    for outside, inside in ranks(2, in_words, 3):
        assert set(outside) == {(0,)}
        assert inside == shapes
    for outside, _ in ranks(2, in_words, 2):
        assert outside == list(shapes.values())
