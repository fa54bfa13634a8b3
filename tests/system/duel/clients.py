"""What is timed: one training step of a data-parallel client, or one collective, on a group of a given backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import parallel
from parallel.model import GPT, MLP, SIZES, Config, cross_entropy
from parallel.tensor import ParallelMLP

WIDTH, DEPTH, BATCH = 2048, 6, 64  # 25.2 million parameters
ROWS, LENGTH = 2, 64  # of tokens, a rank's

Step = Callable[[], Any]
Loss = Callable[[], torch.Tensor]
Client = Callable[[dist.ProcessGroup], Step]


def ddp(group: dist.ProcessGroup) -> Step:
    """DDP with its default buckets, which are views of the gradients."""
    wrapped = nn.parallel.DistributedDataParallel(layers(), process_group=group, gradient_as_bucket_view=True)
    return _training(_squares(wrapped), wrapped.parameters())


def fsdp2(group: dist.ProcessGroup) -> Step:
    """FSDP2, block by block, and the rest at the root."""
    model = layers()
    sharded = _cut(model, model, group)
    return _training(_squares(sharded), sharded.parameters())


def gpt_ddp(group: dist.ProcessGroup) -> Step:
    wrapped = nn.parallel.DistributedDataParallel(gpt(), process_group=group, gradient_as_bucket_view=True)
    return _training(_cross_entropy(wrapped), wrapped.parameters())


def gpt_our_ddp(group: dist.ProcessGroup) -> Step:
    wrapped = parallel.DistributedDataParallel(gpt(), group)
    return _training(_cross_entropy(wrapped), wrapped.parameters())


def gpt_fsdp2(group: dist.ProcessGroup) -> Step:
    model = gpt()
    sharded = _cut(model, model.blocks, group)
    return _training(_cross_entropy(sharded), sharded.parameters())


def gpt_our_zero3(group: dist.ProcessGroup) -> Step:
    zero = parallel.Zero(gpt(), sgd, stage=3, group=group)
    return _steps(_cross_entropy(zero), zero)


class Residual(nn.Module):
    """x + MLP(x): what tensor parallelism shares, with one sum forward and one backward."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.mlp = MLP(config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.mlp(x)
        return out


def our_tensor_parallel(group: dist.ProcessGroup) -> Step:
    model, tp = residuals(), parallel.TensorParallel(group)
    for block in model:
        block.mlp = ParallelMLP(block.mlp, tp)  # type: ignore[arg-type]
    return _training(_same_squares(model), model.parameters())


def dtensor_tensor_parallel(group: dist.ProcessGroup) -> Step:
    plan = {"*.mlp.up": ColwiseParallel(), "*.mlp.down": RowwiseParallel()}
    model = parallelize_module(residuals(), DeviceMesh.from_group(group, "cpu"), plan)
    return _training(_same_squares(model), model.parameters())


def residuals() -> nn.Sequential:
    """The MLPs of the GPT 25m: 16.8 million parameters."""
    torch.manual_seed(0)
    return nn.Sequential(*(Residual(SIZES["25m"]) for _ in range(SIZES["25m"].layers)))


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(DEPTH)))


def gpt() -> GPT:
    torch.manual_seed(0)
    return GPT(SIZES["25m"])


def sgd(parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)


def _squares(model: Callable[..., torch.Tensor]) -> Loss:
    data = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))
    return lambda: model(data).square().mean()


def _same_squares(model: Callable[..., torch.Tensor]) -> Loss:
    """Tensor-parallel ranks have the same rows."""
    data = torch.randn(ROWS, LENGTH, SIZES["25m"].hidden, generator=torch.Generator().manual_seed(0))
    return lambda: model(data).square().mean()


def _cross_entropy(model: Callable[..., torch.Tensor]) -> Loss:
    numbers = torch.Generator().manual_seed(dist.get_rank())
    rows = torch.randint(SIZES["25m"].vocabulary, (ROWS, LENGTH + 1), generator=numbers)
    tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def loss() -> torch.Tensor:
        total, count = cross_entropy(model(tokens), targets)
        return total / count

    return loss


def _cut(model: nn.Module, blocks: Iterable[nn.Module], group: dist.ProcessGroup) -> nn.Module:
    mesh = DeviceMesh.from_group(group, "cpu")
    for block in blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _training(loss: Loss, parameters: Iterable[torch.Tensor]) -> Step:
    return _steps(loss, sgd(parameters))


def _steps(loss: Loss, optimizer: torch.optim.Optimizer | parallel.Zero) -> Step:
    def step() -> torch.Tensor:
        now = loss()
        now.backward()
        optimizer.step()
        optimizer.zero_grad()
        return now.detach()

    return step


def reduce_scatter(nbytes: int) -> Client:
    def client(group: dist.ProcessGroup) -> Step:
        ranks = dist.get_world_size(group)
        whole = torch.zeros(max(ranks, nbytes // 4 // ranks * ranks))
        part = torch.empty(len(whole) // ranks)
        return lambda: dist.reduce_scatter_tensor(part, whole, group=group)

    return client


def all_reduce(nbytes: int) -> Client:
    def client(group: dist.ProcessGroup) -> Step:
        data = torch.zeros(max(1, nbytes // 4))
        return lambda: dist.all_reduce(data, group=group)

    return client


def all_gather(nbytes: int) -> Client:
    def client(group: dist.ProcessGroup) -> Step:
        ranks = dist.get_world_size(group)
        part = torch.zeros(max(1, nbytes // 4 // ranks))
        whole = torch.empty(len(part) * ranks)
        return lambda: dist.all_gather_into_tensor(whole, part, group=group)

    return client


@dataclass(frozen=True)
class Match:
    """Ours on a group of ``backend``, and PyTorch's on gloo, by name."""

    ours: tuple[str, Client]
    native: tuple[str, Client]
    backend: str = "gloo"


def _on_ring(client: Client) -> Match:
    return Match(("ring", client), ("gloo", client), "ring")


TRAINING = {
    "ddp": _on_ring(ddp),
    "fsdp2": _on_ring(fsdp2),
    "parallel-ddp": Match(("parallel", gpt_our_ddp), ("torch", gpt_ddp)),
    "parallel-tp": Match(("parallel", our_tensor_parallel), ("DTensor", dtensor_tensor_parallel)),
    "parallel-zero-3": Match(("parallel", gpt_our_zero3), ("FSDP2", gpt_fsdp2)),
}
COLLECTIVES = {"all_reduce": all_reduce, "reduce_scatter": reduce_scatter, "all_gather": all_gather}


def match(client: str, nbytes: int) -> Match:
    """By name; of a collective, with so many bytes."""
    return TRAINING[client] if client in TRAINING else _on_ring(COLLECTIVES[client](nbytes))
