"""Lesson 21: the sequence and the vocabulary, split over ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding

from ..experiment import Experiment
from .gradients import Learned, all_reduce_bytes, changed, leaf, learned, numbers, zeros

# gather_places(x) and scatter_sum(x): example = (dimensions before, places a rank, width).


def _share(example: Any, rank: int) -> Tensor:
    leading, places, width = example
    return numbers(70 + rank, *leading, places, width)


def _wide(seed: int, example: Any, size: int) -> Tensor:
    """Of all places."""
    leading, places, width = example
    return numbers(seed, *leading, places * size, width)


def _of_gather(arguments: tuple[Any, ...], value: Any) -> Any:
    (x,) = arguments
    *leading, places, width = x.shape
    gradient = numbers(80 + dist.get_rank(), *leading, places * dist.get_world_size(), width)
    return learned(value, gradient, x=x)


def _gather(example: Any, size: int) -> list[Learned]:
    whole = torch.cat([_share(example, rank) for rank in range(size)], -2)
    total = torch.stack([_wide(80 + rank, example, size) for rank in range(size)]).sum(0)
    return [{"output": whole, "gradient of x": total.chunk(size, -2)[rank]} for rank in range(size)]


def _own_slice(example: Any, size: int) -> Callable[[int, Tensor], Tensor]:
    """Of this rank's own gradient."""
    return lambda rank, _: _wide(80 + rank, example, size).chunk(size, -2)[rank]


def _exchange_bytes(example: Any, size: int) -> float:
    return all_reduce_bytes(_wide(0, example, size), size)


GATHER_PLACES = Experiment(
    examples=lambda n: [((2,), 3, 4), ((), 2, 3)],
    arguments=lambda example, rank, size: (leaf(_share(example, rank)),),
    outcome=_of_gather,
    expected=_gather,
    mistakes={
        "tensor.gather_places.own_slice": lambda e, n: changed(_gather(e, n), x=_own_slice(e, n)),
        "tensor.gather_places.lost": lambda e, n: changed(_gather(e, n), x=lambda _, gradient: zeros(gradient)),
        "tensor.gather_places.mean": lambda e, n: changed(_gather(e, n), x=lambda _, gradient: gradient / n),
    },
    sent=_exchange_bytes,
)


def _summand(example: Any, rank: int, size: int) -> Tensor:
    return _wide(90 + rank, example, size)


def _of_scatter(arguments: tuple[Any, ...], value: Any) -> Any:
    (x,) = arguments
    gradient = numbers(100, *x.shape).chunk(dist.get_world_size(), -2)[dist.get_rank()]
    found = learned(value, gradient, x=x)
    return found and {**found, "x afterwards": x.detach()}


def _scatter(example: Any, size: int) -> list[Learned]:
    each = [_summand(example, rank, size) for rank in range(size)]
    own = torch.stack(each).sum(0).chunk(size, -2)
    gradient = _wide(100, example, size)
    return [{"output": own[rank], "gradient of x": gradient, "x afterwards": x} for rank, x in enumerate(each)]


def _padded(example: Any, size: int) -> Callable[[int, Tensor], Tensor]:
    """The own gradient at the own places, 0 elsewhere."""

    def change(rank: int, gradient: Tensor) -> Tensor:
        parts = list(zeros(gradient).chunk(size, -2))
        parts[rank] = gradient.chunk(size, -2)[rank]
        return torch.cat(parts, -2)

    return change


def _no_sum(example: Any, size: int) -> Callable[[int, Tensor], Tensor]:
    return lambda rank, _: _summand(example, rank, size).chunk(size, -2)[rank]


SCATTER_SUM = Experiment(
    examples=lambda n: [((2,), 3, 4), ((), 2, 3)],
    arguments=lambda example, rank, size: (leaf(_summand(example, rank, size)),),
    outcome=_of_scatter,
    expected=_scatter,
    mistakes={
        "tensor.scatter_sum.no_sum": lambda e, n: changed(_scatter(e, n), output=_no_sum(e, n)),
        "tensor.scatter_sum.no_sum_padded": lambda e, n: changed(_scatter(e, n), output=_no_sum(e, n), x=_padded(e, n)),
        "tensor.scatter_sum.padded": lambda e, n: changed(_scatter(e, n), x=_padded(e, n)),
        "tensor.scatter_sum.lost": lambda e, n: changed(_scatter(e, n), x=lambda _, gradient: zeros(gradient)),
        "tensor.scatter_sum.mean": lambda e, n: changed(_scatter(e, n), output=lambda _, own: own / n),
        "tensor.scatter_sum.share": lambda e, n: changed(_scatter(e, n), x=lambda _, gradient: gradient / n),
        "tensor.scatter_sum.summed": lambda e, n: changed(_scatter(e, n), x=lambda _, gradient: gradient * n),
    },
    sent=_exchange_bytes,
)


