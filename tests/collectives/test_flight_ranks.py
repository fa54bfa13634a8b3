"""What ``explain`` says of flight records that real ranks have left: who is missing, who disagrees, who died."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives import launch
from collectives.__main__ import DOOR
from collectives.errors import CollectiveError
from collectives.flight.explanation import explain
from collectives.flight.flight import DIRECTORY, current
from collectives.flight.records import read_flights
from collectives.flight.words import Finding
from tests.collectives.told import tell, wait_until_told

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("dynamo"),
    pytest.mark.skipif(sys.platform != "linux", reason="local functions need fork"),
]


def me() -> int:
    return dist.get_rank()


def findings(folder: Path) -> list[Finding]:
    return explain(read_flights(sorted(folder.glob("rank*.json"))))


def only(folder: Path) -> Finding:
    found = findings(folder)
    assert len(found) == 1, found
    return found[0]


def written(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing(call):
    """Make a call that fails, and go on."""
    with contextlib.suppress(CollectiveError):
        call()


# What explain says, on real ranks.


@pytest.mark.parametrize("asleep", [True, False])
def test_one_rank_skips_a_call(tmp_path, asleep):
    """It writes its record because the others ask, or when it leaves."""
    launch.run(skips, 4, str(tmp_path), asleep, grace=0.05)
    assert len(written(tmp_path)) == 4
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("missing", (1,))
    assert found.sentence.id == ("flight.missing" if asleep else "flight.left")
    assert json.loads((tmp_path / "rank1.json").read_text())["why"] == ("asked" if asleep else "left")
    operation = "all_reduce of 10 float32, SUM (number 1)"
    assert f"{operation}, in which ranks 0, 2, 3 waited for" in found.sentence
    assert "its last operation, all_reduce of 7 float32, SUM (number 0), had ended" in found.sentence


def skips(folder, asleep):
    C.record(folder)
    C.all_reduce(torch.ones(7))
    if me() == 1:
        time.sleep(3 if asleep else 0.3)
    else:
        failing(lambda: C.all_reduce(torch.ones(10), algorithm="ring", timeout=1.0))


def test_a_rank_that_leaves_after_an_early_record_has_not_died(tmp_path):
    launch.run(leaves_early, 3, str(tmp_path), grace=0.05)
    found = only(tmp_path)
    assert (found.kind, found.ranks, found.sentence.id) == ("missing", (1,), "flight.left")
    path = tmp_path / "rank1.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "written": said["written"] - 10}))  # nobody may have asked it again
    assert only(tmp_path).sentence.id == "flight.left"
    path.write_text(json.dumps({**said, "written": said["written"] - 10, "left": 0.0}))
    assert only(tmp_path).kind == "died"


def leaves_early(folder):
    record = C.record(folder)
    C.all_reduce(torch.ones(7))
    os.kill(os.getpid(), signal.SIGUSR1)
    while not record.path(Path(folder)).exists():
        time.sleep(0.05)
    dist.barrier()
    if me() != 1:
        failing(lambda: C.all_reduce(torch.ones(10), algorithm="ring", timeout=5.0))


@pytest.mark.parametrize(
    ("what", "kind", "mend"),
    [
        ("shape", "shape", "one shape"),
        ("dtype", "dtype", "one dtype"),
        ("algorithm", "algorithm", "one algorithm"),
        ("reduction", "arguments", "same arguments"),
        ("order", "operation", "in another order"),
        ("asynchronous order", "order", "in one order"),
    ],
)
def test_ranks_that_disagree(tmp_path, what, kind, mend):
    launch.run(disagree, 3, str(tmp_path), what, grace=5.0)
    found = only(tmp_path)
    assert (found.kind, found.ranks, found.wrong) == (kind, (1,) if kind != "order" else found.ranks, True)
    assert mend in found.sentence
    assert "rank 1" in found.sentence
    assert "ranks 0, 2" in found.sentence
    words = {
        "shape": ["all_reduce of 6×2 float32", "all_reduce of 12 float32"],
        "dtype": ["all_reduce of 12 float32", "all_reduce of 12 int32"],
        "algorithm": ["with ring", "with direct"],
        "reduction": ["float32, SUM", "float32, MAX"],
    }.get(what, ["all_reduce of 12 float32", "broadcast of 5 int64, from rank 0"])
    if what == "shape":
        words = ["all_reduce of 12 float32", "all_reduce of 24 float32"]
    for word in words:
        assert word in found.sentence


def disagree(folder, what):
    C.record(folder)
    odd = me() == 1
    C.barrier()
    x = torch.ones(24 if odd and what == "shape" else 12, dtype=torch.int32 if odd and what == "dtype" else None)
    y = torch.ones(5, dtype=torch.int64)
    if "order" in what:
        later = what.startswith("a")
        calls = [
            lambda: C.all_reduce(x, algorithm="ring", timeout=1.0, async_op=later),
            lambda: C.broadcast(y, 0, algorithm="naive", timeout=1.0, async_op=later),
        ]
        works = []
        for call in reversed(calls) if odd else calls:
            failing(lambda call=call: works.append(call()))
        for work in works if later else ():
            failing(work.wait)
        return
    op = dist.ReduceOp.MAX if odd and what == "reduction" else dist.ReduceOp.SUM
    failing(lambda: C.all_reduce(x, op, algorithm="direct" if odd and what == "algorithm" else "ring", timeout=1.0))


def test_shapes_of_as_many_elements_are_no_fault(tmp_path):
    launch.run(reshaped, 2, str(tmp_path))
    assert findings(tmp_path) == []


def reshaped(folder):
    C.record(folder)
    x = torch.ones(12).view((3, 4) if me() else (12,))
    C.all_reduce(x, algorithm="ring")
    assert x.sum() == 24


def test_checked_calls_that_disagree(tmp_path):
    launch.run(checked, 2, str(tmp_path))
    found = findings(tmp_path)
    assert [finding.kind for finding in found] == ["shape"]


def checked(folder):
    C.record(folder)
    with pytest.raises(C.MismatchError):
        C.all_reduce(torch.ones(3 + me()), check=True)


@pytest.mark.parametrize("elements", [1000, 16 << 20])
def test_a_killed_rank(tmp_path, elements):
    with pytest.raises(launch.RankFailed):
        launch.run(dies, 4, str(tmp_path), elements, grace=8.0)
    assert written(tmp_path) == ["rank0.json", "rank2.json", "rank3.json"]
    for path in tmp_path.iterdir():
        said = json.loads(path.read_text())
        assert (said["why"], said["operations"][-1]["state"]) == ("failure", "failed")
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("died", (1,))
    assert f"rank 1 died first: in all_reduce of {elements} float32, SUM (number " in found.sentence
    assert ") its connection to rank" in found.sentence


def dies(folder, elements):
    """A long message is half on its way then: gloo never ends the wait for it."""
    C.record(folder)
    x = torch.ones(elements)
    C.all_reduce(x, algorithm="ring")
    dist.barrier()
    if me() == 1:
        threading.Timer(0.03, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()

    def go_on():
        while True:
            C.all_reduce(x, algorithm="ring")

    failing(go_on)


def test_a_rank_that_waits_for_a_sleeper_when_another_dies(tmp_path):
    """Binomial reduce to 0, which sleeps: 1 and 2 send to it, 3 to 2. It is not the sleeper that has died."""
    with pytest.raises(launch.RankFailed):
        launch.run(dies_behind_a_sleeper, 4, str(tmp_path), grace=8.0)
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("died", (3,))
    causes = {
        rank: json.loads((tmp_path / f"rank{rank}.json").read_text())["operations"][-1]["cause"] for rank in (1, 2)
    }
    assert causes == {1: "others", 2: "closed"}


def dies_behind_a_sleeper(folder):
    C.record(folder)
    x = torch.ones(1 << 21)
    C.barrier()
    if me() == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if me() == 0:
        wait_until_told(by=2, seconds=2)
    failing(lambda: C.reduce(x, 0, algorithm="binomial"))
    tell()


def test_two_ranks_die_one_after_the_other(tmp_path):
    with pytest.raises(launch.RankFailed):
        launch.run(two_die, 4, str(tmp_path), grace=8.0)
    found = findings(tmp_path)
    assert [(finding.kind, finding.ranks) for finding in found] == [("died", (3,)), ("died", (1,))]
    assert "rank 1 died, too, " in found[1].sentence


def two_die(folder):
    """In two groups, so that each death has a witness of its own."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    C.record(folder)
    group = groups[me() // 2]
    C.all_reduce(torch.ones(3), group=group)
    if me() in (1, 3):
        time.sleep(0.2 if me() == 3 else 1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    failing(lambda: C.all_reduce(torch.ones(3), group=group))


def test_a_rank_that_sleeps_too_long_and_comes_all_the_same(tmp_path):
    launch.run(too_late, 3, str(tmp_path), grace=5.0)
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("late", (2,))
    assert found.sentence.startswith("rank 2 came ")
    assert " s too late to all_reduce of 4 float32, SUM (number 1): rank" in found.sentence


def too_late(folder):
    C.record(folder)
    C.barrier()
    if me() == 2:
        wait_until_told(by=2, seconds=2)
        time.sleep(0.2)
    failing(lambda: C.all_reduce(torch.ones(4), algorithm="ring", timeout=0.6))
    tell()


def test_a_rank_that_is_merely_slow(tmp_path, capsys):
    launch.run(slow, 3, str(tmp_path))
    found = only(tmp_path)
    assert (found.kind, found.ranks, found.wrong) == ("slow", (2,), False)
    assert "in 2 of 2 operations, " in found.sentence
    assert "all_reduce of 9 float32, SUM (number 2)" in found.sentence
    assert DOOR.main(["explain", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "(slow): rank 2 is slow" in out
    assert "nothing is wrong" in out


def slow(folder):
    C.record(folder)
    C.barrier()
    for length in (8, 9):
        if me() == 2:
            time.sleep(0.3 if length == 8 else 0.5)
        C.all_reduce(torch.ones(length), algorithm="ring")


def test_a_record_that_is_missing(tmp_path):
    launch.run(skips, 4, str(tmp_path), True, grace=5.0)
    (tmp_path / "rank1.json").unlink()
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("absent", (1,))
    assert "rank 1 left no record, and ranks 0, 2, 3 waited for" in found.sentence
    (tmp_path / "rank1.json").write_text('{"flight": 1, "rank": 1, "size')
    assert [finding.kind for finding in findings(tmp_path)] == ["absent", "unreadable"]
    assert DOOR.main(["explain", str(tmp_path)]) == 1


def goes_well(folder):
    C.record(folder)
    for _ in range(5):
        C.all_reduce(torch.ones(5))


def test_a_record_that_is_missing_where_all_went_well(tmp_path, capsys):
    launch.run(goes_well, 3, str(tmp_path))
    (tmp_path / "rank2.json").unlink()
    found = only(tmp_path)
    assert (found.kind, found.ranks, found.wrong) == ("unknown", (2,), False)
    assert DOOR.main(["explain", str(tmp_path)]) == 0
    assert "rank 2 left no record" in capsys.readouterr().out


def test_records_of_an_earlier_and_larger_run(tmp_path):
    launch.run(goes_well, 4, str(tmp_path))
    launch.run(goes_well, 2, str(tmp_path))
    assert len(written(tmp_path)) == 4
    assert findings(tmp_path) == []
    assert read_flights(sorted(tmp_path.iterdir())).records.keys() == {0, 1}


def test_groups_in_different_orders(tmp_path):
    launch.run(crossed, 3, str(tmp_path), grace=5.0)
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("cycle", (0, 1))
    assert (
        "ranks 0, 1 wait for each other: rank 0 stands in all_reduce of 3 float32, SUM (number 0 of group 1) and "
        in (found.sentence)
    )
    assert "rank 1 stands in all_reduce of 3 float32, SUM (number 0 of group 2) and waits for rank 0" in found.sentence


def crossed(folder):
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    C.record(folder)
    if me() == 2:
        wait_until_told(by=2, seconds=3)
        return
    for group in groups if me() == 0 else groups[::-1]:
        try:
            C.all_reduce(torch.ones(3), group=group, timeout=1.0)
        except CollectiveError:
            tell()
            return


def test_a_rank_that_hangs_in_another_group_is_not_blamed(tmp_path):
    """Rank 0 waits for 1, which waits for 2 in another group: it is 2 that has not come."""
    launch.run(behind_another, 3, str(tmp_path), grace=5.0)
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("missing", (2,))


def behind_another(folder):
    groups = [dist.new_group([0, 1]), dist.new_group([1, 2])]
    C.record(folder)
    if me() == 2:
        wait_until_told(by=2, seconds=3)
    elif me() == 1:
        failing(lambda: C.all_reduce(torch.ones(3), group=groups[1], timeout=1.2))
    else:
        failing(lambda: C.all_reduce(torch.ones(3), group=groups[0], timeout=1.0))
    tell()


def test_a_short_record_blames_nobody_for_what_it_has_forgotten(tmp_path):
    launch.run(short, 2, str(tmp_path))
    assert findings(tmp_path) == []


def short(folder):
    group = dist.new_group([0, 1])
    C.record(folder, last=3 if me() else 100)
    C.all_reduce(torch.ones(2), group=group)
    for _ in range(9):
        C.all_reduce(torch.ones(4))


@pytest.mark.parametrize("how", ["raises", "in finally", "after a signal"])
def test_a_rank_that_raises(tmp_path, how):
    """Under the launcher; where the group is destroyed on the way out; and where there is an early record of it."""
    with pytest.raises(launch.RankFailed, match="no such batch"):
        launch.run(raises, 3, str(tmp_path), how, grace=8.0)
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("raised", (2,))
    assert "rank 2 failed by itself: LookupError: no such batch; its last operation, all_reduce of 5" in found.sentence


def raises(folder, how):
    record = C.record(folder)
    C.all_reduce(torch.ones(5))
    if me() != 2:
        failing(lambda: C.all_reduce(torch.ones(6), algorithm="ring", timeout=20))
        return
    if how == "after a signal":
        os.kill(os.getpid(), signal.SIGUSR1)
        while not record.path(Path(folder)).exists():
            time.sleep(0.05)
    try:
        raise LookupError("no such batch")
    finally:
        if how == "in finally":
            dist.destroy_process_group()


def test_what_was_caught_long_before_is_no_reason(tmp_path):
    launch.run(caught, 2, str(tmp_path))
    assert findings(tmp_path) == []
    assert {json.loads(path.read_text())["why"] for path in tmp_path.iterdir()} == {"left"}


def caught(folder):
    sys.last_value = LookupError("an earlier one")  # as an interactive session has it
    C.record(folder)
    with contextlib.suppress(KeyError):
        C.all_reduce(torch.ones(5))
        raise KeyError("caught")


def test_a_rank_that_stands_still(tmp_path):
    """Stopped as by a debugger, it writes nothing; the others find that out while it still stands there."""
    assert launch.run(stands_still, 3, str(tmp_path))[0] == ("absent", (1,), ["rank0.json", "rank2.json"])


def stands_still(folder):
    C.record(folder)
    pids = [torch.zeros(1, dtype=torch.int64) for _ in range(3)]
    C.all_gather(pids, torch.tensor([os.getpid()]))
    if me() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        return None
    failing(lambda: C.all_reduce(torch.ones(10), algorithm="ring", timeout=1.0))
    dist.distributed_c10d._get_default_store().set(f"over/{me()}", "")
    if me() == 0:
        dist.distributed_c10d._get_default_store().wait(["over/2"])
        found = only(Path(folder))
        assert "rank 1 left no record, and ranks 0, 2 waited for" in found.sentence
        there = written(Path(folder))
        os.kill(int(pids[1]), signal.SIGCONT)
        return found.kind, found.ranks, there
    return None


def test_ddp_on_backend_ring(tmp_path):
    """DDP's gradients are operations of the record, under the schedules that moved them; and all is well."""
    for operations in launch.run(trains, 3, str(tmp_path), 3, backend="ring", prepare=register_ring):
        moved = [one for one in operations if one["op"] == "all_reduce" and one["dtype"] == "float32"]
        assert [one["shape"] for one in moved] == [[4 * 8 + 8 + 8 * 2 + 2]] * 3
        assert {one["state"] for one in operations} == {"done"}
        assert all(one["algorithm"] for one in operations)
        assert [one["seq"] for one in operations] == list(range(len(operations)))
    assert findings(tmp_path) == []


def test_ddp_on_backend_ring_when_a_rank_has_fewer_batches(tmp_path):
    launch.run(trains, 3, str(tmp_path), 3, 2, backend="ring", prepare=register_ring, grace=0.05)
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("missing", (1,))
    assert "in which ranks 0, 2 waited" in found.sentence
    assert "58 float32, SUM" in found.sentence


@pytest.mark.parametrize(
    ("what", "kind", "ranks", "words"),
    [
        ("well", None, (), []),
        (
            "missing",
            "missing",
            (2,),
            ["rank 1 waits in recv of 5 float32 (number 0)", "rank 2 never came to"],
        ),
        ("both send", "cycle", (1, 2), ["rank 1 waits for rank 2, which waits for rank 1: both send first"]),
        ("sizes", "shape", (1, 2), ["rank 1 stands in send of 5 float32, but rank 2 in recv of 6 float32"]),
        ("collective", "cycle", (1, 2), ["rank 1 stands in barrier (number 0", "rank 2 stands in recv of 5 float32"]),
        ("anybody", "failed", (2,), ["rank 2 failed first: message of 5 float32, receive from rank any failed"]),
        ("killed", "died", (1,), ["rank 1 died first: in recv of 5 float32"]),
    ],
)
def test_messages_of_backend_ring(tmp_path, what, kind, ranks, words):
    """In a group of the last two of three ranks."""
    with pytest.raises(launch.RankFailed) if what == "killed" else contextlib.nullcontext():
        launch.run(sends, 3, str(tmp_path), what, backend="ring", prepare=register_ring, grace=8.0)
    found = [finding for finding in findings(tmp_path) if finding.wrong]
    assert [(finding.kind, finding.ranks) for finding in found] == ([(kind, ranks)] if kind else [])
    for word in words:
        assert word in found[0].sentence


def sends(folder, what):
    pair = dist.new_group([1, 2])
    C.record(folder)
    if me() == 0:
        return
    x, limit = torch.ones(5), timedelta(seconds=1)
    big = torch.ones(8 << 20)
    first = dist.isend(x, 2, pair) if me() == 1 else dist.irecv(x, 1, pair)
    first.wait()
    calls = {
        "well": (lambda: dist.irecv(x, 2, pair), lambda: dist.isend(x, 1, pair)),
        "missing": (lambda: dist.irecv(x, 2, pair), None),
        "both send": (lambda: dist.isend(big, 2, pair), lambda: dist.isend(big, 1, pair)),
        "sizes": (lambda: dist.isend(big[:5], 2, pair), lambda: dist.irecv(torch.ones(6), 1, pair)),
        "collective": (lambda: C.barrier(group=pair, timeout=1.0), lambda: dist.irecv(x, 1, pair)),
        "anybody": (None, lambda: pair.recv_anysource([x], 0)),
        "killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: dist.irecv(x, 1, pair)),
    }
    call = calls[what][me() - 1]
    if call is None:
        wait_until_told(by=1, seconds=3)
        return
    with contextlib.suppress(CollectiveError):
        work = call()
        if work is not None:
            work.wait(limit)
    tell()


@pytest.mark.parametrize("late", [False, True])
def test_a_message_that_is_merely_under_way(tmp_path, late):
    """A signal finds rank 0 in a receive, half a second or two after that has begun."""
    launch.run(receives, 2, str(tmp_path), late, backend="ring", prepare=register_ring)
    assert [(finding.kind, finding.ranks) for finding in findings(tmp_path)] == [("missing", (1,))] * late


def receives(folder, late):
    C.record(folder)
    x = torch.ones(5)
    dist.barrier()
    if me():
        time.sleep(2.6 if late else 1.1)
        dist.send(x, 0)
    else:
        threading.Timer(2.0 if late else 0.5, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        dist.recv(x, 1)


def test_messages_and_collectives_are_numbered_apart():
    said = launch.run(mixed, 2, backend="ring", prepare=register_ring)[0]
    assert [(one["op"], one["peer"], one["seq"], one["state"]) for one in said["operations"]] == [
        ("send", 1, 0, "done"),
        ("send", 1, 1, "done"),
        ("recv", 1, 0, "done"),
        ("send", 1, 2, "started"),
        ("all_reduce", None, 0, "started"),
        ("all_reduce", None, 1, "queued"),
    ]


def mixed():
    record, x = C.record(), torch.ones(3)
    for sender in (0, 0, 1):
        dist.send(x, 1 - sender) if me() == sender else dist.recv(x, sender)
    message = dist.isend(x, 1) if me() == 0 else dist.irecv(x, 0)
    if me():
        time.sleep(0.8)
    works = [dist.all_reduce(torch.ones(length), async_op=True) for length in (5, 6)]
    time.sleep(0.4)
    said = record.as_json()
    for work in [*works, message]:
        work.wait()
    return said


def register_ring():
    importlib.import_module("collectives.torch_backend")


def trains(folder, batches, of_rank_1=None):
    C.record(folder)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    model = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    with contextlib.suppress(CollectiveError):
        for _ in range(of_rank_1 if me() == 1 and of_rank_1 else batches):
            model(torch.full((3, 4), float(me()))).sum().backward()
    record = current()
    return record.as_json()["operations"]


def test_a_rank_whose_program_raises(tmp_path):
    """Plain processes, as of torchrun: the interpreter ends with a traceback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = """
import torch, torch.distributed as dist, collectives as C
dist.init_process_group("gloo")
C.record()
C.all_reduce(torch.ones(5))
if dist.get_rank() == 1:
    raise LookupError("no such batch")
C.all_reduce(torch.ones(6), algorithm="ring")
"""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    place |= {DIRECTORY: str(tmp_path), "PYTHONPATH": str(Path(C.__file__).parents[1])}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program], env={**os.environ, **place, "RANK": str(rank)}, stderr=subprocess.PIPE
        )
        for rank in range(2)
    ]
    for process in ranks:
        process.communicate(timeout=50)
    found = findings(tmp_path)
    assert [(finding.kind, finding.ranks) for finding in found] == [("raised", (1,))]
    assert "rank 1 failed by itself: LookupError: no such batch; its last operation, all_reduce of 5" in (
        found[0].sentence
    )
