"""NCCL's manner of running and its watcher, on gloo: a thread is the device, whose work ends only when aborted."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives import heartbeat, launch
from collectives.communicator import Communicator
from collectives.executor import StepFailure, run_grouped
from collectives.grouped import Grouped
from collectives.heartbeat import Heartbeat
from collectives.supervision import TICK
from collectives.work import Outcome, StreamWork, Worker

pytestmark = pytest.mark.timeout(90)
NOBODYS = 2**31 - 1  # a tag that nobody sends with
LONG = 60.0  # seconds that an operation may last: whoever raises sooner has been told


class Event:
    """What ``torch.cuda.Event`` is to a handle."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def query(self) -> bool:
        return self._outcome.done

    def wait(self) -> None:
        self._outcome.wait(-1)


class OnThread(Grouped):
    """A device with one stream. Like a kernel of NCCL, what waits for a dead peer waits until it is aborted."""

    def __init__(self) -> None:
        super().__init__()
        self._stream, self._aborted = Worker("device"), threading.Event()

    def run(self, group, plan, regions, combines):
        while len(self._groups) < plan.channels:
            self._groups.append(dist.new_group(dist.get_process_group_ranks(group), backend="gloo"))
        self._tail = Event(self._stream.submit(partial(self._kernel, plan, regions, combines)))

    def _kernel(self, plan, regions, combines):
        try:
            run_grouped(self._groups[: plan.channels], plan, regions, combines, [])
        except StepFailure:
            self._aborted.wait()

    def abort(self):
        self._aborted.set()
        nowhere = torch.empty(1)
        for group in self._groups:
            for peer in set(range(group.size())) - {group.rank()}:
                with contextlib.suppress(RuntimeError):  # a wait that times out closes gloo's connections
                    group.recv([nowhere], peer, NOBODYS).wait(timedelta(milliseconds=1))

    def issue(self, job, tensors, async_op, broken):
        job()
        return StreamWork(self._tail, None, broken) if async_op else None


def on_thread() -> Communicator:
    """A communicator that runs as on NCCL; all ranks have one afterwards."""
    made = Communicator(dist.group.WORLD, grouped=OnThread())
    x = torch.full((1000,), float(made.rank))
    C.all_reduce(x, group=made, algorithm="ring", async_op=True).wait()
    assert x.tolist() == [sum(range(made.size))] * 1000
    return made


def beats() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name in ("collectives-heartbeat", "collectives-guard")]


def until(true) -> None:
    """Wait for it; the test's own time limit ends the wait."""
    while not true():
        time.sleep(0.02)


def test_who_is_silent_is_known_within_5_seconds():
    noticed = heartbeat.BEAT * (1 + heartbeat.MISSED)  # the last beat that came may be a whole one ago
    told, looked = heartbeat.BEAT, 2 * TICK
    assert noticed + told + looked < 5 - 1  # and a second for the abort


# What it costs: two threads while something is under way, none when the group is closed.


def test_threads_do_not_grow_and_end_with_the_group(ranks):
    ranks(3, threads)


def threads():
    made = on_thread()
    x = torch.ones(10)
    for _ in range(50):
        C.all_reduce(x, group=made, algorithm="ring", async_op=True).wait()
    assert sorted(set(beats())) == sorted(beats())
    until(lambda: beats() == ["collectives-heartbeat"])  # nothing is under way
    made.close()
    assert beats() == []


def test_the_heart_stops_with_the_group(ranks):
    ranks(2, dropped)


def dropped():
    made = on_thread()
    group = dist.new_group([0, 1])
    other = Communicator(group, grouped=OnThread())
    assert beats().count("collectives-heartbeat") == 2
    dist.destroy_process_group(group)
    del group, other
    until(lambda: beats() == ["collectives-heartbeat"])
    made.close()


# Ranks that die, and ranks that are stopped.


@pytest.mark.parametrize(
    ("way", "algorithm"), [("wait", "ring"), ("wait for", "ring:channels=2"), ("call", "recursive_doubling")]
)
def test_survivors_name_the_killed_rank(tmp_path, way, algorithm):
    with pytest.raises(launch.RankFailed) as failed:
        launch.run(dies, 4, str(tmp_path), way, algorithm, grace=30.0)
    assert failed.value.rank == 2
    for rank in (0, 1, 3):
        kind, peer, cause, text = (tmp_path / str(rank)).read_text().split("\n", 3)
        assert kind == "CollectiveError", text
        assert peer == "2", text
        assert cause in ("silent", "others")
        assert "rank 2 has not been heard from" in text
        assert f"all_reduce of 1000 float32, SUM (algorithm {algorithm}) failed on rank {rank}" in text


def dies(folder, way, algorithm):
    rank, made = dist.get_rank(), on_thread()
    x = torch.ones(1000)
    C.all_reduce(x, group=made, algorithm=algorithm, async_op=True).wait()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    work = C.all_reduce(x, group=made, algorithm=algorithm, async_op=way != "call", timeout=LONG)
    if way != "wait for":  # a call has returned, as on NCCL; the host meets the failure when it asks next
        until(lambda: made.broken is not None)
    ask = {
        "wait": lambda: work.wait(),
        "wait for": lambda: work.wait(LONG),
        "call": lambda: C.all_reduce(x, group=made, algorithm=algorithm),
    }
    with pytest.raises(C.CollectiveError) as caught:
        ask[way]()
    error = made.broken
    assert str(error) in str(caught.value)
    until(lambda: made._grouped._tail.query())  # the device goes on: whoever synchronises with it returns
    made.close()
    until(lambda: beats() == [])
    Path(folder, str(rank)).write_text(f"{type(error).__name__}\n{error.peer}\n{error.cause}\n{error}")


