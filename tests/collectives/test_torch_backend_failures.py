"""What goes wrong × who uses the backend: all who live raise CollectiveError, soon, and nobody gets wrong data."""

from __future__ import annotations

import os
import re
import resource
import signal
import threading
import time
from dataclasses import dataclass
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import collectives as C
from collectives import launch
from collectives.communicator import communicator
from tests.collectives.told import tell, wait_until_told

pytestmark = [pytest.mark.timeout(90), pytest.mark.usefixtures("dynamo")]

VICTIM = 1
SHORT = 1.0  # seconds that a collective may last, where somebody stalls
LEFT = "rank 1,? (which )?closed the connection"
SMALL, LARGE = 20, 1500  # messages that fit into a socket's buffer, and others that are half on their way


def register():
    import collectives.torch_backend  # noqa: F401


# The clients: each returns a function that does one round and checks what came of it.


def plain(group, width, asynchronous):
    size = dist.get_world_size()
    big, little = torch.empty(width * width), torch.empty(width)

    def once():
        for tensor in (big, little):
            tensor.fill_(1 + dist.get_rank())
        works = [dist.all_reduce(tensor, group=group, async_op=asynchronous) for tensor in (big, little)]
        for work in works if asynchronous else []:
            work.wait()
        for tensor in (big, little):
            assert tensor.eq(size * (size + 1) / 2).all(), "wrong data"

    return once


def one_way(group, width):
    """Rank 0 only sends, and its wait for a long message to a rank that dies would not end by itself."""
    x = torch.empty(8 * width * width)

    def once():
        dist.broadcast(x.fill_(dist.get_rank()), 0, group=group)
        assert x.eq(0).all(), "wrong data"

    return once


def layers(width):
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(3)])


def backward_of(model, width, gradient_of_the_last_bias):
    def once():
        model.zero_grad()
        model(torch.full((2, width), float(dist.get_rank()))).sum().backward()
        assert gradient_of_the_last_bias().eq(2).all(), "wrong data"

    return once


def ddp(group, width):
    model = DistributedDataParallel(layers(width), process_group=group, bucket_cap_mb=4 * width * width / 1e6)
    return backward_of(model, width, lambda: model.module[-1].bias.grad)


def fsdp(group, width):
    model, mesh = layers(width), DeviceMesh.from_group(group, "cpu")
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return backward_of(model, width, lambda: model[-1].bias.grad.to_local())


CLIENTS = {
    "sync": lambda group, width: plain(group, width, False),
    "async": lambda group, width: plain(group, width, True),
    "one way": one_way,
    "ddp": ddp,
    "fsdp": fsdp,
}


# What the victim does.


def killed(group, width):
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()


def stalled(group, width):
    wait_until_told(by=2, seconds=3 * SHORT)


def shape(group, width):
    dist.all_reduce(torch.ones(width * width + 7), group=group)


def order(group, width):
    dist.broadcast(torch.ones(width * width), 0, group=group)


FAULTS = {"killed": killed, "stalled": stalled, "shape": shape, "order": order}


def play(folder, fault, client, width):
    """Write down what this rank saw: seconds since the fault, and its error twice."""
    rank = dist.get_rank()
    group = dist.new_group(timeout=timedelta(seconds=60 if fault == "killed" else SHORT))
    once = CLIENTS[client](group, width)
    for _ in range(2):
        once()
    dist.barrier()
    began = time.monotonic()

    def go_on():
        if rank == VICTIM:
            FAULTS[fault](group, width)
        while True:
            once()

    lines = [said(go_on), f"{time.monotonic() - began}", said(once)]
    with open(os.path.join(folder, str(rank)), "w") as file:
        file.write("\n".join(lines))
    tell()


def said(function) -> str:
    try:
        function()
    except Exception as error:
        words = " ".join(str(error).split())
        return f"{type(error).__name__}: {words}"
    return "nothing"


def heard(folder, rank):
    first, seconds, again = (folder / str(rank)).read_text().split("\n")
    return first, float(seconds), again


# The table: what fails × what is under way.


@dataclass(frozen=True)
class Expected:
    """``words``: what all others are told, ``within`` seconds; victim: what the victim is told, None: it is dead."""

    words: str
    within: float
    victim: str | None = None


