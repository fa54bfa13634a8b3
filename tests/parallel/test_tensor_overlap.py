"""Ring products: chunks in the ring's order, the same result as gather then multiply, and no rank left waiting."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from collectives.communicator import communicator
from collectives.errors import CollectiveError
from parallel.tensor import ColumnParallelLinear, TensorParallel
from parallel.tensor.overlap import gather_product, product_scatter, ring_gather, ring_scatter


def walked():
    """Whose chunk came when, with its values; and the sum that reduce-scatter leaves here."""
    tp = TensorParallel(sequence=True)
    seen, made = [], []
    ring_gather(torch.tensor([100.0 * tp.rank, 1.0]), tp, lambda rank, chunk: seen.append((rank, chunk.tolist())))

    def make(rank):
        made.append(rank)
        return torch.tensor([10.0 * rank + tp.rank])

    return seen, made, ring_scatter(make, tp).item()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_chunks_come_in_the_order_of_the_ring(ranks, size):
    for rank, (seen, made, total) in enumerate(ranks(size, walked)):
        order = [(rank - step) % size for step in range(size)]
        assert seen == [(r, [100.0 * r, 1.0]) for r in order]
        assert made == [(r - 1) % size for r in order]
        assert total == 10.0 * rank * size + sum(range(size))


def products(size):
    tp, rank = TensorParallel(sequence=True, ring=True), dist.get_rank()
    torch.manual_seed(0)
    x = torch.randn(2, size * 3, 4, dtype=torch.float64)
    weight, bias = torch.randn(size * 2, 4, dtype=torch.float64), torch.randn(size * 2, dtype=torch.float64)
    rows = slice(2 * rank, 2 * rank + 2)
    out = gather_product(x.chunk(size, 1)[rank], weight[rows], bias[rows], tp)
    back = product_scatter(F.linear(x, weight)[..., rows], weight.T[:, rows], tp)
    wanted = F.linear(F.linear(x, weight), weight.T).chunk(size, 1)[rank]
    return (out - F.linear(x, weight, bias)[..., rows]).abs().max().item(), (back - wanted).abs().max().item()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_products(ranks, size):
    assert all(max(each) < 1e-12 for each in ranks(size, products, size))


class Tells(TorchDispatchMode):
    """Sends rank 1 a word when the n-th matrix product has been made."""

    def __init__(self, product):
        super().__init__()
        self.left, self.works = product, []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        if operator.overloadpacket.__name__ in ("mm", "bmm"):
            self.left -= 1
            if self.left == 0:
                self.works.append(dist.isend(torch.zeros(1), 1, tag=5))
        return result


def under_the_exchange(sequence, regather, product):
    """Rank 1 begins its backward when rank 0 has made that product of its own: rank 0 cannot have waited before."""
    tp = TensorParallel(dist.new_group(timeout=timedelta(seconds=60)), sequence, regather)
    layer = ColumnParallelLinear(torch.nn.Linear(4, 6), tp)
    out = layer(torch.randn(1, 5, 4, requires_grad=True)).sum()
    if tp.rank == 1:
        dist.recv(torch.zeros(1), 0, tag=5)
        out.backward()
        return True
    with Tells(product) as tells:
        out.backward()
    for work in tells.works:
        work.wait()
    return tells.left <= 0


@pytest.mark.parametrize(
    ("sequence", "regather", "product"),
    [
        (False, True, 2),  # the weight gradient, while the input gradient is added up
        (True, False, 2),  # the same, while it is reduced and scattered
        (True, True, 1),  # the input gradient, while the input is gathered again
    ],
)
def test_products_run_while_their_exchange_does(ranks, sequence, regather, product):
    assert ranks(2, under_the_exchange, sequence, regather, product) == [True, True]


def left_alone():
    """Rank 1 does not come: rank 0 raises, and says where it stood."""
    group = dist.new_group()
    communicator(group).timeout = 1.0  # of its operations; making the group may take longer
    tp = TensorParallel(group, sequence=True, ring=True)
    if tp.rank == 1:
        return ""
    said = []
    for _ in range(2):  # the second time at once
        try:
            gather_product(torch.zeros(1, 2, 3), torch.zeros(4, 3), None, tp)
        except CollectiveError as error:
            said.append(str(error))
    return " | ".join(said)


def test_who_does_not_come_is_named(ranks):
    first, _ = ranks(2, left_alone)
    said, again = first.split(" | ")
    assert "all_gather → matmul" in said
    assert "rank 1" in said
    assert "all_gather → matmul" in again
