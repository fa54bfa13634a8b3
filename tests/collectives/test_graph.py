"""Captured collectives: when they are captured, replayed and given up, anywhere; and the real thing where GPUs are."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives import launch
from collectives.communicator import Communicator, communicator
from collectives.executor import run_grouped
from collectives.graph import Graphs, capture_cuda
from collectives.grouped import Grouped
from collectives.shelf import Shelf

GPUS = torch.cuda.device_count()
needs_a_gpu = pytest.mark.skipif(not GPUS, reason="needs a GPU; this machine has none")
needs_gpus = pytest.mark.skipif(GPUS < 2, reason=f"needs 2 GPUs, one a rank; this machine has {GPUS}")


class Recorder:
    """Stands for CUDA, which there is not here: captures without running, and counts."""

    def __init__(self) -> None:
        self.captured = self.replayed = 0

    def __call__(self, enqueue: Callable[[], object]) -> Callable[[], object]:
        self.captured += 1

        def replay() -> None:
            self.replayed += 1
            enqueue()

        return replay


def graphs() -> tuple[Graphs, Recorder]:
    recorder = Recorder()
    held = Graphs(recorder)
    held.wanted = 1
    return held, recorder


def test_the_first_is_enqueued_the_second_captured_and_all_others_replayed() -> None:
    held, recorder = graphs()
    x = torch.zeros(3)
    for turn in range(5):
        held.run("add", [x], lambda: x.add_(1))
        assert x.tolist() == [turn + 1] * 3
        assert (recorder.captured, recorder.replayed) == (min(turn, 1), turn)
    assert len(held) == 1


def test_without_being_wanted_nothing_is_captured() -> None:
    recorder = Recorder()
    held, x = Graphs(recorder), torch.zeros(1)
    for _ in range(3):
        held.run("add", [x], lambda: x.add_(1))
    assert (x.item(), recorder.captured) == (3, 0)


def test_another_operation_or_another_address_is_captured_anew() -> None:
    held, recorder = graphs()
    x, y = torch.zeros(8), torch.zeros(8)
    for key, memory in (("a", [x]), ("b", [x]), ("a", [y]), ("a", [x[1:]]), ("a", [x, y])):
        before = recorder.captured
        for _ in range(3):
            held.run(key, memory, lambda memory=memory: memory[0].add_(1))
        assert recorder.captured == before + 1
    assert len(held) == 5


def test_a_graph_goes_with_the_storage_that_it_is_about() -> None:
    held, recorder = graphs()
    x, y = torch.zeros(8), torch.zeros(8)
    for _ in range(2):
        held.run("add", [x, y], lambda: None)
    view = x[2:]
    del x
    gc.collect()
    assert len(held) == 1  # a view keeps the storage
    del view
    gc.collect()
    assert len(held) == 0
    assert recorder.captured == 1
    del held  # a storage may outlive the graphs
    del y


def test_a_graph_keeps_no_buffer_alive() -> None:
    held, _ = graphs()
    x = torch.zeros(8)
    gone: list[int] = []
    weakref.finalize(x.untyped_storage(), gone.append, 1)
    held.run("add", [x], lambda: None)
    held.run("add", [x], lambda: None)
    assert len(held) == 1
    del x
    assert gone == [1]


def test_what_cannot_be_captured_goes_on_without_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(enqueue: Callable[[], object]) -> Callable[[], object]:
        raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors might be late")

    held, x, y = Graphs(refuse), torch.zeros(1), torch.zeros(1)
    held.wanted = 1
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            held.run("add", [x], lambda: x.add_(1))
            held.run("add", [y], lambda: y.add_(1))
    assert (x.item(), y.item()) == (4, 4)
    assert [record.getMessage() for record in caplog.records] == [
        "CUDA graph: a collective could not be captured (RuntimeError: operation not permitted when stream is "
        "capturing); it goes on without"
    ]


# In a communicator: NCCL's manner of running, on gloo.


class OnGloo(Grouped):
    """Grouped batches without streams, in one gloo group a channel; graphs are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder()
        self.graphs = Graphs(self.recorder)
        self.batches = 0

    def run(self, group: Any, plan: Any, regions: Any, combines: Any) -> None:
        while len(self._groups) < plan.channels:
            self._groups.append(dist.new_group(dist.get_process_group_ranks(group)))
        self.batches += 1
        run_grouped(self._groups[: plan.channels], plan, regions, combines, [])

    def issue(self, job: Callable[[], None], *_: Any) -> None:
        job()

    def over(self) -> Callable[[], bool]:
        return lambda: True


def in_nccls_manner() -> tuple[Communicator, OnGloo]:
    group = Communicator()
    grouped = group._grouped = OnGloo()
    group.streaming = False
    group.shelf = Shelf(group.number, group.rank, group.size, False)
    return group, grouped


@pytest.mark.parametrize("name", ["ring", "ring:channels=2", "direct"])
def test_collectives_that_come_again_are_replayed(ranks, name: str) -> None:
    ranks(3, come_again, name)


