"""What a call of backend ``ring`` returns: order, futures and their callbacks, lifetimes, messages, and the end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.autograd.profiler import record_function
from torch.nn.parallel import DistributedDataParallel

import collectives as C
from collectives import launch
from collectives.backend import profiling

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("dynamo")]


def register():
    import collectives.torch_backend  # noqa: F401


# Works and futures.


def test_works_run_in_the_order_of_their_issue(ring_ranks):
    ring_ranks(3, in_order)


def in_order():
    rank, size = dist.get_rank(), dist.get_world_size()
    x, works = torch.ones(5, dtype=torch.float64), []
    for i in range(20):
        time.sleep(0.003 * ((rank + i) % 3))
        works.append(dist.all_reduce(x, async_op=True))
        works.append(dist.broadcast(x, i % size, async_op=True))
        if i % 5 == 0:
            dist.barrier()
    for work in reversed(works):
        work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert work.exception() is None
    assert x.tolist() == [float(size) ** 20] * 5
    assert works[0].result()[0] is x


def test_futures(ring_ranks):
    ring_ranks(2, futures)


def futures():
    x = torch.ones(3)
    future = dist.all_reduce(x, async_op=True).get_future()
    assert future.wait()[0] is x
    assert future.done()
    assert x.tolist() == [2, 2, 2]
    half = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] / 2)
    assert half.wait().tolist() == [2, 2, 2]
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert work.get_future() is work.get_future()
    assert work.get_future().done()
    both = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(2)]
    assert [value[0].item() for value in torch.futures.wait_all(both)] == [2, 2]


def test_waiting_no_longer_than_one_likes(ring_ranks):
    ring_ranks(2, short_waits)


def short_waits():
    x = torch.ones(3)
    if dist.get_rank() == 0:
        work = dist.all_reduce(x, async_op=True)
        with pytest.raises(C.CollectiveError, match="it goes on"):
            work.wait(timedelta(seconds=0.1))
        assert not work.is_completed()
        dist.send(torch.ones(1), 1)
        work.wait()
    else:
        dist.recv(torch.ones(1), 0)
        dist.all_reduce(x)
    assert x.tolist() == [2, 2, 2]


def test_tensors_and_dropped_handles_live_until_the_end(ring_ranks):
    ring_ranks(2, dropped)


def dropped():
    rank = dist.get_rank()
    dist.all_reduce(torch.full((1000,), 3.0), async_op=True)  # nobody will ever ask
    out = torch.zeros(2000)
    work = dist.all_gather_into_tensor(out, torch.arange(1000.0) + rank, async_op=True)
    gc.collect()
    junk = [torch.full((1000,), -1.0) for _ in range(50)]  # in the place of the input, if that was freed
    work.wait()
    assert torch.equal(out, torch.cat([torch.arange(1000.0), torch.arange(1000.0) + 1]))
    assert len(junk) == 50
    if rank == 0:
        dist.isend(torch.full((100_000,), 5.0), 1)  # the handle is gone at once
    else:
        got = torch.zeros(100_000)
        dist.recv(got, 0)
        assert got.sum() == 500_000
    dist.barrier()


def test_what_was_waited_for_is_freed(ring_ranks):
    ring_ranks(2, freed)


def freed():
    seen = []
    for kind in ("wait", "future"):
        for _ in range(3):
            x = torch.ones(1000)
            seen.append(weakref.ref(x))
            work = dist.all_reduce(x, async_op=True)
            if kind == "wait":
                work.wait()
            else:
                work.get_future().wait()
            del work, x
    dist.barrier()
    gc.collect()
    assert [ref() for ref in seen] == [None] * 6


def test_a_work_of_which_only_cpp_holds_a_half(ring_ranks):
    ring_ranks(3, half_a_work)


def half_a_work():
    """Join tells the reducer to wait for a work, and forgets it."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    with model.join(divide_by_initial_world_size=False):
        for i in range(2 + dist.get_rank()):
            model(torch.full((3, 4), float(i))).sum().backward()
    ours = [p.detach().clone() for p in model.parameters()]
    for p in ours:
        assert all(torch.equal(p, q) for q in gathered(p))


def gathered(tensor):
    out = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(out, tensor)
    return out


# Callbacks that issue collectives.


@pytest.mark.parametrize("way", ["wait", "future", "sync"])
def test_callbacks_may_issue_collectives_and_wait(ring_ranks, way):
    ring_ranks(3, issue_in_callbacks, way)


def issue_in_callbacks(way):
    """Every rank runs the same operations in the same order, whenever its callbacks happen to run."""
    rank, size = dist.get_rank(), dist.get_world_size()
    seen, futures = [], []

    def square(future):
        x = future.value()[0]
        seen.append(x[0].item())
        if way == "sync":
            dist.all_reduce(x)
        else:
            work = dist.all_reduce(x, async_op=True)
            assert work.wait() if way == "wait" else work.get_future().wait()
        return x

    for i in range(12):
        x = torch.full((3,), float(i))
        futures.append(dist.all_reduce(x, async_op=True).get_future().then(square))
        time.sleep(0.004 * ((rank + i) % 3))
    later = torch.ones(1)
    dist.all_reduce(later)
    values = [future.wait()[0].item() for future in futures]
    assert values == [i * size * size for i in range(12)]
    assert seen == [i * size for i in range(12)]
    assert later.item() == size


