"""The same job on torch's own tensor parallelism: DTensor, with its plans for columns and rows, on the same ranks."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

from parallel.attention import Attention
from parallel.model import MLP
from parallel.tensor import ParallelAttention, ParallelMLP, TensorParallel, whole

HIDDEN, HEADS = 24, 12


class Block(nn.Module):
    """Attention and MLP with residuals, no norms; torch's plan needs queries, keys and values apart."""

    def __init__(self, attention: nn.Module, mlp: nn.Module) -> None:
        super().__init__()
        self.attention, self.mlp = attention, mlp

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.mlp(x)


class Apart(nn.Module):
    """The plain attention with its fused matrix in three."""

    def __init__(self, fused: Attention) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(HIDDEN, HIDDEN).double() for _ in range(3))
        for layer, weight, bias in zip(
            (self.query, self.key, self.value), fused.qkv.weight.chunk(3), fused.qkv.bias.chunk(3), strict=True
        ):
            layer.weight.data, layer.bias.data = weight.detach().clone(), bias.detach().clone()
        self.projection = fused.projection

    def forward(self, x):
        heads = [
            layer(x).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.projection(mixed.transpose(1, 2).flatten(2))


def parts():
    torch.manual_seed(0)
    return Attention(HIDDEN, HEADS).double(), MLP(HIDDEN).double()


PLAN = {
    **{f"attention.{name}": ColwiseParallel for name in ("query", "key", "value")},
    "attention.projection": RowwiseParallel,
    "mlp.up": ColwiseParallel,
    "mlp.down": RowwiseParallel,
}


def trained(block):
    """Outputs and input gradients of five steps."""
    stepper = torch.optim.AdamW(block.parameters(), lr=1e-2, eps=1e-4)
    found = []
    for step in range(5):
        x = torch.randn(3, 7, HIDDEN, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        x.requires_grad_()
        stepper.zero_grad()
        y = block(x)
        y.square().mean().backward()
        found += [y.detach(), x.grad]
        stepper.step()
    return found


def side_by_side():
    tp = TensorParallel()
    attention, mlp = parts()
    ours = Block(ParallelAttention(attention, tp), ParallelMLP(mlp, tp))
    attention, mlp = parts()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    theirs = parallelize_module(Block(Apart(attention), mlp), mesh, {name: style() for name, style in PLAN.items()})
    differences = [(a - b).abs().max().item() for a, b in zip(trained(ours), trained(theirs), strict=True)]
    full = {name: p.full_tensor().detach() for name, p in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        mine = whole(parameter, parameter, tp)
        if "qkv" in name:
            kind = name.rsplit(".", 1)[1]
            other = torch.cat([full[f"attention.{part}.{kind}"] for part in ("query", "key", "value")])
        else:
            other = full[name]
        differences.append((mine - other).abs().max().item())
    return max(differences)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_torch_comes_to_the_same(ranks, size):
    assert max(ranks(size, side_by_side)) < 1e-9
