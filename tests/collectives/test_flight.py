"""The flight record: what is kept, when it is written down, and the command that reads it."""

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
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import collectives as C
from collectives import launch
from collectives.__main__ import DOOR
from collectives.call import Description
from collectives.errors import CollectiveError
from collectives.flight.entry import Entry
from collectives.flight.explanation import explain
from collectives.flight.flight import DIRECTORY
from collectives.flight.records import read_flights
from collectives.flight.watcher import Watcher
from collectives.flight.words import Finding, ranks_in_words
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


def test_without_a_record_there_is_none_of_it(monkeypatch):
    monkeypatch.delenv(DIRECTORY, raising=False)
    assert launch.run(nothing_kept, 2) == [{"current": 6}] * 2


def nothing_kept():
    """What runs of the flight record's code when nobody asked for one: a look into a dictionary, once a call."""
    threads = {thread.name for thread in threading.enumerate()}
    handler = signal.getsignal(signal.SIGUSR1)
    C.all_reduce(torch.ones(3), algorithm="ring")  # what is done once a group is done
    os.environ[DIRECTORY] = "/dev/null/asked once"
    ran: Counter[str] = Counter()

    def watch(frame, event, _):
        if event == "call" and "/collectives/flight/" in frame.f_code.co_filename:
            ran[frame.f_code.co_name] += 1

    threading.setprofile(watch)
    sys.setprofile(watch)
    for asynchronous in (False, True):
        for _ in range(3):
            work = C.all_reduce(torch.ones(3), algorithm="ring", async_op=asynchronous)
            if work is not None:
                work.wait()
    sys.setprofile(None)
    threading.setprofile(None)
    assert "collectives-flight" not in threads | {thread.name for thread in threading.enumerate()}
    assert signal.getsignal(signal.SIGUSR1) == handler == signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1
    return dict(ran)


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
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "new" / "folder"))
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


def test_what_an_earlier_record_was_asked_for_is_over(tmp_path):
    launch.run(asked_before, 2, str(tmp_path))
    assert {json.loads(path.read_text())["why"] for path in (tmp_path / "two").iterdir()} == {"left"}


def asked_before(folder):
    """The second record of a rank must not take the first one's signal for its own."""
    first = C.record(folder + "/one")
    os.kill(os.getpid(), signal.SIGUSR1)
    while not first.path(Path(folder) / "one").exists():
        time.sleep(0.02)
    time.sleep(1)  # until the other has looked, too
    C.barrier()
    C.record(folder + "/two")
    time.sleep(1)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    launch.run(written_twice, 1, str(tmp_path))


def written_twice(folder):
    record = C.record(folder)
    first = record.write()
    (Path(folder) / "kept").hardlink_to(first)
    before = first.read_bytes()
    C.all_reduce(torch.ones(5))
    assert record.write(folder) == first
    assert (Path(folder) / "kept").read_bytes() == before != first.read_bytes()
    assert written(Path(folder)) == ["kept", "rank0.json"]
    assert (json.loads(before)["why"], json.loads(before)["operations"]) == ("call", [])
    (Path(folder) / "kept").unlink()


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


def test_a_wakeup_descriptor_that_is_somebody_elses_by_now_stays():
    assert launch.run(taken_meanwhile, 1) == [(True, -1)]


def taken_meanwhile():
    import tempfile

    ours, theirs = socket.socketpair(), socket.socketpair()
    ours[0].setblocking(False)
    theirs[0].setblocking(False)
    with tempfile.TemporaryDirectory() as folder:
        record = C.record(folder)
        signal.set_wakeup_fd(theirs[0].fileno())
        record.stop()
        stays = signal.set_wakeup_fd(-1) == theirs[0].fileno()
        signal.set_wakeup_fd(ours[0].fileno())
        record = C.record(folder)
        ours[0].close()  # whose it was before has gone
        record.stop()
    return stays, signal.set_wakeup_fd(-1)


def test_signals_are_heard_when_the_store_has_gone_with_its_host():
    assert launch.run(without_a_store, 1) == [["signal", "signal"]]


def without_a_store():
    host = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    store = dist.TCPStore("127.0.0.1", host.port, is_master=False)
    heard: list[str] = []
    watcher = Watcher(heard.append, store)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGUSR1)
        count = len(heard)
        while len(heard) == count:
            time.sleep(0.02)
        host = None
        time.sleep(1)
    watcher.stop()
    return heard


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


# The command.


def test_the_command_writes_json(tmp_path, capsys):
    folder = tmp_path / "records"
    launch.run(leaves_out_a_call, 3, str(folder), grace=5.0)
    assert DOOR.main(["explain", str(folder), "--json", str(tmp_path / "out.json")]) == 1
    (report,) = json.loads((tmp_path / "out.json").read_text())["reports"]
    (finding,) = report["findings"]
    assert (report["kind"], finding["kind"], finding["ranks"], finding["wrong"]) == ("flight", "missing", [1], True)
    assert finding["sentence"]["id"] == "flight.missing"
    assert finding["text"] in capsys.readouterr().out
    assert len(report["standing"]) == 4


def leaves_out_a_call(folder):
    C.record(folder)
    C.all_reduce(torch.ones(7))
    if me() == 1:
        time.sleep(2)
    else:
        failing(lambda: C.all_reduce(torch.ones(10), algorithm="ring", timeout=0.5))


def test_the_command_reads_the_records_beside_other_files(tmp_path, capsys):
    """Its own JSON, a trace, a Python pickle: none of them is a record, whatever number is in the name."""
    launch.run(goes_well, 2, str(tmp_path))
    (tmp_path / "trace0.json").write_text('{"traceEvents": []}')
    (tmp_path / "notes1.txt").write_text("{ }")
    for _ in range(2):
        assert DOOR.main(["explain", str(tmp_path), "--json", str(tmp_path / "out1.json")]) == 0
        (report,) = json.loads((tmp_path / "out1.json").read_text())["reports"]
        assert report["findings"] == []
    assert capsys.readouterr().out.count("nothing is wrong") == 2


def test_the_command_needs_no_torch(tmp_path):
    launch.run(goes_well, 2, str(tmp_path))
    program = """
import sys
from collectives.__main__ import DOOR
code = DOOR.main(["explain", sys.argv[1]])
sys.exit(code or "torch" in sys.modules)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(C.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=env, timeout=50).returncode == 0


def test_the_command_in_a_pipe(tmp_path):
    """A reader that has gone; the file is written all the same, and there is no colour in what is printed."""
    launch.run(goes_well, 2, str(tmp_path / "records"))
    command = [sys.executable, "-m", "collectives", "explain", str(tmp_path / "records"), "--json", str(tmp_path / "x")]
    env = {**os.environ, "PYTHONPATH": str(Path(C.__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, env=env, stdout=writer, stderr=subprocess.PIPE, timeout=50)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "x").read_text())["reports"][0]["kind"] == "flight"
    colours = {"NO_COLOR": "", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}
    done = subprocess.run(command, env={**env, **colours}, capture_output=True, timeout=50)
    assert b"nothing is wrong" in done.stdout
    assert b"\x1b" not in done.stdout


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


def test_ranks_are_one_list_in_every_language():
    said = ranks_in_words([0, 1, 3, 5, 6, 7])
    assert said == "ranks 0, 1, 3, 5–7"
    assert said.said_with({}, "，") == "ranks 0，1，3，5–7"
