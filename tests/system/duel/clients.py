"""What is timed: one training step of a client of PyTorch's, or one collective, on a group of a given backend."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

WIDTH, DEPTH, BATCH = 2048, 6, 64  # 25.2 million parameters

Step = Callable[[], object]


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(DEPTH)))


def ddp(group: dist.ProcessGroup) -> Step:
    """DDP with its default buckets, which are views of the gradients."""
    wrapped = nn.parallel.DistributedDataParallel(model(), process_group=group, gradient_as_bucket_view=True)
    return _training(wrapped, wrapped.parameters())


def fsdp2(group: dist.ProcessGroup) -> Step:
    """FSDP2, block by block, and the rest at the root."""
    sharded, mesh = copy.deepcopy(model()), DeviceMesh.from_group(group, "cpu")
    for block in sharded:
        fully_shard(block, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    return _training(sharded, sharded.parameters())


def _training(wrapped: nn.Module, parameters: object) -> Step:
    optimizer = torch.optim.SGD(parameters, lr=0.01)  # type: ignore[arg-type]
    data = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))

    def step() -> None:
        wrapped(data).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def reduce_scatter(nbytes: int) -> Callable[[dist.ProcessGroup], Step]:
    def client(group: dist.ProcessGroup) -> Step:
        ranks = dist.get_world_size(group)
        whole = torch.zeros(max(ranks, nbytes // 4 // ranks * ranks))
        part = torch.empty(len(whole) // ranks)
        return lambda: dist.reduce_scatter_tensor(part, whole, group=group)

    return client


def all_reduce(nbytes: int) -> Callable[[dist.ProcessGroup], Step]:
    def client(group: dist.ProcessGroup) -> Step:
        data = torch.zeros(max(1, nbytes // 4))
        return lambda: dist.all_reduce(data, group=group)

    return client


def all_gather(nbytes: int) -> Callable[[dist.ProcessGroup], Step]:
    def client(group: dist.ProcessGroup) -> Step:
        ranks = dist.get_world_size(group)
        part = torch.zeros(max(1, nbytes // 4 // ranks))
        whole = torch.empty(len(part) * ranks)
        return lambda: dist.all_gather_into_tensor(whole, part, group=group)

    return client


TRAINING = {"ddp": ddp, "fsdp2": fsdp2}
COLLECTIVES = {"all_reduce": all_reduce, "reduce_scatter": reduce_scatter, "all_gather": all_gather}
