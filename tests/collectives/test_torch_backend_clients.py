"""Unmodified PyTorch on backend ``ring``: what it trains equals what it trains on gloo."""

from __future__ import annotations

import importlib

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional_collectives
import torch.distributed.checkpoint
import torch.distributed.nn
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import collectives.torch_backend
from collectives import launch

pytestmark = pytest.mark.timeout(100)

Values = dict[str, torch.Tensor]


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    """What torch loads when it is first needed (by a compilation, an optimizer, a checkpoint): once for all ranks."""
    for module in ("torch._dynamo.backends.debugging", "torch._inductor.compile_fx", "fsspec"):
        importlib.import_module(module)


class Model(nn.Module):
    """Odd sizes; ``tied``: two layers share a weight; ``unused``: rank 0 leaves the last layer out."""

    def __init__(self, tied: bool = False, unused: bool = False) -> None:
        super().__init__()
        torch.manual_seed(dist.get_rank())  # ranks differ until they are made equal
        self.layers = nn.ModuleList([nn.Linear(7, 13), nn.Linear(13, 7), nn.Linear(7, 13), nn.Linear(13, 3)])
        self.last = nn.Linear(3, 3)
        self.unused = unused
        if tied:
            self.layers[2].weight = self.layers[0].weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x if self.unused and dist.get_rank() == 0 else self.last(x)


def same_model(**how: bool) -> Model:
    """One that is equal on all ranks, for those who do not make it so."""
    model = Model(**how)
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / 3)
    return model


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1000 + 100 * step + dist.get_rank())
    return torch.randn(5, 7), torch.randn(5, 3)


def trained(model: nn.Module, optimizer: torch.optim.Optimizer | None = None, clip: float | None = None) -> Values:
    """The parameters after four steps."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    norms = []
    for step in range(4):
        x, y = batch(step)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        if clip is not None:
            norms.append(whole(nn.utils.clip_grad_norm_(model.parameters(), clip)))
        optimizer.step()
    return parameters(model) | {f"norm {i}": norm for i, norm in enumerate(norms)}


def parameters(model: nn.Module) -> Values:
    return {name: whole(parameter) for name, parameter in model.named_parameters()}


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


# Data parallel.


def ddp(hook=None, tied: bool = False, unused: bool = False, **how) -> Values:
    model = DistributedDataParallel(Model(tied, unused), bucket_cap_mb=0.0005, **how)  # several buckets
    if hook is not None:
        model.register_comm_hook(None, hook)
    return trained(model)


def ddp_sparse() -> Values:
    """The embedding's gradient is sparse; ranks look up different rows."""
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Sequential(nn.EmbeddingBag(11, 4, sparse=True), nn.Linear(4, 3)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        torch.manual_seed(100 * step + dist.get_rank())
        optimizer.zero_grad()
        model(torch.randint(11, (5, 2))).square().mean().backward()
        optimizer.step()
    return parameters(model)


def ddp_accumulates() -> Values:
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        with model.no_sync():
            for more in (10, 20):
                x, y = batch(step + more)
                (model(x) - y).square().mean().backward()
        x, y = batch(step)
        (model(x) - y).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return parameters(model)


def ddp_uneven() -> Values:
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with model.join():
        for step in range(2 + dist.get_rank()):
            x, y = batch(step)
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
    return parameters(model)


def ddp_buffers() -> Values:
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Sequential(nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)))
    values = trained(model)
    return values | {name: buffer.clone() for name, buffer in model.named_buffers()}


