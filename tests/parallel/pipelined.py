"""What the tests of the pipeline engine share: a small GPT of odd sizes, whole and cut, and a batch for it."""

from __future__ import annotations

import torch
import torch.distributed as dist

from parallel.model import GPT, NO_TARGET, Config, cross_entropy
from parallel.pipeline import Stages, find
from parallel.pipeline.engine import Pipeline
from parallel.pipeline.splitting import split

VOCABULARY, LENGTH = 37, 9


def whole(layers, dtype=torch.float64, tied=True):
    torch.manual_seed(0)
    model = GPT(Config(layers, hidden=12, heads=3, vocabulary=VOCABULARY, positions=LENGTH)).to(dtype)
    if not tied:
        model.head.weight = torch.nn.Parameter(model.head.weight.detach() + 0.25)
    return model


def batch(rows, seed=5):
    """Tokens and targets; a third of the targets do not count, most of them of the first row."""
    seeded = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, VOCABULARY, (rows, LENGTH + 1), generator=seeded)
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[0, 1:] = NO_TARGET
    targets[-1, ::3] = NO_TARGET
    return inputs, targets


def loss_sum(output, targets):
    return cross_entropy(output, targets)[0]


def valid(targets):
    return (targets != NO_TARGET).sum()


def pipeline(model, schedule, microbatches, chunks=None, group=None, **options):
    """The whole model, cut for this rank, in a pipeline."""
    if hasattr(group, "group"):
        rank, ranks = group.coordinates()["pp"], group.axes["pp"]
    else:
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    parts, tied = split(model, Stages(find(schedule), ranks, chunks), rank)
    options = {"loss": loss_sum, "count": valid, "tied": tied, "timeout": 60, **options}
    return Pipeline(parts, schedule, microbatches, group=group, **options)


def one_process(model, batches, optimizer=None, rows=batch):
    """Loss of each batch of so many rows, the gradients of the last, and the parameters in the end."""
    stepper = optimizer(model.parameters()) if optimizer else None
    losses = []
    for number, count in enumerate(batches):
        model.zero_grad()
        inputs, targets = rows(count, seed=number)
        total, valid_tokens = cross_entropy(model(inputs), targets)
        loss = total / valid_tokens
        loss.backward()
        losses.append(loss.item())
        if stepper is not None:
            stepper.step()
    named = dict(model.named_parameters(remove_duplicate=False))
    return losses, {n: p.grad for n, p in named.items()}, {n: p.detach() for n, p in named.items()}


def worst(pipe, wanted, of):
    """The largest difference of this rank's tensors from the whole model's, by parameter name."""
    return max((of(p) - wanted[name]).abs().max().item() for name, p in pipe.named_parameters())
