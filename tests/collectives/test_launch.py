"""Rank processes: results, failures, and nothing left behind.

Functions for ranks stand at the top level. ``run`` forks, so it needs no pickling. ``Pool.run`` sends the function by
name (module and qualified name); under pytest's importlib mode no rank could import this file by that name, but forked
ranks have it in ``sys.modules`` already. A spawned rank has not: there, use functions of an installed package.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectives import launch
from collectives.launch import Pool, RankFailed, RankTimeout, run

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform != "linux", reason="these tests fork, and look into /proc"),
]


def children() -> set[int]:
    """Children of this process, zombies included; multiprocessing's tracker is there for the whole session."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return {pid for pid in found if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(autouse=True)
def nothing_is_left():
    before, handles, threads = children(), len(os.listdir("/proc/self/fd")), threading.active_count()
    yield
    assert children() <= before
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) <= handles + 3  # the tracker's pipe comes with the first spawn


def me() -> int:
    return dist.get_rank()


def summed(offset: int = 0) -> tuple[int, torch.Tensor]:
    tensor = torch.arange(3.0) + 1000 * me() + offset
    dist.all_reduce(tensor)
    return me(), tensor


def surroundings() -> dict[str, object]:
    return {
        "rank": (os.environ["RANK"], os.environ["LOCAL_RANK"]),
        "size": (os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"], dist.get_world_size()),
        "threads": (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]),
        "interface": os.environ["GLOO_SOCKET_IFNAME"],
        "signal": signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL,
        "policy": os.sched_getscheduler(0),
        "launched": launch.launched(),
    }


def joins() -> tuple[int, int]:
    with launch.join() as place:
        assert dist.get_rank() == place[0]
    return place if dist.is_initialized() else (-1, -1)


def fails_on(rank: int) -> None:
    if me() == rank:
        raise ValueError("the third chunk is missing\nand a second line")
    dist.recv(torch.zeros(1), src=rank)


def dies_on(rank: int, how: str) -> None:
    if me() == rank:
        if how == "exit":
            os._exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.recv(torch.zeros(1), src=rank)


def fails_while_others_sleep() -> None:
    if me() == 0:
        raise RuntimeError("first")
    time.sleep(60)


def exits(code: object) -> None:
    sys.exit(code)


def circle() -> None:
    dist.recv(torch.zeros(1), src=(me() + 1) % dist.get_world_size())


def waits_for_its_partner() -> None:
    if me() == 1:
        dist.recv(torch.zeros(1), src=0)


def returns_a_function():
    return lambda: None


def differentiates() -> float:
    value = torch.ones(300, 300, requires_grad=True)
    (value @ value).sum().backward()
    assert value.grad is not None
    return float(value.grad[0, 0])


def remembers(key: str, value: int | None = None) -> str | None:
    if value is not None:
        os.environ[key] = str(value + me())
    return os.environ.get(key)


def forks() -> list[int]:
    return run(me, 1, start="fork")


def parent_of_a_circle(pipe, directory: str) -> None:
    def noted() -> None:
        Path(directory, str(me())).write_text(str(os.getpid()))
        dist.barrier()
        circle()

    signal.signal(signal.SIGINT, signal.default_int_handler)
    pipe.send("ready")
    run(noted, 2)


def test_results_come_in_rank_order():
    results = run(summed, 4, 7)
    assert [rank for rank, _ in results] == [0, 1, 2, 3]
    for _, tensor in results:
        assert torch.equal(tensor, 4 * torch.arange(3.0) + 6000 + 28)


def test_one_rank_and_a_closure():
    secret = 12
    assert run(lambda more: secret + more + me(), 1, more=1) == [13]


def test_a_rank_is_clean_and_finds_its_place():
    old = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        first, second = run(surroundings, 2, batch=True)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert (first["rank"], second["rank"]) == (("0", "0"), ("1", "1"))
    assert second["size"] == ("2", "2", 2)
    assert second["threads"] == (1, "1")
    assert second["interface"] == os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    assert second["signal"]
    assert second["policy"] == os.SCHED_BATCH
    assert second["launched"]
    assert not launch.launched()


def test_ranks_differentiate_after_the_parent_has():
    wanted = differentiates()
    torch.randn(500, 500) @ torch.randn(500, 500)  # starts the parent's thread pool
    assert run(differentiates, 2) == [wanted, wanted]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_failure_names_the_first_rank_and_keeps_its_traceback(rank):
    with pytest.raises(RankFailed) as caught:
        run(fails_on, 3, rank)
    error = caught.value
    assert error.rank == rank
    assert error.reason.startswith("ValueError: the third chunk is missing")
    assert "in fails_on" in error.traceback
    assert "worker.py" not in error.traceback
    assert error.traceback in str(error) + "\n"
    assert set(error.others) == {0, 1, 2} - {rank}
    assert all("\n" not in line and "Connection" in line for line in error.others.values())
    again = pickle.loads(pickle.dumps(error))
    assert (again.rank, again.reason, again.others, str(again)) == (error.rank, error.reason, error.others, str(error))


@pytest.mark.parametrize(("how", "reason"), [("kill", "killed by signal SIGKILL (9)"), ("exit", "exited with code 3")])
def test_a_rank_that_dies_is_the_first_not_those_it_disturbs(how, reason):
    for _ in range(5):
        with pytest.raises(RankFailed, match="rank 1 failed first") as caught:
            run(dies_on, 3, 1, how)
        assert (caught.value.rank, caught.value.reason) == (1, reason)
        assert set(caught.value.others) == {0, 2}