def test_a_callback_may_wait_for_what_was_issued_before(ring_ranks):
    ring_ranks(2, wait_for_an_earlier_one)


def wait_for_an_earlier_one():
    if dist.get_rank() == 1:
        time.sleep(0.1)  # rank 0's callback runs with the second operation behind it
    first, second = torch.ones(2), torch.ones(2)
    future = dist.all_reduce(first, async_op=True).get_future()
    work = dist.all_reduce(second, async_op=True)
    last = dist.all_reduce(first, async_op=True)
    assert future.then(lambda f: work.wait()).wait()
    last.wait()
    assert (first.tolist(), second.tolist()) == ([4, 4], [2, 2])


def test_power_sgd_with_many_buckets(ring_ranks):
    """Its callbacks wait for collectives of their own. (On gloo ranks issue them in different orders, and crash.)"""
    ring_ranks(3, power_sgd)


def power_sgd():
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    torch.manual_seed(0)
    layers = [torch.nn.Linear(11, 11) for _ in range(6)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.0006)
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        torch.manual_seed(10 * step + dist.get_rank())
        optimizer.zero_grad()
        model(torch.randn(4, 11)).square().mean().backward()
        optimizer.step()
    for p in model.parameters():
        assert all(torch.equal(p.detach(), q) for q in gathered(p.detach()))


def test_the_profiler_sees_a_collective_until_it_ends(ring_ranks):
    ring_ranks(2, profiled)


def profiled():
    x, rank = torch.ones(3), dist.get_rank()
    with torch.autograd.profiler.profile() as seen:
        if rank == 1:
            dist.recv(torch.empty(3), 0)
        work = dist.all_reduce(x, async_op=True)
        if rank == 0:
            dist.send(torch.ones(3), 1)  # so it ends later than its issue, in another thread
        work.wait()
        dist.broadcast(x, 0)
    events = {event.name: event for event in seen.function_events}
    assert events["ring:all_reduce"].is_async or rank == 1
    assert "ring:broadcast" in events
    assert x.tolist() == [2, 2, 2]


def test_a_slow_profiler_has_seen_all_that_is_over(ring_ranks):
    ring_ranks(2, profiled_to_the_end)


class SlowSpan(record_function):
    """A span that takes its time to end; what ends after the profiler has been stopped is written into freed memory."""

    ended = 0

    def _call_end_callbacks_on_future(self, future):
        def end(_):
            time.sleep(0.2)
            SlowSpan.ended += 1

        future.then(end)
        return super()._call_end_callbacks_on_future(future)


def profiled_to_the_end():
    x, ended = torch.ones(3), []
    with pytest.MonkeyPatch.context() as patch, torch.autograd.profiler.profile() as seen:
        patch.setattr(profiling, "record_function", SlowSpan)
        patch.setattr(SlowSpan, "ended", 0)
        dist.all_reduce(x)
        ended.append(SlowSpan.ended)
        dist.all_reduce(x, async_op=True).wait()
        ended.append(SlowSpan.ended)
        dist.all_reduce(x, async_op=True).get_future().wait()
        ended.append(SlowSpan.ended)
        dist.all_gather_coalesced([[torch.ones(3)] for _ in range(2)], [x])
        ended.append(SlowSpan.ended)
    assert ended == [1, 2, 3, 4]
    assert [event.is_async for event in seen.function_events if event.name == "ring:all_reduce"] == [True] * 3
    assert x.tolist() == [8, 8, 8]


# Messages.


@pytest.mark.parametrize("world", [2, 3])
def test_messages(ring_ranks, world):
    ring_ranks(world, messages)