def zero() -> Values:
    model = DistributedDataParallel(Model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    values = trained(model, optimizer)
    optimizer.consolidate_state_dict(0)
    return values


# Fully sharded.


def fsdp(
    reduce_dtype: torch.dtype | None = None,
    clip: float | None = None,
    state: bool = False,
    columns: int | None = None,
    **how,
) -> Values:
    model = same_model()
    size = dist.get_world_size()
    if reduce_dtype is not None:
        how["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce_dtype)
    if columns is not None:
        how["mesh"] = init_device_mesh("cpu", (size // columns, columns), mesh_dim_names=("copies", "shards"))
    for layer in model.layers:
        fully_shard(layer, **how)
    fully_shard(model, **how)
    values = trained(model, clip=clip)
    if state:
        full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        values |= {f"state {name}": value for name, value in full.items()}
    return values


# DTensor and tensor parallel.


def tensor_parallel() -> Values:
    torch.manual_seed(0)
    size = dist.get_world_size()
    model = nn.Sequential(nn.Linear(8, 12 * size), nn.ReLU(), nn.Linear(12 * size, 8))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(model, init_device_mesh("cpu", (size,)), plan)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        torch.manual_seed(step)  # the same input on every rank
        optimizer.zero_grad()
        model(torch.randn(5, 8)).square().mean().backward()
        optimizer.step()
    return parameters(model)


def dtensor() -> Values:
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    x = torch.arange(35.0).view(5, 7) + 100 * dist.get_rank()
    dealt = distribute_tensor(x, mesh, [Shard(0)])  # rank 0's counts
    other = distribute_tensor(x + 1, mesh, [Shard(1)])
    partial = DTensor.from_local(x, mesh, [Partial()])
    results = {
        "dealt": dealt,
        "other": other,
        "turned": dealt.redistribute(mesh, [Shard(1)]),
        "copied": distribute_tensor(x, mesh, [Replicate()]),
        "summed": partial.redistribute(mesh, [Replicate()]),
        "scattered": partial.redistribute(mesh, [Shard(0)]),
        "product": dealt @ other.T,
    }
    return {name: whole(value) for name, value in results.items()}


# Functional collectives, and those with a gradient.


def functional() -> Values:
    group, rank, size = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    x = torch.arange(4.0 * size).view(2 * size, 2) + 100 * rank
    f = functional_collectives
    out = [
        *(f.all_reduce(x, op, group) for op in ("sum", "avg", "max")),
        *(f.all_gather_tensor(x, dim, group) for dim in (0, 1)),
        *(f.reduce_scatter_tensor(x, "sum", dim, group) for dim in (0,)),
        f.all_to_all_single(x, None, None, group),
        f.broadcast(x, 1, group),
        *f.all_reduce_coalesced([x, 2 * x], "sum", group),
        *f.all_gather_into_tensor_coalesced([x, 3 * x], group),
        *f.reduce_scatter_tensor_coalesced([x, 2 * x], "sum", [0, 0], group),
    ]
    return {str(i): f.wait_tensor(tensor).clone() for i, tensor in enumerate(out)}


def with_gradients() -> Values:
    x = (torch.arange(6.0) + 10 * dist.get_rank()).requires_grad_()
    f = torch.distributed.nn.functional
    total = f.all_reduce(x.square()).sin().sum() + torch.stack(f.all_gather(x.cos())).square().sum()
    (total + f.broadcast(x, 0).square().sum()).backward()
    return {"total": total.detach(), "gradient": x.grad}


# Pipelines.


def pipeline(kind, chunks: int = 1) -> Values:
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(chunks * size)]
    mine = [rank + chunk * size for chunk in range(chunks)]
    stages = [PipelineStage(layers[i], i, chunks * size, torch.device("cpu")) for i in mine]
    schedule = kind(
        stages if chunks > 1 else stages[0],
        n_microbatches=2 * size,
        loss_fn=lambda out, target: (out - target).square().mean(),
    )
    weights = [parameter for i in mine for parameter in layers[i].parameters()]
    optimizer = torch.optim.SGD(weights, 0.1)
    for step in range(3):
        torch.manual_seed(50 + step)
        x, y = torch.randn(8 * size, 8), torch.randn(8 * size, 8)
        optimizer.zero_grad()
        given = [x] if rank == 0 else []
        schedule.step(*given, **({"target": y} if rank == size - 1 else {}))
        optimizer.step()
    return {str(i): weight.detach().clone() for i, weight in enumerate(weights)}


# Distributed checkpoint.


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict]:
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))


def checkpoint(folder: str, save: bool) -> Values:
    """Trained and saved, or loaded and trained on."""
    torch.manual_seed(save)
    model = sharded(Model())
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    if save:
        trained(model, optimizer)
        torch.distributed.checkpoint.save(state_of(model, optimizer), checkpoint_id=folder)
    else:
        state = state_of(model, optimizer)
        torch.distributed.checkpoint.load(state, checkpoint_id=folder)
        states = {"model_state_dict": state["model"], "optim_state_dict": state["optimizer"]}
        set_state_dict(model, optimizer, **states)
    return {"before " + name: value for name, value in parameters(model).items()} | trained(model, optimizer)


@pytest.mark.parametrize(("saved_on", "loaded_on"), [(3, 3), (2, 4), (4, 2)])
def test_distributed_checkpoint(tmp_path, ring_ranks, ranks, saved_on, loaded_on):
    """What was saved is what is loaded, on as many ranks or others, and gloo reads ring's."""
    saved = ring_ranks(saved_on, checkpoint, str(tmp_path), True)
    ours = ring_ranks(loaded_on, checkpoint, str(tmp_path), False)
    gloos = ranks(loaded_on, checkpoint, str(tmp_path), False)
    for mine, wanted in zip(ours, gloos, strict=True):
        for name, value in wanted.items():
            torch.testing.assert_close(mine[name], value, rtol=1e-5, atol=1e-5)
            if name.startswith("before ") or saved_on == loaded_on:
                assert torch.equal(mine[name], saved[0][name])


# Compiled.


def compiled(wrap) -> Values:
    torch._dynamo.reset()
    return trained(torch.compile(wrap(same_model()), backend="aot_eager"))


