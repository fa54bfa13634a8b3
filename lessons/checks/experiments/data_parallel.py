"""Lesson 8: how replicas begin alike, and average their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest

import torch
from torch import Tensor, nn
from torch.nn import functional

from collectives.contract import contract_of

from ..experiment import Example, Experiment
from .trained import TRAIN_ON_RING, TRAIN_TOGETHER

State = dict[str, Tensor]
ITEM = 8  # bytes of a float64


class Started(nn.Module):
    """Parameters and buffers, of which one is not in the state dict: each rank draws its own."""

    def __init__(self, seed: int, frozen: bool) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.first, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
        self.register_buffer("table", torch.empty(5), persistent=False)
        self.double()
        for tensor in (*self.parameters(), *self.buffers()):
            number = torch.randn(tensor.shape, generator=draw, dtype=torch.float64)
            tensor.data.copy_(number if tensor.is_floating_point() else torch.tensor(1 + seed))
        self.first.requires_grad_(not frozen)


def _started(example: Example, rank: int) -> Started:
    return Started(example["seed"] + rank, example["frozen"])


def _state(model: nn.Module) -> State:
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


def _begun(chosen: Callable[[Started], Sequence[str]], example: Example, size: int) -> list[State]:
    """Every rank has rank 0's tensors of the names chosen, and else its own."""
    models = [_started(example, rank) for rank in range(size)]
    names, first = chosen(models[0]), _state(models[0])
    return [{name: first[name] if name in names else own for name, own in _state(one).items()} for one in models]


def _averaged_start(example: Example, size: int) -> list[State]:
    states = _begun(lambda model: list(dict(model.named_buffers())), example, size)
    names = dict(_started(example, 0).named_parameters())
    means = {name: torch.stack([state[name] for state in states]).mean(0) for name in names}
    return [{**state, **means} for state in states]


def _started_as_last(example: Example, size: int) -> list[State]:
    return [_state(_started(example, size - 1)) for _ in range(size)]


SAME_START = Experiment(
    examples=lambda size: [{"seed": 10, "frozen": False}, {"seed": 20, "frozen": True}],
    arguments=lambda example, rank, size: (_started(example, rank),),
    outcome=lambda arguments, value: _state(arguments[0]),
    expected=partial(_begun, lambda model: list(_state(model))),
    mistakes={
        "data_parallel.same_start.untouched": partial(_begun, lambda model: ()),
        "data_parallel.same_start.parameters_only": partial(_begun, lambda m: list(dict(m.named_parameters()))),
        "data_parallel.same_start.buffers_only": partial(_begun, lambda m: list(dict(m.named_buffers()))),
        "data_parallel.same_start.persistent": partial(_begun, lambda m: list(m.state_dict())),
        "data_parallel.same_start.floating": partial(
            _begun, lambda m: [name for name, one in _state(m).items() if one.is_floating_point()]
        ),
        "data_parallel.same_start.trainable": partial(
            _begun, lambda m: [n for n, p in (*m.named_parameters(), *m.named_buffers()) if not _is_frozen(p)]
        ),
        "data_parallel.same_start.trainable_only": partial(
            _begun, lambda m: [name for name, one in m.named_parameters() if one.requires_grad]
        ),
        "data_parallel.same_start.averaged": _averaged_start,
        "data_parallel.same_start.last": _started_as_last,
    },
    sent=lambda example, size: 1.01 * sum(tensor.nbytes for tensor in _state(_started(example, 0)).values()),
)


def _is_frozen(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter) and not tensor.requires_grad


class Branched(nn.Module):
    """A trunk, and two branches of the same shape: a row goes through one of them. Alike on every rank."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Linear(3, 4)
        self.branches = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
        self.double()

    def forward(self, inputs: Tensor, branch: Tensor) -> Tensor:
        inside = torch.tanh(self.trunk(inputs))
        outputs = inside.new_zeros(len(inputs), 2)
        for number, layer in enumerate(self.branches):
            if bool((branch == number).any()):
                outputs[branch == number] = layer(inside[branch == number])
        return outputs


def _rows(example: Example, rank: int) -> int:
    return int(example["rows"][rank])


def _batch(example: Example, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """A rank's inputs, its targets, and the branch of each row: of its own number only, or both in turn."""
    draw, count = torch.Generator().manual_seed(100 + rank), _rows(example, rank)
    inputs, targets = (torch.randn(count, width, generator=draw, dtype=torch.float64) for width in (3, 2))
    branch = torch.full((count,), rank % 2) if example["branches"] == "one" else torch.arange(count) % 2
    return inputs, targets, branch


def _backward(batches: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Branched:
    """The model after the backward pass of the mean loss over all rows of the batches."""
    model = Branched()
    inputs, targets, branch = (torch.cat(part) for part in zip(*batches, strict=True))
    functional.mse_loss(model(inputs, branch), targets).backward()
    return model


def _gradients(model: nn.Module) -> dict[str, Tensor | None]:
    return {name: one.grad for name, one in model.named_parameters()}


def _or_zero(model: nn.Module) -> State:
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.detach() for name, p in model.named_parameters()}


