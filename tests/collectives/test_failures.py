"""Wrong arguments, ranks that disagree, ranks that stall and ranks that die: an error that says so, never a hang."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import traceback

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives import launch
from tests.collectives.told import tell, wait_until_told

pytestmark = pytest.mark.timeout(60)


# Wrong arguments: refused before anything is sent, so the group is as good as before.


def test_wrong_arguments(ranks):
    ranks(2, wrong_arguments)


def wrong_arguments():
    x, two = torch.ones(4), [torch.ones(2), torch.ones(2)]
    refused = [
        (lambda: C.all_reduce([1.0]), "tensor is of type list"),
        (lambda: C.all_reduce(x.to_sparse()), "tensor has layout"),
        (lambda: C.all_reduce(x.to("meta")), "tensor is on meta"),
        (lambda: C.all_reduce(x, dist.ReduceOp.BAND), "op=BAND of dtype torch.float32"),
        (lambda: C.all_reduce(x, "median"), "op='median' is not supported"),
        (lambda: C.all_reduce(x, algorithm="rong"), "algorithm 'rong' is unknown for all_reduce: use ring"),
        (lambda: C.all_reduce(x, algorithm="ring:colour=1"), "has no option 'colour'"),
        (lambda: C.all_reduce(x, algorithm="ring:chunks=7"), "its number of chunks is fixed"),
        (lambda: C.all_reduce(x, algorithm="hierarchical:local=3"), "local"),
        (lambda: C.all_reduce(x, algorithm="no_file.py:f"), "does not exist"),
        (lambda: C.broadcast(x, 2), "src=2 is not in the group"),
        (lambda: C.broadcast(x, group_src=2), "group_src=2"),
        (lambda: C.broadcast(x, 0, group_src=0), "both given"),
        (lambda: C.reduce(x, -1), "dst=-1 is not in the group"),
        (lambda: C.broadcast(x), "src is missing"),
        (lambda: C.all_reduce(x, timeout=0), "timeout=0"),
        (lambda: C.all_reduce(x, timeout="5"), "timeout='5'"),
        (lambda: C.all_reduce(x, algorithm=None), "algorithm=None"),
        (lambda: C.all_reduce(x, algorithm="hierarchical:local=x"), "local"),
        (lambda: C.all_reduce(x, accumulate="float32"), "accumulate='float32'"),
        (lambda: C.all_reduce(x, accumulate=torch.int32), "cannot hold all values"),
        (lambda: C.all_reduce(x.double(), accumulate=torch.float32), "cannot hold all values"),
        (lambda: C.all_reduce(x.long(), dist.ReduceOp.AVG, accumulate=torch.float64), "op=AVG of dtype"),
        (lambda: C.all_to_all_single(x.clone(), x, 2, 2), "output_split_sizes=2"),
        (lambda: C.all_gather(two, x), "tensor has 4 elements, but tensor_list"),
        (lambda: C.all_gather(two[:1], x), "tensor_list has 1 tensors"),
        (lambda: C.all_gather([two[0], two[1].double()], two[0]), "dtype"),
        (lambda: C.all_gather_into_tensor(torch.empty(5), x), "output_tensor has 5 elements"),
        (lambda: C.reduce_scatter_tensor(torch.empty(3), x), "input has 4 elements"),
        (lambda: C.reduce_scatter(torch.empty(3), two), "output has 3 elements"),
        (lambda: C.gather(x, None if dist.get_rank() == 0 else two), "gather_list"),
        (lambda: C.scatter(x, two if dist.get_rank() else None), "scatter_list"),
        (lambda: C.all_to_all_single(torch.empty(3), torch.empty(3)), "output has 3 rows"),
        (lambda: C.all_to_all_single(torch.empty(4), x, [2, 2], [3, 2]), "input_split_sizes"),
        (lambda: C.all_to_all(two, [torch.ones(1), torch.ones(3)]), "make input block"),
    ]
    for call, words in refused:
        with pytest.raises(ValueError, match=re.escape(words)):
            call()
    C.all_reduce(x)
    assert x.tolist() == [2, 2, 2, 2]


def test_no_group_yet():
    with pytest.raises(ValueError, match="init_process_group"):
        C.all_reduce(torch.ones(1))


# Ranks that disagree.


@pytest.mark.parametrize(
    "what", ["shape", "dtype", "reduction", "operation", "root", "algorithm", "order", "accumulate"]
)
def test_check_names_those_that_disagree(ranks, what):
    ranks(3, disagree, what)


def disagree(what):
    rank = dist.get_rank()
    odd = rank == 1
    x = torch.ones(
        200 if odd and what == "shape" else 100, dtype=torch.int32 if odd and what == "dtype" else torch.float32
    )
    other = torch.empty(300)
    calls = {
        "reduction": lambda: C.all_reduce(x, dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM, check=True),
        "operation": lambda: (C.broadcast if odd else C.reduce)(x, 0, check=True),
        "root": lambda: C.broadcast(x, 2 if odd else 0, check=True),
        "algorithm": lambda: C.all_reduce(x, algorithm="direct" if odd else "ring", check=True),
        "accumulate": lambda: C.all_reduce(x, accumulate=torch.float64 if odd else None, check=True),
        "order": lambda: C.all_reduce(x, check=True) if odd else C.all_gather_into_tensor(other, x, check=True),
    }
    with pytest.raises(C.MismatchError) as caught:
        calls.get(what, lambda: C.all_reduce(x, check=True))()
    assert "ranks 0, 2: call" in str(caught.value)
    assert "rank 1: call" in str(caught.value)
    good = torch.ones(3)
    C.all_reduce(good, check=True)  # nothing was sent, so the group lives
    assert good.tolist() == [3, 3, 3]


def test_check_compares_what_is_given_and_taken(ranks):
    ranks(2, sizes_of_all_to_all)


def sizes_of_all_to_all():
    x = torch.ones(4 + 4 * (dist.get_rank() == 0))
    with pytest.raises(C.MismatchError, match="rank 0 gives rank 1 4 elements, which takes 2"):
        C.all_to_all_single(x.clone(), x, check=True)


def test_check_by_environment(monkeypatch):
    monkeypatch.setenv("COLLECTIVES_CHECK", "1")
    launch.run(check_by_environment, 2)


def check_by_environment():
    with pytest.raises(C.MismatchError):
        C.all_reduce(torch.ones(3 + dist.get_rank()))


def collect(function, *args):
    """(seconds, type name, text, step, peer) of what ``function`` raises on this rank; the process lives on."""
    began = time.monotonic()
    try:
        function(*args)
    except Exception as error:
        return (
            time.monotonic() - began,
            type(error).__name__,
            str(error),
            getattr(error, "step", None),
            getattr(error, "peer", None),
        )
    return time.monotonic() - began, None, "", None, None


@pytest.mark.parametrize("algorithm", ["ring", "direct", "ring:channels=2"])
def test_without_check_different_sizes_time_out_and_nothing_crashes(algorithm):
    for seconds, kind, text, *_ in launch.run(different_sizes, 2, algorithm):
        assert kind == "CollectiveError"
        assert seconds < 5
        assert "all_reduce" in text
        assert "check=True" in text


def different_sizes(algorithm):
    x = torch.ones(100 + 100 * dist.get_rank())
    return collect(lambda: C.all_reduce(x, algorithm=algorithm, timeout=1.0))


def test_without_check_an_empty_call_does_not_let_the_next_one_pass_for_it():
    (kind, _), (other, received) = launch.run(slips, 2)
    assert kind == other == "CollectiveError"
    assert received == [0, 0, 0, 0]


def slips():
    x = torch.ones(3) if dist.get_rank() == 0 else torch.zeros(4)
    if dist.get_rank() == 0:
        C.broadcast(torch.empty(0), 0)  # sends nothing, so this rank is a call ahead
    kind = collect(lambda: C.broadcast(x, 0, timeout=1.0))[1]
    return kind, x.tolist()


def test_one_rank_skips_a_call():
    kinds, texts = zip(*launch.run(skips, 3), strict=True)
    assert kinds == ("CollectiveError", None, "CollectiveError")
    assert any(re.search("rank 1,? (which )?is stalled, or called something else", text) for text in texts)


def skips():
    x = torch.ones(10)
    C.all_reduce(x, algorithm="ring")
    if dist.get_rank() == 1:
        wait_until_told(by=2, seconds=2)
        return None, ""
    _, kind, text, *_ = collect(lambda: C.all_reduce(x, algorithm="ring", timeout=0.7))
    tell()
    return kind, text


# A rank that stalls.


@pytest.mark.parametrize("algorithm", ["ring", "double_tree", "halving_doubling"])
@pytest.mark.parametrize("elements", [1000, 1 << 20])
def test_a_stalled_rank(algorithm, elements):
    results = launch.run(stalls, 4, algorithm, elements)
    for rank, (seconds, kind, text, step, peer) in enumerate(results):
        assert kind == "CollectiveError", (rank, text)
        if rank != 2:
            assert seconds < 3
            assert peer is not None
            assert step is not None
            assert f"on rank {rank} at step {step}: it waited" in text
            assert "all_reduce" in text
            assert algorithm in text
        assert re.search("rank 2,? (which )?is stalled|waiting for this one" if rank != 2 else "this one", text), text


def stalls(algorithm, elements):
    x = torch.ones(elements)
    C.all_reduce(x, algorithm=algorithm)
    if dist.get_rank() == 2:
        wait_until_told(by=3, seconds=4)
    said = collect(lambda: C.all_reduce(x, algorithm=algorithm, timeout=1.0))
    tell()
    return said


# A rank that dies. Survivors write down what they saw: the launcher reports the dead one.


@pytest.mark.parametrize(
    ("algorithm", "elements", "asynchronous"),
    [  # every pair of two of them
        ("ring", 1000, False),
        ("ring", 16 << 20, True),
        ("recursive_doubling", 1000, True),
        ("recursive_doubling", 16 << 20, False),
        ("ring:channels=2", 1000, False),
        ("ring:channels=2", 16 << 20, True),
        ("double_tree", 1000, True),
        ("double_tree", 16 << 20, False),
    ],
)
def test_a_killed_rank(tmp_path, algorithm, elements, asynchronous):
    with pytest.raises(launch.RankFailed) as failed:
        launch.run(dies, 4, str(tmp_path), algorithm, elements, asynchronous, grace=15.0)
    assert failed.value.rank == 1
    assert "SIGKILL" in failed.value.reason
    for rank in (0, 2, 3):
        seconds, kind, again, text = (tmp_path / str(rank)).read_text().split("\n", 3)
        assert kind == "CollectiveError", text
        assert again == "CollectiveError"
        assert float(seconds) < 2
        assert "step" in text
        assert re.search("rank 1,? (which )?closed the connection", text), text
        assert algorithm.split(":")[0] in text


def dies(folder, algorithm, elements, asynchronous):
    rank = dist.get_rank()
    x = torch.ones(elements)
    C.all_reduce(x, algorithm=algorithm)
    dist.barrier()
    if rank == 1:
        threading.Timer(0.03, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    died = time.monotonic() + 0.03

    def go_on():
        while True:
            work = C.all_reduce(x, algorithm=algorithm, async_op=asynchronous)
            if work is not None:
                work.wait()

    _, kind, text, *_ = collect(go_on)
    seconds = time.monotonic() - died
    _, again, *_ = collect(lambda: C.all_reduce(x))
    with open(os.path.join(folder, str(rank)), "w") as file:
        file.write(f"{seconds}\n{kind}\n{again}\n{text}")


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "gather", "scatter"])
def test_a_killed_rank_of_which_others_only_receive_or_only_send(tmp_path, collective):
    with pytest.raises(launch.RankFailed):
        launch.run(dies_one_way, 3, str(tmp_path), collective, grace=15.0)
    for rank in (0, 2):
        seconds, kind, text = (tmp_path / str(rank)).read_text().split("\n", 2)
        assert kind == "CollectiveError", text
        assert float(seconds) < 2
        assert "rank 1" in text


def dies_one_way(folder, collective):
    rank = dist.get_rank()
    x, blocks = torch.ones(8 << 20), [torch.ones(8 << 20) for _ in range(3)]
    C.barrier()
    if rank == 1:
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    died = time.monotonic() + 0.05
    calls = {
        "broadcast": lambda: C.broadcast(x, 1, algorithm="naive"),
        "reduce": lambda: C.reduce(x, 2),
        "gather": lambda: C.gather(x, blocks if rank == 0 else None, 0),
        "scatter": lambda: C.scatter(x, blocks if rank == 1 else None, 1),
    }

    def go_on():
        while True:
            calls[collective]()
            C.barrier()

    _, kind, text, *_ = collect(go_on)
    with open(os.path.join(folder, str(rank)), "w") as file:
        file.write(f"{time.monotonic() - died}\n{kind}\n{text}")


def test_a_death_reaches_those_who_wait_for_somebody_else(tmp_path):
    with pytest.raises(launch.RankFailed):
        launch.run(dies_behind_a_sleeper, 4, str(tmp_path), grace=8.0)
    seconds, kind, text = (tmp_path / "1").read_text().split("\n", 2)
    assert kind == "CollectiveError", text
    assert float(seconds) < 2
    assert "meanwhile rank 2 gave up, waiting for rank 3, which closed the connection" in text
    assert (tmp_path / "0").read_text().split("\n", 2)[1] == "CollectiveError"  # when it comes at last


def dies_behind_a_sleeper(folder):
    """Binomial reduce to 0: rank 3 sends to 2, and 1 and 2 to 0, which is late. Rank 3 is killed on its way."""
    rank = dist.get_rank()
    x = torch.ones(1 << 21)
    C.barrier()
    died = time.monotonic()
    if rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        wait_until_told(by=2, seconds=3)
    _, kind, text, *_ = collect(lambda: C.reduce(x, 0, algorithm="binomial"))
    tell()
    with open(os.path.join(folder, str(rank)), "w") as file:
        file.write(f"{time.monotonic() - died}\n{kind}\n{text}")


def test_a_rank_that_has_done_its_part_may_leave():
    assert launch.run(leaves_early, 4, grace=0.05)[0] == [10.0, 10.0]


def leaves_early():
    rank = dist.get_rank()
    x = torch.full((1 << 21,), float(rank + 1))
    if rank == 0:
        time.sleep(1)
    C.reduce(x, 0)
    return [x[0].item(), x[-1].item()]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_auto_without_rank_0(asynchronous):
    results = launch.run(without_rank_0, 3, asynchronous, grace=6.0)
    for rank in (1, 2):
        first, kind, text, again = results[rank]
        assert (kind, again) == ("CollectiveError", "CollectiveError")
        assert first < 2.5
        assert "to hear from rank 0" in text or "rank 0" in text


def without_rank_0(asynchronous):
    if dist.get_rank() == 0:
        wait_until_told(by=2, seconds=3)
        return None

    def call():
        work = C.all_reduce(torch.ones(3), async_op=asynchronous, timeout=1.0)
        if work is not None:
            work.wait()

    seconds, kind, text, *_ = collect(call)
    later, again, *_ = collect(call)
    tell()
    assert later < 0.2  # the group is broken
    return seconds, kind, text, again


def test_the_timeout_is_of_the_whole_operation():
    assert launch.run(late_and_later, 3)[0] < 2.5


def late_and_later():
    rank = dist.get_rank()
    blocks = [torch.empty(3) for _ in range(3)]
    if rank == 2:
        wait_until_told(by=1, seconds=4)
        return 0.0
    if rank == 1:
        time.sleep(1.3)
    said = collect(lambda: C.gather(torch.ones(3), None if rank else blocks, 0, algorithm="direct", timeout=1.5))
    if rank == 0:
        tell()
    return said[0]


def test_an_interrupt_breaks_the_group_at_once():
    for kind, seconds, text in launch.run(interrupted, 2):
        assert kind == "CollectiveError", text
        assert seconds < 2


def interrupted():
    C.all_reduce(torch.ones(1))

    def ring(*_):
        raise KeyboardInterrupt

    if dist.get_rank() == 0:
        large = torch.ones(5_000_000).repeat(4)  # before the clock is set: it takes long on a busy machine
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            C.all_reduce(large, timeout=20)
    else:
        time.sleep(1)
    seconds, kind, text, *_ = collect(lambda: C.all_reduce(torch.ones(5), timeout=20))
    return kind, seconds, text


def test_later_calls_on_a_broken_group_raise_at_once():
    for first, second, text in launch.run(broken, 2):
        assert first == second == "CollectiveError"
        assert "broken since an earlier failure" in text


def broken():
    x = torch.ones(10)
    if dist.get_rank() == 1:
        wait_until_told(by=1, seconds=1.5)
    _, first, *_ = collect(lambda: C.all_reduce(x, timeout=0.5))
    tell()
    seconds, second, text, *_ = collect(lambda: C.all_reduce(x))
    assert seconds < 0.2, traceback.format_stack()
    return first, second, text


def test_waiting_for_a_while_only(ranks):
    ranks(2, waits_a_while)


def waits_a_while():
    x = torch.ones(10)
    C.barrier()
    if dist.get_rank() == 1:
        time.sleep(0.6)
    work = C.all_reduce(x, async_op=True)
    if dist.get_rank() == 0:
        with pytest.raises(C.CollectiveError, match="it goes on"):
            work.wait(0.1)
    assert work.wait()
    assert x.tolist() == [2] * 10
