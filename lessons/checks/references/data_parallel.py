"""The formulas of lesson 8, with those of lesson 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from collectives.contract import contract_of
from collectives.proof import prove
from collectives.registry import find
from parallel.formulas import thread_exchanges

from ..reference import Reference, same_lists
from .overlap import OVERLAP

Rows: TypeAlias = Sequence[int]


def _padded(count: int, rank: int, size: int) -> Rows:
    """As DistributedSampler does: the first rows once more, until all shares are equally long."""
    return [row % count for row in range(rank, -(-count // size) * size, size)] if count else []


def _blocks(count: int, rank: int, size: int) -> Rows:
    short, longer = divmod(count, size)
    first = rank * short + min(rank, longer)
    return range(first, first + short + (rank < longer))


def _blocks_up(count: int, rank: int, size: int) -> Rows:
    length = -(-count // size)
    return range(min(rank * length, count), min((rank + 1) * length, count))


def _dp_bytes(size: int, model: int, inputs: int, outputs: int) -> float:
    return sum(thread_exchanges(model, model, inputs, outputs, size).values())


def _ddp_bytes(size: int, model: int) -> float:
    return 2 * contract_of("all_reduce").factor(size) * model


REPLICAS: Mapping[str, Reference] = {
    "rows_of": Reference(
        examples=((10, 0, 4), (10, 1, 4), (10, 3, 4), (8, 1, 2), (7, 2, 3), (3, 3, 4), (1, 0, 1), (0, 1, 2)),
        answer=lambda count, rank, size: list(range(rank, count, size)),
        kind="list",
        same=same_lists,
        mistakes={
            "data_parallel.rows_of.tail": lambda c, r, n: range(r, c - c % n, n),
            "data_parallel.rows_of.padded": _padded,
            "data_parallel.rows_of.blocks": _blocks,
            "data_parallel.rows_of.blocks_tail": lambda c, r, n: range(r * (c // n), (r + 1) * (c // n)),
            "data_parallel.rows_of.blocks_up": _blocks_up,
            "data_parallel.rows_of.everything": lambda c, r, n: range(c),
            "data_parallel.rows_of.from_zero": lambda c, r, n: range(0, c, n),
            "data_parallel.rows_of.from_one": lambda c, r, n: range(r + 1, c + 1, n),
            "data_parallel.rows_of.last_row": lambda c, r, n: range(r, c - 1, n),
        },
    ),
    "dp_bytes": Reference(
        examples=(
            (4, 1000, 80, 200),
            (2, 496, 64, 32),
            (3, 12, 300, 9),
            (8, 1 << 20, 1 << 10, 1 << 16),
            (5, 7, 1000, 123),
            (1, 100, 10, 10),
        ),
        answer=_dp_bytes,
        mistakes={
            "data_parallel.dp_bytes.once": lambda n, p, i, o: (n - 1) * p + (n - 1) / n * (i + 2 * o),
            "data_parallel.dp_bytes.no_loss": lambda n, p, i, o: 2 * (n - 1) * p + (n - 1) / n * (i + o),
            "data_parallel.dp_bytes.no_scatter": lambda n, p, i, o: 2 * (n - 1) * p + (n - 1) / n * 2 * o,
            "data_parallel.dp_bytes.no_outputs": lambda n, p, i, o: 2 * (n - 1) * p + (n - 1) / n * i,
            "data_parallel.dp_bytes.only_model": lambda n, p, i, o: 2 * (n - 1) * p,
            "data_parallel.dp_bytes.no_model": lambda n, p, i, o: (n - 1) / n * (i + 2 * o),
            "data_parallel.dp_bytes.itself": lambda n, p, i, o: 2 * n * p + i + 2 * o,
            "data_parallel.dp_bytes.own_share": lambda n, p, i, o: 2 * (n - 1) * p + i + 2 * o,
            "data_parallel.dp_bytes.one_share": lambda n, p, i, o: 2 * (n - 1) * p + (i + 2 * o) / n,
            "data_parallel.dp_bytes.whole_batch": lambda n, p, i, o: (n - 1) * (2 * p + i + 2 * o),
            "data_parallel.dp_bytes.one_replica": lambda n, p, i, o: 2 * p + (i + 2 * o) / n,
            "data_parallel.dp_bytes.ring": lambda n, p, i, o: (n - 1) / n * (2 * p + i + 2 * o),
            "data_parallel.dp_bytes.input_gradients": lambda n, p, i, o: 2 * (n - 1) * p + (n - 1) / n * 2 * (i + o),
            "data_parallel.dp_bytes.everyone": lambda n, p, i, o: 4 * (n - 1) * p + (n - 1) / n * 2 * (i + 2 * o),
            "data_parallel.dp_bytes.brackets": lambda n, p, i, o: 2 * n - 1 * p + (n - 1) / n * (i + 2 * o),
            "data_parallel.dp_bytes.cut": lambda n, p, i, o: 2 * (n - 1) * p + (n - 1) * ((i + 2 * o) // n),
        },
    ),
    "ddp_bytes": Reference(
        examples=((4, 1000), (2, 496), (3, 100), (8, 1 << 20), (5, 7), (1, 64)),
        answer=_ddp_bytes,
        mistakes={
            "data_parallel.ddp_bytes.one_way": lambda n, p: 2 * (n - 1) / n * p,
            "data_parallel.ddp_bytes.one_walk": lambda n, p: (n - 1) / n * p,
            "data_parallel.ddp_bytes.no_share": lambda n, p: 4 * p,
            "data_parallel.ddp_bytes.all_ranks": lambda n, p: 4 * (n - 1) * p,
            "data_parallel.ddp_bytes.naive": lambda n, p: 2 * (n - 1) * p,
            "data_parallel.ddp_bytes.twice": lambda n, p: 8 * (n - 1) / n * p,
            "data_parallel.ddp_bytes.replicated": lambda n, p: 4 * (n - 1) / n * p + (n - 1) * p,
            "data_parallel.ddp_bytes.one_less": lambda n, p: 4 * p / (n - 1),
            "data_parallel.ddp_bytes.brackets": lambda n, p: 4 * n - 1 / n * p,
            "data_parallel.ddp_bytes.cut": lambda n, p: 4 * (n - 1) * p // n,
        },
    ),
}


def _messages(buckets: int, size: int) -> int:
    return buckets * prove(find("all_reduce", "ring"), size).steps


MESSAGES = Reference(
    examples=((1, 4), (17, 16), (5, 2), (3, 3), (4, 8), (9, 1)),
    answer=_messages,
    mistakes={
        "data_parallel.messages.one_walk": lambda b, n: b * (n - 1),
        "data_parallel.messages.once": lambda b, n: 2 * (n - 1),
        "data_parallel.messages.n_steps": lambda b, n: b * 2 * n,
        "data_parallel.messages.all_ranks": lambda b, n: b * 2 * (n - 1) * n,
        "data_parallel.messages.buckets": lambda b, n: b,
        "data_parallel.messages.doubling": lambda b, n: b * (n - 1).bit_length(),
        "data_parallel.messages.both": lambda b, n: b * 4 * (n - 1),
    },
)

DATA_PARALLEL: Mapping[str, Reference] = {**REPLICAS, **OVERLAP, "messages": MESSAGES}