def test_a_stopped_rank_is_named_and_hears_of_it_when_it_goes_on(tmp_path):
    results = launch.run(is_stopped, 3, str(tmp_path))
    for rank, (peer, text) in enumerate(results):
        assert peer == 1, text
        assert "rank 1 has not been heard from" in text
        if rank == 1:
            assert "gave up" in text


def is_stopped(folder):
    rank, made = dist.get_rank(), on_thread()
    x = torch.ones(1000)
    if rank == 1:
        Path(folder, "pid").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    with pytest.raises(C.CollectiveError) as caught:
        C.all_reduce(x, group=made, algorithm="ring", async_op=True, timeout=LONG).wait(LONG)
    if rank != 1:
        Path(folder, f"raised-{rank}").touch()
    if rank == 0:
        until(Path(folder, "raised-2").exists)
        os.kill(int(Path(folder, "pid").read_text()), signal.SIGCONT)
    made.close()
    return caught.value.peer, str(caught.value)


def test_a_busy_rank_is_waited_for(ranks):
    ranks(3, is_busy)


def is_busy():
    made = on_thread()
    x = torch.ones(10)
    if made.rank == 1:  # beyond the time in which a silent rank is named
        time.sleep(heartbeat.BEAT * (heartbeat.MISSED + 3))
    C.all_reduce(x, group=made, algorithm="ring", async_op=True).wait()
    assert x.tolist() == [3] * 10
    assert made.broken is None
    made.close()


# Ranks that are alive and do something else.


def test_the_timeout_names_who_has_issued_less():
    for rank, (peer, cause, text) in enumerate(launch.run(skips, 3)):
        if rank == 1:
            assert (peer, cause) == (None, "")
            continue
        assert peer == 1, text
        assert cause in ("timeout", "others")
        assert "this rank has issued 2 operations, but rank 1 has issued 1" in text


def skips():
    made = on_thread()
    x = torch.ones(10)
    dist.barrier()
    if made.rank == 1:
        dist.barrier()
        return None, "", ""
    with pytest.raises(C.CollectiveError) as caught:
        C.all_reduce(x, group=made, algorithm="ring", async_op=True, timeout=1.0).wait(LONG)
    dist.barrier()
    return caught.value.peer, caught.value.cause, str(caught.value)


def test_a_failure_on_one_rank_reaches_the_others():
    own, *others = launch.run(fails_here, 3)
    assert "no memory" in own
    for text in others:
        assert "rank 0 gave up" in text
        assert "no memory" in text


def fails_here():
    made = on_thread()
    x = torch.ones(10)
    if made.rank == 0:

        def run(*_):
            raise MemoryError("no memory")

        made._grouped.run = run
    with pytest.raises(C.CollectiveError) as caught:
        C.all_reduce(x, group=made, algorithm="ring", async_op=True, timeout=LONG).wait(LONG)
    dist.barrier()
    return str(caught.value)


def test_waiting_for_a_while_only(ranks):
    ranks(2, waits_a_while)


def waits_a_while():
    made, store = on_thread(), dist.distributed_c10d._get_default_store()
    x = torch.ones(10)
    if made.rank == 1:
        store.wait(["raised"])
    work = C.all_reduce(x, group=made, algorithm="ring", async_op=True)
    if made.rank == 0:
        with pytest.raises(C.CollectiveError, match="it goes on"):
            work.wait(0.1)
        store.set("raised", "")
    work.wait()
    assert x.tolist() == [2] * 10
    made.close()


# The heartbeat alone.


def test_who_leaves_is_not_silent_and_the_next_one_is_listened_to(tmp_path):
    with pytest.raises(launch.RankFailed):
        launch.run(leaves, 4, str(tmp_path), grace=30.0)
    assert (tmp_path / "0").read_text() == "2"
    assert (tmp_path / "3").read_text() == "2"


def leaves(folder):
    """Rank 1 leaves; rank 0 then listens to rank 2, which is killed."""
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    heart = Heartbeat(store, rank, 4, "test", None, lambda: True)
    dist.barrier()
    if rank == 1:
        heart.stop()
        return
    for _ in range(heartbeat.MISSED + 3):
        assert heart.sign() is None
        time.sleep(heartbeat.BEAT)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    until(lambda: heart.sign() is not None)
    Path(folder, str(rank)).write_text(str(heart.sign().rank))


def test_the_rank_that_keeps_the_store_is_stopped(tmp_path):
    results = launch.run(keeper_stopped, 3, str(tmp_path))
    for rank, text in results[1:]:
        assert rank == 0
        assert "store where the ranks meet has not answered" in text


def keeper_stopped(folder):
    rank = dist.get_rank()
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if rank == 0 else None
    port = [server.port if server else 0]
    dist.broadcast_object_list(port, 0)
    store = server or dist.TCPStore("127.0.0.1", port[0], is_master=False)
    heart = Heartbeat(store, rank, 3, "test", 0, lambda: True)
    dist.barrier()
    if rank == 0:
        Path(folder, "pid").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        dist.barrier()  # the store lives as long as it is held
        return server.port
    until(lambda: heart.sign() is not None)
    sign = heart.sign()
    Path(folder, str(rank)).touch()
    if rank == 1:
        until(Path(folder, "2").exists)
        os.kill(int(Path(folder, "pid").read_text()), signal.SIGCONT)
    until(lambda: heart.sign() is None)  # it answers again
    heart.stop()
    dist.barrier()
    return sign.rank, sign.words