EXPECTED = {
    "killed": Expected(LEFT, 2.0),
    "stalled": Expected("rank 1", SHORT + 1.5, "this one: it came too late|closed the connection"),
    "shape": Expected("rank 1", SHORT + 1.5, "The ranks disagree: rank 0 was in"),
    "order": Expected("rank 1", SHORT + 1.5, "The ranks disagree: rank 0 was in"),
}


@pytest.mark.parametrize(("fault", "width"), [("killed", LARGE), *((fault, SMALL) for fault in FAULTS)])
@pytest.mark.parametrize("client", CLIENTS)
def test_all_who_live_raise_soon_and_name_the_rank(tmp_path, fault, client, width):
    expected = EXPECTED[fault]

    def start():
        how = {"backend": "ring", "prepare": register, "grace": 20.0, "timeout": 60}
        launch.run(play, 3, str(tmp_path), fault, client, width, **how)

    if expected.victim is None:
        with pytest.raises(launch.RankFailed) as failed:
            start()
        assert (failed.value.rank, "SIGKILL" in failed.value.reason) == (VICTIM, True)
    else:
        start()
        first, seconds, again = heard(tmp_path, VICTIM)
        assert first.startswith("CollectiveError: "), first
        assert seconds < 4 * SHORT, first
        assert re.search(expected.victim, first), first
        assert refuses(again, client), again
    for rank in (0, 2):
        first, seconds, again = heard(tmp_path, rank)
        assert first.startswith("CollectiveError: "), (rank, first)
        assert seconds < expected.within, (rank, first)
        assert re.search(expected.words, first), (rank, first)
        assert refuses(again, client), (rank, again)


def refuses(again: str, client: str) -> bool:
    """The next round fails at once. (DDP's own forward does, once a backward has failed.)"""
    return again.startswith("CollectiveError: ") or (client == "ddp" and again.startswith("RuntimeError: "))


# Futures: nobody waits in Python, so nobody but the guard looks after the peers.


def test_a_future_fails_soon_after_a_rank_has_died(tmp_path):
    with pytest.raises(launch.RankFailed) as failed:
        launch.run(wait_for_futures, 2, str(tmp_path), backend="ring", prepare=register, grace=20.0)
    assert failed.value.rank == VICTIM
    seconds, first, *rest = (tmp_path / "0").read_text().split("\n")
    assert float(seconds) < 2
    assert first.startswith("RuntimeError: "), first
    assert "CollectiveError: broadcast of" in first, first
    assert "rank 1 closed the connection" in first
    assert rest == ["True", "False", "True"]


def wait_for_futures(folder):
    """A long message is half on its way when its receiver dies: the sender's wait does not end by itself."""
    rank = dist.get_rank()
    x = torch.ones(16 << 20)
    dist.barrier()
    if rank == VICTIM:
        killed(None, 0)
    began = time.monotonic()
    works = []

    def go_on():
        while True:
            works.append(dist.broadcast(x, 0, async_op=True))
            works[-1].get_future().then(lambda f: f.value()[0].sum()).wait()  # this waits in C++

    lines = [said(go_on), str(works[-1].is_completed()), str(works[-1].is_success())]
    lines.insert(0, str(time.monotonic() - began))
    with pytest.raises(C.CollectiveError) as caught:
        works[-1].get_future().wait()
    lines.append(str((caught.value.operation, caught.value.peer) == ("broadcast", 1)))
    with open(os.path.join(folder, str(rank)), "w") as file:
        file.write("\n".join(lines))


def test_cpp_can_read_the_future_of_a_failed_operation():
    launch.run(read_in_cpp, 2, backend="ring", prepare=register, timeout=60)


def read_in_cpp():
    """DDP takes the value of a future for a list of tensors; one that is an exception would crash it."""
    torch._C._current_graph_task_id = lambda: -1  # so that nobody waits in Python first
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(3, 3), process_group=dist.new_group(timeout=timedelta(seconds=1)))
    loss = model(torch.ones(2, 3)).sum()
    if rank == 1:
        time.sleep(2)
    with pytest.raises(RuntimeError, match="all_reduce of 12 float32"):
        loss.backward()


# A rank that cannot do its part.


def test_a_rank_without_memory_tells_the_others():
    launch.run(no_memory, 3, backend="ring:direct", prepare=register, timeout=60)


