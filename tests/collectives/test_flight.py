"""The flight record on real ranks, and what ``explain`` makes of it: who is missing, who disagrees, who died."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives import flight, launch
from collectives.__main__ import DOOR
from collectives.call import Description
from collectives.errors import CollectiveError
from collectives.flight_entry import Entry
from collectives.flight_explanation import explain
from collectives.flight_finding import Finding
from collectives.flight_log import read_flights
from collectives.log import Operation, as_line

pytestmark = [
    pytest.mark.timeout(60),
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


# What is kept.


def test_what_is_kept(tmp_path):
    said = launch.run(kept, 3, str(tmp_path))[1]
    assert [one["op"] for one in said["operations"]] == ["all_reduce", "barrier", "broadcast", "all_gather"]
    first, _, third, fourth = said["operations"]
    assert (first["seq"], first["group"], first["state"]) == (0, "0", "done")
    assert (first["shape"], first["dtype"], first["bytes"]) == ([3, 4], "float32", 48)
    assert (first["algorithm"], first["said"]) == ("ring", "all_reduce of 3×4 float32, SUM")
    assert first["queued"] <= first["started"] <= first["ended"]
    assert (third["shape"], third["dtype"], third["seq"], third["group"] in said["groups"]) == ([], "int64", 0, True)
    assert said["groups"][third["group"]] == [1, 2]
    assert (fourth["shape"], fourth["dtype"], fourth["seq"]) == (None, "float32", 2)
    assert (said["rank"], said["size"], said["dropped"], said["flight"]) == (1, 3, 0, 1)


def kept(folder):
    group = dist.new_group([1, 2])
    record = C.record(folder)
    C.all_reduce(torch.ones(3, 4), algorithm="ring")
    C.barrier()
    if me():
        C.broadcast(torch.tensor(7), 1, group=group)
    C.all_gather([torch.empty(2) for _ in range(3)], torch.ones(2))
    with pytest.raises(ValueError, match="unknown"):
        C.all_reduce(torch.ones(2), algorithm="rong")
    return record.as_json()


def test_the_last_are_kept_and_no_tensor_lives_longer():
    for seqs, dropped, alive in launch.run(forgetful, 2):
        assert (seqs, dropped) == ([7, 8, 9], 7)
        assert not alive


def forgetful():
    import weakref

    record = C.record(last=3)
    for _ in range(10):
        x = torch.ones(5)
        C.all_reduce(x)
    watched = weakref.ref(x)
    del x
    said = record.as_json()
    return [one["seq"] for one in said["operations"]], said["dropped"], watched() is not None


def test_operations_under_way_and_in_line_are_told_apart():
    said = launch.run(in_line, 2)[0]
    assert [(one["state"], one["seq"]) for one in said["operations"]] == [("done", 0), ("started", 1), ("queued", 2)]
    assert said["operations"][1]["waits"] == [{"step": 0, "verb": "receive from", "peer": 1}]
    assert said["operations"][2]["waits"] == []


def in_line():
    record = C.record()
    x, y = torch.ones(5), torch.ones(6)
    C.all_reduce(x)
    if me():
        time.sleep(0.8)
    works = [C.all_reduce(x, algorithm="ring", async_op=True), C.all_reduce(y, algorithm="ring", async_op=True)]
    time.sleep(0.4)
    said = record.as_json()
    for work in works:
        work.wait()
    assert [one["state"] for one in record.as_json()["operations"]] == ["done"] * 3
    return said


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match="init_process_group"):
        C.record()
    launch.run(wrong_arguments, 1, str(tmp_path))


def wrong_arguments(folder):
    blocked = Path(folder) / "file"
    blocked.write_text("")
    with pytest.raises(ValueError, match="last=0"):
        C.record(last=0)
    with pytest.raises(ValueError, match="cannot be made"):
        C.record(blocked / "below")
    with pytest.raises(ValueError, match="COLLECTIVES_RECORD_DIR"):
        C.record().write()


def test_an_operation_on_a_device_is_over_when_the_device_says_so():
    entry = Entry("0", Description("all_reduce", (3,), torch.float32, ("SUM",)), 12)
    entry.state, entry.ended = "done", 5.0
    entry.over = lambda: False
    assert (entry.as_json(0, [0])["state"], entry.as_json(0, [0])["ended"]) == ("started", 0.0)
    entry.over = lambda: True
    assert (entry.as_json(0, [0])["state"], entry.as_json(0, [0])["ended"]) == ("done", 5.0)

    def failed():
        raise RuntimeError("CUDA error")

    entry.over = failed
    assert entry.as_json(0, [0])["state"] == "started"


def test_an_operation_has_failed_when_its_wait_ended():
    """What it takes to hear who began it comes on top."""
    entry = Entry("0", Description("all_reduce", (3,), torch.float32, ("SUM",)), 12)
    entry.state, entry.started = "started", time.time() - 5
    entry.fail(CollectiveError("gone", peer=1, step=3, waited=1.5, cause="closed"))
    assert entry.ended == entry.started + 1.5
    said = entry.as_json(0, [4, 5])
    assert (said["state"], said["error"], said["cause"]) == ("failed", "gone", "closed")
    assert said["waits"] == [{"step": 3, "verb": "hear from", "peer": 5}]


def test_several_communicators_of_a_group_are_told_apart():
    assert launch.run(labels, 1) == [["0", "0/1"]]


def labels():
    return [C.Communicator().label, C.Communicator().label]


# When it is written.


def test_a_run_that_goes_well(tmp_path, capsys):
    launch.run(goes_well, 3, str(tmp_path))
    assert written(tmp_path) == ["rank0.json", "rank1.json", "rank2.json"]
    assert findings(tmp_path) == []
    assert {json.loads(path.read_text())["why"] for path in tmp_path.iterdir()} == {"left"}
    assert DOOR.main(["explain", str(tmp_path)]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


def goes_well(folder):
    C.record(folder)
    for _ in range(5):
        C.all_reduce(torch.ones(5))


def test_the_environment_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv(flight.DIRECTORY, str(tmp_path / "new" / "folder"))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    launch.run(unchanged, 2)
    assert written(tmp_path / "new" / "folder" / "restart2") == ["rank0.json", "rank1.json"]


def unchanged():
    C.all_reduce(torch.ones(5))


def test_a_second_record_begins_anew(tmp_path):
    launch.run(twice, 2, str(tmp_path))
    assert written(tmp_path / "two") == ["rank0.json", "rank1.json"]
    assert written(tmp_path / "one") == []
    assert findings(tmp_path / "two") == []


def twice(folder):
    C.record(folder + "/one")
    C.all_reduce(torch.ones(5))
    record = C.record(folder + "/two")
    C.all_reduce(torch.ones(5))
    assert [one["seq"] for one in record.as_json()["operations"]] == [1]
    assert sum(thread.name == "collectives-flight" for thread in threading.enumerate()) == 1


def test_a_signal_to_one_rank_makes_all_write_while_they_wait(tmp_path, capsys):
    launch.run(signalled, 3, str(tmp_path))
    found = only(tmp_path)
    assert (found.kind, found.ranks, found.sentence.id) == ("missing", (1,), "flight.not_yet")
    why = {path.name: json.loads(path.read_text())["why"] for path in tmp_path.iterdir()}
    assert why == {"rank0.json": "signal", "rank1.json": "asked", "rank2.json": "asked"}
    assert DOOR.main(["explain", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "missing: rank 1 did not enter all_reduce of 10 float32, SUM (number 1) so far" in out
    assert "rank 0: all_reduce of 10 float32, SUM (number 1), ring, under way for" in out
    assert "; waits at step 0 to send to rank 1" in out
    assert "\n  rank 0 waits for rank 1\n" in out


def signalled(folder):
    """Rank 0 stands in a wait in C++ when rank 1, which is late, signals it."""
    C.record(folder)
    x = torch.ones(10)
    pids = [torch.zeros(1, dtype=torch.int64) for _ in range(3)]
    C.all_gather(pids, torch.tensor([os.getpid()]))
    if me() == 1:
        time.sleep(1.3)
        os.kill(int(pids[0]), signal.SIGUSR1)
        time.sleep(1.5)
    C.all_reduce(x, algorithm="ring", timeout=20)
    assert x.tolist() == [3] * 10


def test_handlers_and_descriptors_of_others_stay():
    assert launch.run(others_handler, 1) == [([signal.SIGUSR1], [signal.SIGUSR1, signal.SIGUSR2], True)]


def others_handler():
    here, there = socket.socketpair()
    there.setblocking(False)
    here.settimeout(5)
    signal.set_wakeup_fd(there.fileno())
    heard: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: heard.append(number))
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        record = C.record(folder)
        os.kill(os.getpid(), signal.SIGUSR1)
        path = record.path(Path(folder))
        for _ in range(100):
            if path.exists():
                break
            time.sleep(0.05)
        assert json.loads(path.read_text())["why"] == "signal"
        first = list(heard)
        os.kill(os.getpid(), signal.SIGUSR2)
        told = list(here.recv(1)) + list(here.recv(1))
        record.stop()
    return first, told, signal.set_wakeup_fd(-1) == there.fileno()


def test_outside_the_main_thread_it_goes_without_signals(tmp_path):
    launch.run(in_a_thread, 2, str(tmp_path))
    assert findings(tmp_path) == []


def in_a_thread(folder):
    failed: list[BaseException] = []

    def begin():
        try:
            C.record(folder)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    assert not failed
    C.all_reduce(torch.ones(3))


# What explain says, on real ranks.


@pytest.mark.parametrize("asleep", [True, False])
def test_one_rank_skips_a_call(tmp_path, asleep):
    """It writes its record because the others ask, or when it leaves."""
    launch.run(skips, 4, str(tmp_path), asleep, grace=0.05)
    assert len(written(tmp_path)) == 4
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("missing", (1,))
    assert found.sentence.id == ("flight.missing" if asleep else "flight.left")
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
        time.sleep(2)
    failing(lambda: C.reduce(x, 0, algorithm="binomial"))


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
    assert "rank 2 came 1." in found.sentence
    assert "too late to all_reduce of 4 float32, SUM (number 1): rank" in found.sentence


def too_late(folder):
    C.record(folder)
    C.barrier()
    if me() == 2:
        time.sleep(2.0)
    failing(lambda: C.all_reduce(torch.ones(4), algorithm="ring", timeout=0.6))


def test_a_rank_that_is_merely_slow(tmp_path, capsys):
    launch.run(slow, 3, str(tmp_path))
    found = only(tmp_path)
    assert (found.kind, found.ranks, found.wrong) == ("slow", (2,), False)
    assert "in 2 of 2 operations, 0.5" in found.sentence
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
        time.sleep(3)
        return
    for group in groups if me() == 0 else groups[::-1]:
        try:
            C.all_reduce(torch.ones(3), group=group, timeout=1.0)
        except CollectiveError:
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
        time.sleep(3)
    elif me() == 1:
        failing(lambda: C.all_reduce(torch.ones(3), group=groups[1], timeout=1.2))
    else:
        failing(lambda: C.all_reduce(torch.ones(3), group=groups[0], timeout=1.0))


def test_a_short_record_blames_nobody_for_what_it_has_forgotten(tmp_path):
    launch.run(short, 2, str(tmp_path))
    assert findings(tmp_path) == []


def short(folder):
    group = dist.new_group([0, 1])
    C.record(folder, last=3 if me() else 100)
    C.all_reduce(torch.ones(2), group=group)
    for _ in range(9):
        C.all_reduce(torch.ones(4))


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
    place |= {flight.DIRECTORY: str(tmp_path), "PYTHONPATH": str(Path(C.__file__).parents[1])}
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


# The command.


def test_the_command_writes_json(tmp_path, capsys):
    folder = tmp_path / "records"
    launch.run(skips, 3, str(folder), True, grace=5.0)
    assert DOOR.main(["explain", str(folder), "--json", str(tmp_path / "out.json")]) == 1
    (report,) = json.loads((tmp_path / "out.json").read_text())["reports"]
    (finding,) = report["findings"]
    assert (report["kind"], finding["kind"], finding["ranks"], finding["wrong"]) == ("flight", "missing", [1], True)
    assert finding["sentence"]["id"] == "flight.missing"
    assert finding["text"] in capsys.readouterr().out
    assert len(report["standing"]) == 4


def test_the_command_and_wrong_arguments(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "empty").mkdir()
    for argv, words in [
        ([str(tmp_path / "none")], "there is no such folder"),
        ([str(tmp_path / "empty")], "no record of a rank is in it"),
        ([str(tmp_path)], "no record of a rank is in it"),
        ([str(tmp_path), "--json", str(tmp_path / "no" / "x.json")], "does not exist"),
    ]:
        assert DOOR.main(["explain", *argv]) == 2
        assert words in capsys.readouterr().err
    (tmp_path / "rank0.json").write_text('{"flight": 2}')
    assert DOOR.main(["explain", str(tmp_path)]) == 2
    assert "is no record that can be read (ValueError: version 2" in capsys.readouterr().err
    with pytest.raises(SystemExit) as wrong:
        DOOR.main(["explain"])
    assert wrong.value.code == 2


@pytest.mark.parametrize("record", ["", "{", "[]", '{"flight": 1}', '{"flight": 1, "rank": []}', "[" * 100_000, "\x80"])
def test_damaged_records(tmp_path, record, capsys):
    launch.run(goes_well, 2, str(tmp_path))
    (tmp_path / "rank1.json").write_text(record if not record.startswith("{") else '{"flight": 1' + record[12:])
    code = DOOR.main(["explain", str(tmp_path)])
    assert code in (0, 2)
    assert "Traceback" not in capsys.readouterr().err


# Bare sends and receives, as the recorder writes them.


def test_a_deadlock_of_bare_sends(tmp_path, capsys):
    from collectives.recorder import record

    recording = record(both_send, 2, tmp_path, timeout=10)
    assert recording.failure is not None
    assert DOOR.main(["explain", str(tmp_path)]) == 1
    assert "rank 0 waits for rank 1, which waits for rank 0: both send first" in capsys.readouterr().out


def both_send():
    big = torch.zeros(8 << 20)
    dist.send(big, dst=1 - me())
    dist.recv(big, src=1 - me())


def test_bare_messages_that_went_well_by_luck_or_not(tmp_path, capsys):
    from collectives.recorder import record

    record(in_turn, 2, tmp_path / "well", timeout=10)
    assert DOOR.main(["explain", str(tmp_path / "well")]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
    luck = tmp_path / "luck"
    luck.mkdir()
    for rank in range(2):  # a backend with room for every message: gloo has none
        lines = [
            as_line(Operation(rank, seq, op, state, 1 - rank, bytes=4))
            for seq, op in enumerate(("send", "recv"))
            for state in ("posted", "waiting", "done")
        ]
        (luck / f"rank{rank}.jsonl").write_text("".join([*lines, as_line(Operation(rank, 9, "end", "returned"))]))
    assert DOOR.main(["explain", str(luck)]) == 1
    assert "buffered: this went well only because messages were buffered: rank 0 waits for" in capsys.readouterr().out


def in_turn():
    for rank in (0, 1):
        if me() == rank:
            dist.send(torch.zeros(4), dst=1 - rank)
        else:
            dist.recv(torch.zeros(4), src=rank)
