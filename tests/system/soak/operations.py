"""What may be asked of a group, drawn by a seed, and what must come of it by plain torch."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

LARGEST = 300_000  # elements
PENDING = 8  # works that nobody has waited for yet
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8]
REDUCTIONS = {
    ReduceOp.SUM: lambda stack: stack.sum(0),
    ReduceOp.MAX: lambda stack: stack.amax(0),
    ReduceOp.MIN: lambda stack: stack.amin(0),
    ReduceOp.PRODUCT: lambda stack: stack.prod(0),
}


@dataclass(frozen=True)
class Group:
    """``handle``: torch's group; on other ranks than its members it is none."""

    members: list[int]
    backend: str
    handle: dist.ProcessGroup

    @classmethod
    def make(cls, members: list[int], backend: str) -> Group:
        return cls(members, backend, dist.new_group(members, backend=backend))

    def renewed(self) -> Group:
        if dist.get_rank() in self.members:
            dist.destroy_process_group(self.handle)
        return Group.make(self.members, self.backend)


class Draw:
    """One operation, as the seed and its number draw it on all ranks."""

    def __init__(self, seed: int, number: int, groups: list[Group]) -> None:
        self.random, self.number = random.Random(f"{seed} {number}"), number
        self.group = self.random.choice(groups)
        self.kind = self.random.choice(KINDS)
        self.dtype = self.random.choice(DTYPES)
        self.elements = int(LARGEST ** self.random.random()) - 1
        self.late = self.random.random() < 0.5
        self.as_future = self.late and self.kind is not message and self.random.random() < 0.3
        self.left = self.random.randrange(PENDING)
        self.rank, self.members, self.modulus = dist.get_rank(), self.group.members, 11

    def __str__(self) -> str:
        name, dtype = self.kind.__name__, str(self.dtype).removeprefix("torch.")
        way = "as a future" if self.as_future else "async" if self.late else "sync"
        return f"operation {self.number}: {name} of {self.elements} {dtype} on {self.group}, {way}"

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def place(self) -> int:
        """This rank's number in the group."""
        return self.members.index(self.rank)

    def root(self) -> int:
        return self.random.choice(self.members)

    def op(self) -> ReduceOp:
        op = self.random.choice(list(REDUCTIONS))
        if op == ReduceOp.PRODUCT:
            self.modulus = 3
        return op

    def of(self, rank: int, elements: int) -> torch.Tensor:
        """A rank's data: by rank and position, and so small that every sum and product is exact in every dtype."""
        return ((torch.arange(elements) * (3 + rank) + 7 * rank + self.number) % self.modulus).to(self.dtype)

    def mine(self, elements: int) -> torch.Tensor:
        return self.of(self.rank, elements)

    def everyone(self, elements: int) -> list[torch.Tensor]:
        return [self.of(rank, elements) for rank in self.members]

    def reduced(self, elements: int, op: ReduceOp) -> torch.Tensor:
        return REDUCTIONS[op](torch.stack(self.everyone(elements))).to(self.dtype)

    def zeros(self, elements: int) -> torch.Tensor:
        return torch.zeros(elements, dtype=self.dtype)


@dataclass(frozen=True)
class Issued:
    """``work``: to wait for, None: it is over. wrote: what it has written then; want: what it should have."""

    work: dist.Work | None
    wrote: list[torch.Tensor]
    want: list[torch.Tensor]


# The kinds of operations.


def all_reduce(draw: Draw, group: dist.ProcessGroup) -> Issued:
    op = draw.op()
    x = draw.mine(draw.elements)
    return Issued(dist.all_reduce(x, op, group, draw.late), [x], [draw.reduced(draw.elements, op)])


def reduce(draw: Draw, group: dist.ProcessGroup) -> Issued:
    op, root = draw.op(), draw.root()
    x = draw.mine(draw.elements)
    want = draw.reduced(draw.elements, op) if draw.rank == root else x.clone()
    return Issued(dist.reduce(x, root, op, group, draw.late), [x], [want])


def broadcast(draw: Draw, group: dist.ProcessGroup) -> Issued:
    root, x = draw.root(), draw.mine(draw.elements)
    return Issued(dist.broadcast(x, root, group, draw.late), [x], [draw.of(root, draw.elements)])


def all_gather(draw: Draw, group: dist.ProcessGroup) -> Issued:
    outs = [draw.zeros(draw.elements) for _ in draw.members]
    work = dist.all_gather(outs, draw.mine(draw.elements), group, draw.late)
    return Issued(work, outs, draw.everyone(draw.elements))


def all_gather_into_tensor(draw: Draw, group: dist.ProcessGroup) -> Issued:
    out = draw.zeros(draw.elements * draw.size)
    work = dist.all_gather_into_tensor(out, draw.mine(draw.elements), group, draw.late)
    return Issued(work, [out], [torch.cat(draw.everyone(draw.elements))])


def reduce_scatter_tensor(draw: Draw, group: dist.ProcessGroup) -> Issued:
    op, out, everything = draw.op(), draw.zeros(draw.elements), draw.elements * draw.size
    work = dist.reduce_scatter_tensor(out, draw.mine(everything), op, group, draw.late)
    return Issued(work, [out], [draw.reduced(everything, op).view(draw.size, -1)[draw.place]])


def all_to_all_single(draw: Draw, group: dist.ProcessGroup) -> Issued:
    """``amounts[i][j]`` elements go from the i-th member to the j-th."""
    most = draw.elements // draw.size + 2
    amounts = [[draw.random.randrange(most) for _ in draw.members] for _ in draw.members]
    cut = [draw.of(r, sum(row)).split(row) for r, row in zip(draw.members, amounts, strict=True)]
    takes = [row[draw.place] for row in amounts]
    out = draw.zeros(sum(takes))
    mine = draw.mine(sum(amounts[draw.place]))
    work = dist.all_to_all_single(out, mine, takes, amounts[draw.place], group, draw.late)
    return Issued(work, [out], [torch.cat([blocks[draw.place] for blocks in cut])])


def gather(draw: Draw, group: dist.ProcessGroup) -> Issued:
    root = draw.root()
    outs = [draw.zeros(draw.elements) for _ in draw.members] if draw.rank == root else None
    work = dist.gather(draw.mine(draw.elements), outs, root, group, draw.late)
    return Issued(work, outs or [], draw.everyone(draw.elements) if outs else [])


def scatter(draw: Draw, group: dist.ProcessGroup) -> Issued:
    root, out = draw.root(), draw.zeros(draw.elements)
    parts = [*draw.of(root, draw.elements * draw.size).split([draw.elements] * draw.size)]
    work = dist.scatter(out, parts if draw.rank == root else None, root, group, draw.late)
    return Issued(work, [out], [parts[draw.place]])


def barrier(draw: Draw, group: dist.ProcessGroup) -> Issued:
    return Issued(dist.barrier(group, async_op=draw.late), [], [])


def message(draw: Draw, group: dist.ProcessGroup) -> Issued:
    source, target = draw.random.sample(draw.members, 2)
    x = draw.mine(draw.elements)
    if draw.rank == source:
        return Issued(dist.isend(x, target, group, tag=draw.number % 1000), [], [])
    if draw.rank == target:
        work = dist.irecv(x, source, group, tag=draw.number % 1000)
        return Issued(work, [x], [draw.of(source, draw.elements)])
    return Issued(None, [], [])


KINDS = [all_reduce, reduce, broadcast, all_gather, all_gather_into_tensor, reduce_scatter_tensor]
KINDS += [all_to_all_single, gather, scatter, barrier, message]
