"""What the tests of collectives share: inputs, what one process computes from them, and a check of that on a rank."""

from __future__ import annotations

import torch
import torch.distributed as dist

import collectives as C
from collectives.registry import BUILT_IN

SIZES = [0, 1, 2, 3, 7, 10, 257]


def given(rank, length, dtype=torch.float64):
    """Distinct by rank and position; small whole numbers, so that sums are exact in every dtype."""
    if dtype == torch.bool:
        return (torch.arange(length) + rank) % 3 == 0
    values = torch.arange(length) * 3 % 23 + rank * 2 if dtype.itemsize == 1 else torch.arange(length) + 1000 * rank
    return (values % 100 if dtype in (torch.bfloat16, torch.float16) else values).to(dtype)


def inputs(size, length, dtype=torch.float64):
    return [given(rank, length, dtype) for rank in range(size)]


def algorithm_names(collective):
    return [s.name for s in C.algorithms(collective) if s.name in BUILT_IN or s.name == "pairwise"] + ["auto"]


def run_collective(collective, rank, size, length, algorithm, root=0, group=None):
    """The result and what it should be, as (name, got, wanted); inputs that must stay are checked, too."""
    ours = inputs(size, length)
    total = torch.stack(ours).sum(0)
    mine = ours[rank].clone()
    how = {"algorithm": algorithm, "group": group}
    if collective == "all_reduce":
        C.all_reduce(mine, **how)
        return [("result", mine, total)]
    if collective == "reduce":
        C.reduce(mine, group_dst=root, **how)
        return [("result", mine, total if rank == root else ours[rank])]
    if collective == "broadcast":
        C.broadcast(mine, group_src=root, **how)
        return [("result", mine, ours[root])]
    if collective == "all_gather":
        out = torch.full((size * length,), -1.0, dtype=torch.float64)
        C.all_gather_into_tensor(out, mine, **how)
        outs = [torch.full((length + r,), -1.0) for r in range(size)]
        C.all_gather(outs, given(rank, length + rank, torch.float32), **how)
        uneven = [given(r, length + r, torch.float32) for r in range(size)]
        return [
            ("flat", out, torch.cat(ours)),
            ("input", mine, ours[rank]),
            ("list", torch.cat(outs), torch.cat(uneven)),
        ]
    if collective == "reduce_scatter":
        blocks = inputs(size, length * size)
        block, out = blocks[rank].clone(), torch.full((length,), -1.0, dtype=torch.float64)
        C.reduce_scatter_tensor(out, block, **how)
        wanted = torch.stack(blocks).sum(0)[rank * length : (rank + 1) * length]
        lists = [list(given(r, size * length + 10).split([length] * size + [10]))[:size] for r in range(size)]
        out2 = torch.full((length,), -1.0, dtype=torch.float64)
        C.reduce_scatter(out2, [t.clone() for t in lists[rank]], **how)
        wanted2 = torch.stack([lists[r][rank] for r in range(size)]).sum(0)
        return [("tensor", out, wanted), ("input", block, blocks[rank]), ("list", out2, wanted2)]
    if collective == "gather":
        outs = [torch.full((length,), -1.0, dtype=torch.float64) for _ in range(size)] if rank == root else None
        C.gather(mine, outs, group_dst=root, **how)
        wanted = [("list", torch.cat(outs), torch.cat(ours))] if outs is not None else []
        return [("input", mine, ours[rank]), *wanted]
    if collective == "scatter":
        blocks = [given(10 + r, length) for r in range(size)]
        C.scatter(mine, [b.clone() for b in blocks] if rank == root else None, group_src=root, **how)
        return [("result", mine, blocks[rank])]
    if collective == "all_to_all":
        blocks = [given(r, size * length) for r in range(size)]
        out = torch.full((size * length,), -1.0, dtype=torch.float64)
        C.all_to_all_single(out, blocks[rank].clone(), **how)
        wanted = torch.cat([b[rank * length : (rank + 1) * length] for b in blocks])
        return [("single", out, wanted)]
    C.barrier(**how)
    return []


def check_on_rank(collective, algorithm, lengths, roots):
    rank, size = dist.get_rank(), dist.get_world_size()
    for length in lengths:
        for root in [r for r in roots if r < size]:
            for name, got, wanted in run_collective(collective, rank, size, length, algorithm, root):
                assert torch.equal(got, wanted), f"{name}: length {length}, root {root}: {got} is not {wanted}"
