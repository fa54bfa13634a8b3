"""Steps of data parallel on a clock: the bytes are those of the closed forms, and nothing does two things at once."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from collectives.cost import Machine, predict
from collectives.registry import find
from collectives.span import Span
from parallel.buckets import assign
from parallel.formulas import thread_exchanges
from sim.data_parallel import Step, bucketed, processes, threads

STEP = Step(model=1000, inputs=120, outputs=600, forward=3.0, backward=6.0, update=1.0)
LINK = Machine(alpha=0.5, beta=0.01)


def by_stream(spans: list[Span]) -> dict[tuple[int, str], list[Span]]:
    rows: defaultdict[tuple[int, str], list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        rows[span.rank, span.stream].append(span)
    return rows


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_threads_move_what_the_formula_says(replicas: int) -> None:
    spans = threads(STEP, replicas, LINK)
    moved = thread_exchanges(1000, 1000, 120, 600, replicas)
    sent = dict.fromkeys(moved, 0.0)
    for span in spans:
        if span.link and span.rank == 0:
            sent[span.name.split()[1]] += span.bytes
    assert sent == pytest.approx(moved)
    mine = by_stream(spans)[0, "device"]
    assert all(one.end == pytest.approx(two.start) for one, two in pairwise(mine))  # device 0 is never idle
    assert mine[-1].end == pytest.approx(5 * (replicas - 1) * 0.5 + sum(moved.values()) * 0.01 + 3 + 6 + 1)


@pytest.mark.parametrize("replicas", [2, 4])
def test_a_device_does_one_thing_at_a_time(replicas: int) -> None:
    for spans in (threads(STEP, replicas, LINK), processes(STEP, replicas, LINK)):
        for row in by_stream(spans).values():
            assert all(one.end <= two.start + 1e-9 for one, two in pairwise(row))


def test_processes_are_all_alike_and_share_the_bytes() -> None:
    spans = processes(STEP, 4, LINK)
    reduced = predict(find("all_reduce", "ring"), 4, 1000, LINK)
    for rank in range(4):
        assert max(span.end for span in spans if span.rank == rank) == pytest.approx(3 + 6 + reduced + 1)
    assert max(span.end for span in processes(STEP, 1, LINK)) == 10


@pytest.mark.parametrize("limit", [0, 5, 8, 100])
def test_buckets_leave_in_order_when_they_are_ready_and_the_link_is_free(limit: int) -> None:
    sizes, seconds = [4, 9, 1, 3, 3], [1.0, 0.5, 2.0, 0.25, 1.25]
    spans = by_stream(bucketed(seconds, sizes, limit, lambda nbytes: 1 + 0.5 * nbytes))
    backward, link = spans[0, "backward"], spans[0, "link"]
    assert [span.name for span in backward] == [f"backward {index}" for index in (4, 3, 2, 1, 0)]
    ready = {int(span.name.split()[1]): span.end for span in backward}
    buckets = assign(sizes, [0] * 5, limit)
    assert [span.bytes for span in link] == [sum(sizes[index] for index in bucket) for bucket in buckets]
    free = 0.0
    for span, bucket in zip(link, buckets, strict=True):
        assert span.start == max(free, *(ready[index] for index in bucket))
        free = span.end