def come_again(name: str) -> None:
    group, grouped = in_nccls_manner()
    rank, size, recorder = dist.get_rank(), dist.get_world_size(), grouped.recorder
    x, y = torch.empty(1001), torch.empty(1001)

    def reduce(tensor: torch.Tensor, op: str, turn: int) -> None:
        tensor.copy_(torch.arange(1001) + rank + turn)
        C.all_reduce(tensor, op, group, algorithm=name)
        every = torch.stack([torch.arange(1001.0) + r + turn for r in range(size)])
        wanted = {"SUM": every.sum(0), "MAX": every.amax(0), "AVG": every.sum(0) / size}[op]
        assert torch.equal(tensor, wanted), (op, turn)

    with C.captured(group):
        for turn in range(4):
            for tensor in (x, y):
                for op in ("SUM", "MAX", "AVG"):
                    reduce(tensor, op, turn)
        assert (recorder.captured, recorder.replayed) == (6, 18)
        for turn in range(2):  # what is copied in and out is new memory every time
            C.all_reduce(torch.ones(6, 4)[:, turn], group=group, algorithm=name)
        assert recorder.captured == 6
        C.all_reduce(torch.ones(500_000), group=group, algorithm=name)  # more scratch, which is elsewhere
        with C.captured(group):
            reduce(y, "SUM", 0)
            assert recorder.captured == 6
            reduce(y, "SUM", 1)
            assert recorder.captured == 7
        assert len(group.graphs) == 7
    assert len(group.graphs) == 0
    for turn in range(3):
        reduce(y, "SUM", turn)
    assert recorder.captured == 7


# On GPUs.


def repeat(held: Graphs, key: object, memory: list[torch.Tensor], enqueue: Callable[[], object], times: int) -> None:
    for _ in range(times):
        held.run(key, memory, enqueue)


@pytest.mark.gpu
@needs_a_gpu
def test_cuda_captures_without_running_and_replays_on_the_current_stream() -> None:
    held, x = Graphs(), torch.zeros(1000, device="cuda")
    held.wanted = 1
    repeat(held, "add", [x], partial(x.add_, 1), 5)
    assert (x.tolist(), len(held), held.refusal) == ([5] * 1000, 1, None)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        repeat(held, "add", [x], partial(x.add_, 1), 2)
    torch.cuda.current_stream().wait_stream(side)
    assert x[0].item() == 7
    del x
    gc.collect()
    assert len(held) == 0


@pytest.mark.gpu
@needs_a_gpu
def test_cuda_goes_on_after_what_cannot_be_captured(caplog: pytest.LogCaptureFixture) -> None:
    held, x = Graphs(), torch.zeros(10, device="cuda")
    held.wanted = 1
    before = torch.cuda.current_stream()
    with caplog.at_level(logging.WARNING):
        repeat(held, "wait", [x], lambda: (x.add_(1), torch.cuda.synchronize()), 3)
    assert (x.tolist(), len(held), len(caplog.records)) == ([3] * 10, 0, 1)
    assert torch.cuda.current_stream() == before
    assert capture_cuda(lambda: x.add_(1)) is not None  # CUDA is as good as before


@pytest.mark.gpu
@needs_a_gpu
def test_cuda_events_of_other_threads_do_not_break_a_capture() -> None:
    """As NCCL's watchdog does it."""
    x, event, stop = torch.zeros(10, device="cuda"), torch.cuda.Event(), threading.Event()
    event.record()
    asked = threading.Thread(target=lambda: [event.query() for _ in iter(stop.is_set, True)])
    asked.start()
    try:
        replay = capture_cuda(lambda: [x.add_(1) for _ in range(200)])
    finally:
        stop.set()
        asked.join()
    replay()
    assert x.tolist() == [200] * 10


@pytest.mark.gpu
@needs_a_gpu
def test_nccl_alone() -> None:
    """One rank: what it gives itself is copied, and that is captured."""
    launch.run(alone, 1, backend="nccl")


def alone() -> None:
    with C.captured():
        given, got = torch.empty(1000, device="cuda"), torch.empty(1000, device="cuda")
        for turn in range(4):
            given.fill_(turn)
            work = C.all_gather_into_tensor(got, given, async_op=turn == 3)
            if work is not None:
                work.wait()
            assert got.eq(turn).all()
        graphs = communicator().graphs
        assert (len(graphs), graphs.refusal) == (1, None)
        outer = torch.cuda.CUDAGraph()
        with torch.cuda.graph(outer, capture_error_mode="thread_local"):  # the caller's own
            C.all_gather_into_tensor(got, given)
        given.fill_(7)
        outer.replay()
        C.all_gather_into_tensor(got, given)
        assert got.eq(7).all()
        del outer


@pytest.mark.gpu
@needs_gpus
@pytest.mark.parametrize("name", ["ring", "ring:channels=2", "ring:channels=3", "direct", "auto"])
def test_nccl_replays(name: str) -> None:
    launch.run(nccl_replays, min(GPUS, 4), name, backend="nccl")


def nccl_replays(name: str) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    with C.captured():
        buckets = [torch.empty(length, device="cuda") for length in (1000, 1_000_003)]
        for turn in range(5):
            works = []
            for bucket in buckets:
                bucket.fill_(rank + turn)
                works.append(C.all_reduce(bucket, algorithm=name, async_op=turn > 2))
            for work in works:
                if work is not None:
                    work.wait()
            for bucket in buckets:
                assert bucket.eq(sum(r + turn for r in range(size))).all(), turn
        graphs = communicator().graphs
        assert (len(graphs), graphs.refusal) == (2, None)


@pytest.mark.gpu
@needs_a_gpu
def test_the_benchmark_replays_on_a_gpu(tmp_path: Path) -> None:
    """Also alone, where a block is copied: what is checked is what was replayed, and the file says so."""
    found = {}
    for asked in ("--graph", "--no-graph"):
        file = tmp_path / "out.json"
        words = (
            f"bench --ranks 1 --backend nccl --op all_gather --algorithm ring -b 1M -e 1M -n 2 --json {file} {asked}"
        )
        done = subprocess.run([sys.executable, "-m", "collectives", *words.split()], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads(file.read_text())
        assert [row["wrong"] for row in result["rows"]] == [0]
        found[asked] = result["environment"]["graph"]
    assert found == {"--graph": True, "--no-graph": False}