def sharded(model: Model) -> nn.Module:
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def compiled_collectives() -> Values:
    torch._dynamo.reset()

    @torch.compile(backend="aot_eager")
    def function(x: torch.Tensor) -> torch.Tensor:
        y = 2 * x
        dist.all_reduce(y)
        z = y + 1
        work = dist.all_reduce(z, async_op=True)
        dist.barrier()
        work.wait()
        return z + functional_collectives.all_reduce(x, "sum", dist.group.WORLD)

    return {"value": function(torch.arange(3.0) + dist.get_rank())}


CLIENTS = {
    "ddp": ddp,
    "ddp, static graph": lambda: ddp(static_graph=True),
    "ddp, unused parameters": lambda: ddp(unused=True, find_unused_parameters=True),
    "ddp, tied weights": lambda: ddp(tied=True),
    "ddp, gradients are bucket views": lambda: ddp(gradient_as_bucket_view=True),
    "ddp, all-reduce hook": lambda: ddp(default_hooks.allreduce_hook),
    "ddp, fp16 hook": lambda: ddp(default_hooks.fp16_compress_hook),
    "ddp, sparse gradients": ddp_sparse,
    "ddp, no_sync": ddp_accumulates,
    "ddp, join": ddp_uneven,
    "ddp, buffers": ddp_buffers,
    "zero": zero,
    "fsdp": fsdp,
    "fsdp, no reshard": lambda: fsdp(reshard_after_forward=False),
    "fsdp, bf16 in fp32": lambda: fsdp(torch.float32),
    "fsdp, bf16 in bf16": lambda: fsdp(torch.bfloat16),
    "fsdp, clip": lambda: fsdp(clip=0.1),
    "fsdp, state dict": lambda: fsdp(state=True),
    "hsdp": lambda: fsdp(columns=dist.get_world_size() // 2 or 1),
    "tensor parallel": tensor_parallel,
    "dtensor": dtensor,
    "functional": functional,
    "gradients of collectives": with_gradients,
    "ddp, compiled": lambda: compiled(DistributedDataParallel),
    "ddp, compiled, static graph": lambda: compiled(lambda m: DistributedDataParallel(m, static_graph=True)),
    "fsdp, compiled": lambda: compiled(sharded),
    "collectives, compiled": compiled_collectives,
    "gpipe": lambda: pipeline(ScheduleGPipe),
    "1f1b": lambda: pipeline(Schedule1F1B),
    "interleaved": lambda: pipeline(ScheduleInterleaved1F1B, chunks=2),
}
ROUNDED = {"ddp, fp16 hook", "fsdp, bf16 in fp32", "fsdp, bf16 in bf16"}  # sums depend on the order of the addends


def run(client: str) -> Values:
    return CLIENTS[client]()


def worlds_of(client: str) -> list[int]:
    if client == "hsdp":
        return [2, 4]  # an odd number of ranks has no two rows
    return [2, 3] if "compiled" in client else [2, 3, 4]  # what is compiled does not depend on the world


@pytest.mark.parametrize(("world", "client"), sorted((w, client) for client in CLIENTS for w in worlds_of(client)))
def test_trains_as_on_gloo(ranks, ring_ranks, client, world):
    ours, gloos = ring_ranks(world, run, client), ranks(world, run, client)
    loose = 2e-3 if client in ROUNDED else 1e-5
    for mine, wanted in zip(ours, gloos, strict=True):
        assert mine.keys() == wanted.keys()
        for name, value in wanted.items():
            torch.testing.assert_close(mine[name], value, rtol=loose, atol=loose, msg=lambda m, n=name: f"{n}: {m}")


def test_ddp_on_the_readers_own_schedule(tmp_path, ranks):
    """The ring of the README, from a file."""
    (tmp_path / "mine.py").write_text(
        """
from collectives import Recv, Reduce, Send


def ring(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
    for step in range(size - 1):
        yield Send((rank - step) % size, to=right), Recv((rank - step - 1) % size, source=left)
"""
    )

    def prepare():
        collectives.torch_backend.register("ring:mine", f"{tmp_path}/mine.py:ring")

    ours = launch.run(run, 3, "ddp", backend="ring:mine", prepare=prepare, timeout=60)
    for mine, wanted in zip(ours, ranks(3, run, "ddp"), strict=True):
        for name, value in wanted.items():
            torch.testing.assert_close(mine[name], value)


@pytest.mark.parametrize("algorithm", ["ring", "double_tree", "recursive_doubling", "direct"])
def test_ddp_ends_with_the_same_bits_on_every_rank(algorithm):
    values = launch.run(run, 3, "ddp", backend=f"ring:{algorithm}", prepare=prepare, timeout=60)
    for other in values[1:]:
        assert all(torch.equal(other[name], value) for name, value in values[0].items())


def prepare():
    import collectives.torch_backend  # noqa: F401