# embed(tokens, weight): example = (shape of the tokens, rows a rank, width).


def _tokens(example: Any, size: int) -> Tensor:
    shape, rows, _ = example
    return torch.randint(rows * size, shape, generator=torch.Generator().manual_seed(110))


def _table(example: Any, size: int) -> Tensor:
    _, rows, width = example
    return numbers(111, rows * size, width)


def _of_embed(arguments: tuple[Any, ...], value: Any) -> Any:
    tokens, weight = arguments
    return learned(value, numbers(112, *tokens.shape, weight.shape[1]), weight=weight)


def _embedded(look: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[[Any, int], list[Learned]]:
    """The table whose ranks look up so; ``look``: (tokens, a rank's rows, the first of them) → its summand."""

    def found(example: Any, size: int) -> list[Learned]:
        rows = [leaf(part) for part in _table(example, size).chunk(size)]
        tokens, count = _tokens(example, size), example[1]
        out = torch.stack([look(tokens, part, rank * count) for rank, part in enumerate(rows)]).sum(0)
        out.backward(numbers(112, *out.shape))
        return [{"output": out.detach(), "gradient of weight": part.grad} for part in rows]

    return found


def _foreign(tokens: Tensor, rows: Tensor, first: int) -> Tensor:
    return (tokens < first) | (tokens >= first + len(rows))


def _unmasked(inside: Callable[[Tensor, int], Tensor]) -> Callable[[Tensor, Tensor, int], Tensor]:
    """Foreign tokens are brought to a row of this rank's, and looked up there."""
    return lambda tokens, rows, first: embedding(inside(tokens - first, len(rows)), rows)


def _one_too_many(tokens: Tensor, rows: Tensor, first: int) -> Tensor:
    """The next rank's first token counts as this rank's, and finds its last row."""
    foreign = (tokens < first) | (tokens > first + len(rows))
    return embedding((tokens - first).clamp(0, len(rows) - 1), rows).masked_fill(foreign.unsqueeze(-1), 0)


def _embed(example: Any, size: int) -> list[Learned]:
    table, tokens = leaf(_table(example, size)), _tokens(example, size)
    out = embedding(tokens, table)
    out.backward(numbers(112, *out.shape))
    assert table.grad is not None
    return [{"output": out.detach(), "gradient of weight": part} for part in table.grad.chunk(size)]


def _own_rows_only(example: Any, size: int) -> list[Learned]:
    """The right summand of each rank, without the sum."""
    right, tokens, rows = _embed(example, size), _tokens(example, size), _table(example, size).chunk(size)

    def summand(rank: int, out: Tensor) -> Tensor:
        return out.masked_fill(_foreign(tokens, rows[rank], rank * example[1]).unsqueeze(-1), 0)

    return changed(right, output=summand)


EMBED = Experiment(
    examples=lambda n: [((2, 6), 3, 4), ((9,), 2, 3)],
    arguments=lambda example, rank, size: (
        _tokens(example, size),
        leaf(_table(example, size).chunk(size)[rank]),
    ),
    outcome=_of_embed,
    expected=_embed,
    mistakes={
        "tensor.embed.first_row": _embedded(
            _unmasked(lambda local, rows: local.masked_fill((local < 0) | (local >= rows), 0))
        ),
        "tensor.embed.clamped": _embedded(_unmasked(lambda local, rows: local.clamp(0, rows - 1))),
        "tensor.embed.modulo": _embedded(_unmasked(lambda local, rows: local % rows)),
        "tensor.embed.border": _embedded(_one_too_many),
        "tensor.embed.no_sum": _own_rows_only,
        "tensor.embed.both": lambda e, n: changed(_embed(e, n), weight=lambda _, gradient: n * gradient),
    },
    sent=lambda example, n: all_reduce_bytes(numbers(0, *example[0], example[2]), n),
)


# cross_entropy(logits, targets): example = (tokens, columns a rank, how large the logits are).


def _logits(example: Any, size: int) -> Tensor:
    tokens, columns, scale = example
    return numbers(120, tokens, columns * size).mul(scale)


def _targets(example: Any, size: int) -> Tensor:
    tokens, columns, _ = example
    return torch.randint(columns * size, (tokens,), generator=torch.Generator().manual_seed(121))


def _of_loss(arguments: tuple[Any, ...], value: Any) -> Any:
    logits, _ = arguments
    return learned(value, torch.tensor(2.0, dtype=torch.float64), logits=logits)


def _loss(example: Any, size: int) -> list[Learned]:
    logits = leaf(_logits(example, size))
    loss = cross_entropy(logits, _targets(example, size))
    (2 * loss).backward()
    assert logits.grad is not None
    return [{"output": loss.detach(), "gradient of logits": part} for part in logits.grad.chunk(size, -1)]


def _mistaken(**how: bool) -> Callable[[Any, int], Sequence[Any]]:
    """The loss with classic faults, of all ranks in one process. own_max: no rank knows the others'. no_max: nothing is
    subtracted. on_all: every rank gives a logit for a foreign target, its first one. twice: the backward sums, too."""

    def found(example: Any, size: int) -> list[Learned]:
        parts = [leaf(one) for one in _logits(example, size).chunk(size, -1)]
        targets, columns = _targets(example, size), example[1]
        largest = torch.cat([one.detach() for one in parts], -1).amax(-1, keepdim=True)
        total: Any = 0
        at_target: Any = 0
        for rank, one in enumerate(parts):
            top = one.detach().amax(-1, keepdim=True) if how.get("own_max") else largest
            shifted = one if how.get("no_max") else one - top
            local = targets - rank * columns
            foreign = (local < 0) | (local >= columns)
            own = shifted.gather(-1, local.masked_fill(foreign, 0).unsqueeze(-1)).squeeze(-1)
            total = total + shifted.exp().sum(-1)
            at_target = at_target + (own if how.get("on_all") else own.masked_fill(foreign, 0))
        loss = (total.log() - at_target).mean()
        (2 * loss).backward()
        times = size if how.get("twice") else 1
        gradients = [times * (zeros(one) if one.grad is None else one.grad) for one in parts]
        return [{"output": loss.detach(), "gradient of logits": gradient} for gradient in gradients]

    return found


def _no_sum_of_exponentials(example: Any, size: int) -> list[Any]:
    """Each rank's softmax is over its own columns."""
    parts = [leaf(one) for one in _logits(example, size).chunk(size, -1)]
    largest = torch.cat([one.detach() for one in parts], -1).amax(-1, keepdim=True)
    targets, columns, at_target = _targets(example, size), example[1], torch.zeros(example[0], dtype=torch.float64)
    own_losses = []
    for rank, one in enumerate(parts):
        local = targets - rank * columns
        foreign = (local < 0) | (local >= columns)
        own = (one - largest).gather(-1, local.masked_fill(foreign, 0).unsqueeze(-1)).squeeze(-1)
        at_target = at_target + own.masked_fill(foreign, 0)
        own_losses.append((one - largest).exp().sum(-1).log())
    outcomes = []
    for one, own_loss in zip(parts, own_losses, strict=True):
        loss = (own_loss - at_target).mean()
        (gradient,) = torch.autograd.grad(2 * loss, one, retain_graph=True)
        outcomes.append({"output": loss.detach(), "gradient of logits": gradient})
    return outcomes


def _summed(example: Any, size: int) -> list[Learned]:
    tokens = example[0]
    return changed(_loss(example, size), output=lambda _, loss: loss * tokens, logits=lambda _, one: one * tokens)


CROSS_ENTROPY = Experiment(
    examples=lambda n: [(12, 3, 1.0), (12, 2, 900.0)],  # exp of the second one's overflows; 2, 3 and 4 divide 12
    arguments=lambda example, rank, size: (
        leaf(_logits(example, size).chunk(size, -1)[rank]),
        _targets(example, size),
    ),
    outcome=_of_loss,
    expected=_loss,
    mistakes={
        "tensor.cross_entropy.own_max": _mistaken(own_max=True),
        "tensor.cross_entropy.on_all": _mistaken(on_all=True),
        "tensor.cross_entropy.on_all_own_max": _mistaken(on_all=True, own_max=True),
        "tensor.cross_entropy.both": _mistaken(twice=True),
        "tensor.cross_entropy.own_softmax": _no_sum_of_exponentials,
        "tensor.cross_entropy.summed": _summed,
    },
    sent=lambda example, n: 3 * all_reduce_bytes(numbers(0, example[0]), n),
)

VOCABULARY: Mapping[str, Experiment] = {
    "gather_places": GATHER_PLACES,
    "scatter_sum": SCATTER_SUM,
    "embed": EMBED,
    "cross_entropy": CROSS_ENTROPY,
}