def messages():
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 1000, 100_000):
        x, y = torch.arange(float(count)) + rank, torch.zeros(count)
        works = [dist.isend(x, right), dist.irecv(y, left)]
        for work in works:
            work.wait()
            work.wait()  # gloo would hang
        assert works[1].is_completed()
        assert torch.equal(y, torch.arange(float(count)) + left)
        z = torch.zeros(count)
        ops = [dist.P2POp(dist.isend, y, left), dist.P2POp(dist.irecv, z, right)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        assert torch.equal(z, torch.arange(float(count)) + rank)
    if rank == 0:  # by tag, not by order
        works = [dist.isend(torch.tensor([number]), 1, tag=11 * int(number)) for number in (1.0, 2.0)]
        numbers = [torch.zeros(1) for _ in range(size - 1)]
        for work in works:
            work.wait()
        sources = [dist.recv(number) for number in numbers]
        assert sorted(sources) == list(range(1, size))
        assert [number.item() for number in numbers] == sources
    else:
        if rank == 1:
            second, first = torch.zeros(1), torch.zeros(1)
            dist.recv(second, 0, tag=22)
            dist.recv(first, 0, tag=11)
            assert (first.item(), second.item()) == (1, 2)
        dist.send(torch.tensor([float(rank)]), 0)
    dist.barrier()
    told = [{"from": rank}] if rank == 0 else [None]
    if rank == 0:
        dist.send_object_list(told, 1)
    if rank == 1:
        dist.recv_object_list(told, 0)
        assert told == [{"from": 0}]


def test_messages_between_collectives_do_not_mix(ring_ranks):
    ring_ranks(2, mixed)


def mixed():
    other = 1 - dist.get_rank()
    got = [torch.zeros(4) for _ in range(5)]
    x = torch.ones(4)
    works = []
    for i in range(5):
        works.append(dist.irecv(got[i], other))
        works.append(dist.all_reduce(x, async_op=True))
        works.append(dist.isend(torch.full((4,), float(i)), other))
    for work in works:
        work.wait()
    assert [g[0].item() for g in got] == [0, 1, 2, 3, 4]
    assert x.tolist() == [32] * 4


# Threads, groups, and the end of a process.


def test_groups_leave_nothing_behind():
    launch.run(come_and_go, 2, backend="ring", prepare=register, timeout=60)


def come_and_go():
    def once():
        group = dist.new_group([0, 1])
        x = torch.ones(1 << 16)
        work = dist.all_reduce(x, group=group, async_op=True)
        work.get_future().wait()
        dist.send(x, 1, group=group) if dist.get_rank() == 0 else dist.recv(x, 0, group=group)
        dist.destroy_process_group(group)
        return weakref.ref(group)

    once()
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    groups = [once() for _ in range(8)]
    gc.collect()
    assert [group() for group in groups] == [None] * 8
    until = time.monotonic() + 5
    while time.monotonic() < until and threading.active_count() > threads:
        time.sleep(0.05)
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) <= files + 2


def test_abort_breaks_off_what_is_under_way(ring_ranks):
    ring_ranks(2, aborted)


def aborted():
    group = dist.new_group([0, 1])
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(5), group=group, async_op=True)
        time.sleep(0.2)
        group.abort()
        with pytest.raises(C.CollectiveError, match="closed in the middle"):
            work.wait()
    dist.barrier()
    with pytest.raises(C.CollectiveError, match="closed" if dist.get_rank() == 0 else "rank 0 closed the connection"):
        dist.all_reduce(torch.ones(5), group=group)
    dist.barrier()


SCRIPT = """
import os, signal, sys, threading, time, torch, torch.distributed as dist, collectives.torch_backend, torch._dynamo
assert len(os.listdir("/proc/self/task")) == 1
cases = [(how, rank) for how in sys.argv[2:] for rank in range(2)]
ranks = []
for how, rank in cases:  # two ranks a case, which go on below; this one only waits for them
    ranks.append(os.fork())
    if not ranks[-1]:
        log = os.open(f"{sys.argv[1]}/{how}{rank}", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1), os.dup2(log, 2)
        break
    if rank == 1:  # one case after the other
        print(how, *[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks[-2:]], flush=True)
if all(ranks):
    sys.exit()
store = dist.FileStore(f"{sys.argv[1]}/{how}.store", 2)
dist.init_process_group("ring", store=store, rank=rank, world_size=2)
x = torch.ones(1 << 20)
dist.all_reduce(x)
if how == "done":
    work = dist.all_reduce(x, async_op=True)
elif how == "pending":  # the other rank never comes
    if rank == 0:
        works = [dist.all_reduce(x, async_op=True) for _ in range(3)]
        futures = [work.get_future().then(lambda f: print("called back")) for work in works]
        time.sleep(0.3)
    else:
        time.sleep(1.0)
elif how == "message":
    work = dist.irecv(x, 1) if rank == 0 else None
elif how == "destroyed":
    work = dist.all_reduce(x, async_op=True)
    dist.destroy_process_group()
elif how == "killed":  # a thread may be inside gloo for as long as the timeout
    x = torch.ones(16 << 20)
    if rank == 1:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
    try:
        while True:
            dist.broadcast(x, 0)
    except collectives.CollectiveError:
        pass
elif how == "raises":
    work = dist.all_reduce(x, async_op=True) if rank == 0 else None
    raise SystemExit(7)
print("end", flush=True)
"""


CODES = {
    "done": [0, 0],
    "pending": [0, 0],
    "message": [0, 0],
    "destroyed": [0, 0],
    "killed": [0, -signal.SIGKILL],
    "raises": [7, 7],
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """By case: how its ranks ended, and what they had said. They are forks of one interpreter; each ends by itself."""
    folder = tmp_path_factory.mktemp("ended")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder), *CODES],
        capture_output=True,
        text=True,
        env=environment,
        timeout=200,
    )
    lines = [line.split() for line in ran.stdout.splitlines()]
    codes = {how: list(map(int, codes)) for how, *codes in lines}
    return {how: (codes[how], [(folder / f"{how}{rank}").read_text() for rank in range(2)]) for how in codes}


@pytest.mark.timeout(220)
@pytest.mark.parametrize("how", CODES)
def test_the_interpreter_ends_well(ended, how):
    """Without destroy_process_group, and with works under way."""
    codes, said = ended[how]
    assert codes == CODES[how], said
    assert [("end" in words) for words in said] == [code == 0 for code in codes], said