def test_others_have_the_grace_and_no_more():
    start = time.monotonic()
    with pytest.raises(RankFailed) as caught:
        run(fails_while_others_sleep, 3, grace=0.3)
    assert 0.3 < time.monotonic() - start < 10
    assert "was still running at line" in caught.value.others[2]
    assert "fails_while_others_sleep" in caught.value.others[2]


def test_leaving_is_a_failure_only_with_a_code():
    assert run(exits, 2, 0) == [None, None]
    with pytest.raises(RankFailed, match="SystemExit: 5"):
        run(exits, 2, 5)


def leaves_a_thread(fails: bool) -> int:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    if fails:
        raise ValueError("with a thread")
    return dist.get_rank()


def test_threads_that_a_function_leaves_running_are_not_waited_for():
    assert run(leaves_a_thread, 2, False, timeout=30) == [0, 1]
    with pytest.raises(RankFailed, match="with a thread"):
        run(leaves_a_thread, 2, True, timeout=30)


def test_a_result_that_cannot_travel_is_a_failure():
    with pytest.raises(RankFailed, match="pickle"):
        run(returns_a_function, 1)


def test_a_timeout_names_the_ranks_and_where_they_stood():
    start = time.monotonic()
    with pytest.raises(
        TimeoutError, match=r"ranks 0, 1, 2 did not end within 1 s; rank 0: stood at line \d+"
    ) as caught:
        run(circle, 3, timeout=1)
    assert time.monotonic() - start < 10
    error = caught.value
    assert isinstance(error, RankTimeout)
    assert error.ranks == [0, 1, 2]
    assert "in circle" in error.tracebacks[1]
    assert "worker.py" not in error.tracebacks[1]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_rank_does_not_wait_for_one_that_has_returned():
    with pytest.raises(RankFailed, match="rank 1 failed first"):
        run(waits_for_its_partner, 2, grace=0.2)


def test_arguments_are_checked_before_anything_starts():
    with pytest.raises(ValueError, match="ranks=0"):
        run(summed, 0)
    with pytest.raises(ValueError, match="start='thread'"):
        run(summed, 1, start="thread")


def test_a_rank_does_not_fork_ranks():
    with pytest.raises(RankFailed, match="a rank cannot fork ranks"):
        run(forks, 1)


def test_a_spawned_rank():
    assert run(dist.get_rank, 2, start="spawn") == [0, 1]


def test_a_pool_is_reused_and_fast():
    with Pool(4) as pool:
        assert len(set(pool.pids)) == 4
        assert pool.run(os.getpid) == pool.pids
        times = []
        for call in range(60):
            start = time.monotonic()
            results = pool.run(summed, call)
            times.append(time.monotonic() - start)
            assert results[3][1][0] == 6000 + 4 * call
        assert sorted(times)[30] < 0.25  # 3 ms on an idle machine
        pool.run(remembers, "KEPT", value=5)
        assert pool.run(remembers, "KEPT") == ["5", "6", "7", "8"]
        assert not pool.broken
    with pytest.raises(RuntimeError, match="closed"):
        pool.run(os.getpid)


def test_a_failure_breaks_the_pool():
    with Pool(3) as pool:
        with pytest.raises(RankFailed, match="third chunk") as caught:
            pool.run(fails_on, 1)
        assert caught.value.rank == 1
        assert pool.broken
        assert not any(alive(pid) for pid in pool.pids)
        with pytest.raises(RuntimeError, match="broken"):
            pool.run(os.getpid)


def test_a_pool_notices_a_rank_that_died_while_idle():
    with Pool(2) as pool:
        os.kill(pool.pids[1], signal.SIGKILL)
        with pytest.raises(RankFailed, match="rank 1 failed first: killed by signal SIGKILL"):
            pool.run(dist.barrier)


def test_what_cannot_be_sent_leaves_the_pool_as_it_was():
    with Pool(2) as pool:
        with pytest.raises((AttributeError, pickle.PicklingError)):
            pool.run(lambda: None)
        assert pool.run(me) == [0, 1]


def test_a_pool_that_is_dropped_ends():
    pool = Pool(2)
    pids = pool.pids
    del pool
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ranks_do_not_outlive_their_parent(number, tmp_path):
    context = multiprocessing.get_context("fork")
    pipe, its = context.Pipe()
    parent = context.Process(target=parent_of_a_circle, args=(its, str(tmp_path)))
    parent.start()
    pipe.recv()
    pids = []
    while len(pids) < 2:
        time.sleep(0.05)
        pids = [int(path.read_text()) for path in tmp_path.iterdir() if path.read_text()]
    assert all(alive(pid) for pid in pids)
    assert parent.pid is not None
    os.kill(parent.pid, number)
    parent.join(10)
    limit = time.monotonic() + 5
    while any(alive(pid) for pid in pids) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)
    for pid in pids:  # ours to bury, if a test of the lessons' runner has made this process adopt orphans
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    assert parent.exitcode == (1 if number == signal.SIGINT else -number)
    parent.close()
    pipe.close()
    its.close()


def test_a_launched_process_is_known_by_its_environment(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert not launch.launched()
    with pytest.raises(RuntimeError, match="no rank"), launch.join():
        pass
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not launch.launched()
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert launch.launched()


def test_joining_uses_the_group_that_is_there():
    assert run(joins, 2) == [(0, 2), (1, 2)]