def _whole_batch(example: Example, size: int) -> list[State]:
    model = _backward([_batch(example, rank) for rank in range(size)])
    return [_or_zero(model)] * size


def _weighted(weight: Callable[[int, int, int, int], float], example: Example, size: int) -> list[State]:
    """Sums of all ranks' gradients; ``weight(rows of the sender, all rows, ranks, rows of the receiver)``."""
    rows = [_rows(example, rank) for rank in range(size)]
    own = [_or_zero(_backward([_batch(example, rank)])) for rank in range(size)]

    def of(name: str, rank: int) -> Tensor:
        parts = (own[one][name] * weight(rows[one], sum(rows), size, rows[rank]) for one in range(size))
        return torch.stack(list(parts)).sum(0)

    return [{name: of(name, rank) for name in own[0]} for rank in range(size)]


def _alone(example: Example, size: int) -> list[State]:
    return [_or_zero(_backward([_batch(example, rank)])) for rank in range(size)]


def _kept(example: Example, size: int) -> list[State]:
    """Right, but a rank that has not used a parameter still has no gradient for it."""
    right = _whole_batch(example, size)
    own = [_gradients(_backward([_batch(example, rank)])) for rank in range(size)]
    return [
        {name: torch.zeros_like(one) if own[rank][name] is None else one for name, one in right[rank].items()}
        for rank in range(size)
    ]


def _skipped(weight: Callable[[int, int, int], float], example: Example, size: int) -> list[State]:
    """Ranks exchange what has a gradient, one after the other: the k-th of each rank, whatever it is."""
    rows = [_rows(example, rank) for rank in range(size)]
    models = [_backward([_batch(example, rank)]) for rank in range(size)]
    used = [[name for name, one in _gradients(model).items() if one is not None] for model in models]
    found = [_or_zero(model) for model in models]
    own = [dict(state) for state in found]
    for names in zip_longest(*used):
        if None in names or len({own[rank][name].shape for rank, name in enumerate(names)}) > 1:
            return []  # it would hang
        parts = [own[rank][name] * weight(rows[rank], sum(rows), size) for rank, name in enumerate(names)]
        for rank, name in enumerate(names):
            found[rank][name] = torch.stack(parts).sum(0)
    return found


def _uneven(size: int) -> list[int]:
    return [(5, 2, 3, 4)[rank % 4] for rank in range(size)]


def _reduced(example: Example, size: int) -> float:
    """Bytes of an all-reduce of all gradients, with a few numbers beside each."""
    numbers = sum(one.numel() + 2 for one in Branched().parameters()) + 2
    return numbers * ITEM * contract_of("all_reduce").factor(size)


AVERAGE_GRADIENTS = Experiment(
    examples=lambda size: [
        {"rows": [4] * size, "branches": "both"},
        {"rows": _uneven(size), "branches": "both"},
        {"rows": _uneven(size), "branches": "one"},
    ],
    arguments=lambda example, rank, size: (_backward([_batch(example, rank)]), _rows(example, rank)),
    outcome=lambda arguments, value: _or_zero(arguments[0]),
    expected=_whole_batch,
    mistakes={
        "data_parallel.average_gradients.alone": _alone,
        "data_parallel.average_gradients.means": partial(_weighted, lambda mine, total, size, theirs: 1 / size),
        "data_parallel.average_gradients.sums": partial(_weighted, lambda mine, total, size, theirs: 1.0),
        "data_parallel.average_gradients.no_total": partial(_weighted, lambda mine, total, size, theirs: mine),
        "data_parallel.average_gradients.by_ranks": partial(_weighted, lambda mine, total, size, theirs: mine / size),
        "data_parallel.average_gradients.twice": partial(
            _weighted, lambda mine, total, size, theirs: mine / total / size
        ),
        "data_parallel.average_gradients.own_rows": partial(_weighted, lambda mine, total, size, theirs: mine / theirs),
        "data_parallel.average_gradients.own_total": partial(_weighted, lambda mine, total, size, theirs: 1 / total),
        "data_parallel.average_gradients.inverse": partial(
            _weighted, lambda mine, total, size, theirs: total / mine / size**2
        ),
        "data_parallel.average_gradients.after": partial(_weighted, lambda mine, total, size, theirs: theirs / total),
        "data_parallel.average_gradients.kept": _kept,
        "data_parallel.average_gradients.skipped": partial(_skipped, lambda mine, total, size: mine / total),
        "data_parallel.average_gradients.skipped_means": partial(_skipped, lambda mine, total, size: 1 / size),
    },
    sent=_reduced,
    tolerance=1e-6,  # count / total of two whole numbers is a float32 in torch
)


DATA_PARALLEL: Mapping[str, Experiment] = {
    "same_start": SAME_START,
    "average_gradients": AVERAGE_GRADIENTS,
    "train_together": TRAIN_TOGETHER,
    "train_on_ring": TRAIN_ON_RING,
}