def no_memory():
    x = torch.ones(20 << 20)
    dist.all_reduce(torch.ones(3))  # threads and connections are there
    if dist.get_rank() == VICTIM:
        resource.setrlimit(resource.RLIMIT_AS, (memory_in_use() + (32 << 20),) * 2)
    began = time.monotonic()
    for asynchronous in (True, False):
        with pytest.raises(C.CollectiveError) as failed:  # of the second: the group is broken
            reduce_and_wait(x, asynchronous)
        said = str(failed.value)
        assert re.search("rank 1: RuntimeError" if dist.get_rank() == VICTIM else LEFT, said), said
    assert time.monotonic() - began < 2


def reduce_and_wait(x: torch.Tensor, asynchronous: bool) -> None:
    work = dist.all_reduce(x, async_op=asynchronous)
    if work is not None:
        work.wait()


def memory_in_use() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


# Messages.


@pytest.mark.parametrize("elements", [10, 16 << 20])
def test_a_message_to_or_from_a_rank_that_dies(tmp_path, elements):
    with pytest.raises(launch.RankFailed) as failed:
        launch.run(message_fails, 3, str(tmp_path), elements, backend="ring", prepare=register, grace=20.0)
    assert failed.value.rank == VICTIM
    for rank in (0, 2):
        first, seconds, again = heard(tmp_path, rank)
        assert first.startswith("CollectiveError: message of "), first
        assert "rank 1 closed the connection" in first, first
        assert seconds < 2
        assert again.startswith("CollectiveError: "), again


def message_fails(folder, elements):
    """Rank 0 sends to 1, which sends to 2; long messages are half on their way when it dies."""
    rank = dist.get_rank()
    x, y = torch.ones(elements), torch.ones(elements)

    def once():
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            works = [dist.irecv(x, 0), dist.isend(y, 2)]
            for work in works:
                work.wait()
        else:
            dist.recv(x, 1)

    once()
    dist.barrier()
    if rank == VICTIM:
        killed(None, 0)
    began = time.monotonic()

    def go_on():
        while True:
            once()

    lines = [said(go_on), f"{time.monotonic() - began}", said(lambda: dist.all_reduce(x))]
    with open(os.path.join(folder, str(rank)), "w") as file:
        file.write("\n".join(lines))


def test_messages_of_different_lengths_time_out():
    """gloo would end the receiver's process."""
    launch.run(different_lengths, 2, backend="ring", prepare=register, timeout=60)


def different_lengths():
    group, other = dist.new_group(timeout=timedelta(seconds=0.7)), 1 - dist.get_rank()
    with pytest.raises(C.CollectiveError, match=f"rank {other}"):
        dist.send(torch.ones(4), 1, group=group) if other else dist.recv(torch.ones(3), 0, group=group)


# Comparing the calls first.


def test_check_by_environment_names_those_that_disagree(monkeypatch):
    monkeypatch.setenv("COLLECTIVES_CHECK", "1")
    launch.run(disagree, 3, backend="ring", prepare=register, timeout=60)


def disagree():
    rank = dist.get_rank()
    for asynchronous in (False, True):
        x = torch.ones(5 + (rank == 1))
        if asynchronous:
            work = dist.all_reduce(x, async_op=True)
        with pytest.raises(C.MismatchError, match="rank 1: call"):
            work.wait() if asynchronous else dist.all_reduce(x)
    model = DistributedDataParallel(nn.Linear(3, 3))
    loss = model(torch.ones(2, 3)).sum()
    with pytest.raises(C.MismatchError, match="rank 1: call"):
        dist.broadcast(torch.ones(3), 0) if rank == 1 else loss.backward()
    x = torch.ones(3)
    dist.all_reduce(x)  # nothing was sent, so the group lives
    assert x.tolist() == [3, 3, 3]


def test_the_group_can_be_destroyed_and_made_again_after_a_failure(tmp_path):
    launch.run(make_again, 2, str(tmp_path / "store"), backend="ring", prepare=register, timeout=60)


def make_again(path):
    group = dist.new_group(timeout=timedelta(seconds=0.5))
    work = dist.all_reduce(torch.ones(5 + dist.get_rank()), group=group, async_op=True)
    with pytest.raises(C.CollectiveError):
        work.wait()
    assert isinstance(work.exception(), C.CollectiveError)
    rank = dist.get_rank()
    dist.destroy_process_group()
    options = {"all_reduce": "double_tree"}
    dist.init_process_group("ring", store=dist.FileStore(path, 2), rank=rank, world_size=2, pg_options=options)
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [2, 2, 2]
    assert [prepared.algorithm for prepared in communicator().shelf.prepared.values()] == ["double_tree"]
