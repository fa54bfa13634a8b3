"""A child with a learner's file in it: whatever that does, it ends in bounded time, says how, and leaves nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lessons.bounds import Bounds
from lessons.catalogue import Catalogue
from lessons.child import Child
from lessons.family import _private
from lessons.said import Said

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="watched on Linux only")
BOUNDS = Bounds(seconds=30, quiet=1.5, memory=300 << 20, threads=100)
ROOMY = Bounds(seconds=60, quiet=20, memory=300 << 20, threads=100)  # where another bound is the one to be met

# writes its process into the file "pids", as do all that it starts, so that they can be looked for afterwards
HEAD = """
import os, signal, subprocess, sys, threading, time
def sign():
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
sign()
"""


def load(path):
    """What ``judge`` does first: run the file."""
    yield Said("check.loading", {"file": path.name})
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "answer"})
    yield "loaded"


def run(folder, body, bounds=BOUNDS):
    """(events, ending) of a learner's file with this body; no process that it signed for is left."""
    if sys.platform == "linux":  # the child is forked: what other tests have imported here, it has too
        bounds = replace(bounds, memory=bounds.memory + _private(os.getpid()))
    path = folder / "answer.py"
    path.write_text(HEAD + body)
    began = time.monotonic()
    child = Child(load, path, folder=folder, bounds=bounds)
    events = list(child.events())
    assert time.monotonic() - began < bounds.seconds + 10
    left = [pid for pid in map(int, (folder / "pids").read_text().split()) if lives(pid)]
    assert not left, subprocess.run(["ps", "-o", "pid,ppid,sid,stat,cmd", *map(str, left)], capture_output=True).stdout
    return events, child.ending


def lives(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def said(ending):
    """The sentence, which every language must be able to say."""
    return Catalogue().say(ending.said())


def test_events_come_as_they_are_yielded(tmp_path):
    def slowly():
        yield Said("check.loading", {"file": "a"})
        time.sleep(0.6)
        yield {"any": "thing"}

    began = time.monotonic()
    with Child(slowly, folder=tmp_path, bounds=BOUNDS) as child:
        events = child.events()
        assert next(events) == Said("check.loading", {"file": "a"})
        assert time.monotonic() - began < 0.5
        assert list(events) == [{"any": "thing"}]
    assert (child.ending.how, child.ending.said()) == ("finished", None)


def test_what_a_child_finds_around_it(tmp_path):
    def look():
        yield sys.stdin.read(), os.getcwd(), os.environ["LESSONS_FOLDER"], os.environ["OMP_NUM_THREADS"]
        yield sys.dont_write_bytecode, os.getsid(0) == os.getpid(), signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    found, settled = Child(look, folder=tmp_path).events()
    assert found == ("", str(tmp_path), str(tmp_path), "1")
    assert settled == (True, True, True)


def test_an_error_of_ours_is_told(tmp_path):
    def stumble():
        yield 1
        raise KeyError("no such check")

    child = Child(stumble, folder=tmp_path, bounds=BOUNDS)
    assert list(child.events()) == [1]
    assert child.ending.how == "failed"
    assert "no such check" in said(child.ending)


def test_an_endless_loop(tmp_path):
    _, ending = run(tmp_path, "while True:\n    pass\n")
    file, line, function = ending.where
    assert (ending.how, file, function) == ("time", "answer.py", "<module>")
    assert line in (7, 8)
    assert "loading answer.py" in said(ending)
    assert f"line {line} of answer.py" in said(ending)


def test_a_sleep_that_ignores_the_polite_signals(tmp_path):
    _, ending = run(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)\n")
    assert (ending.how, ending.where[1]) == ("time", 8)


def test_many_events_are_not_for_ever(tmp_path):
    def flood():
        while True:
            yield "more"

    child = Child(flood, folder=tmp_path, bounds=Bounds(events=500))
    assert len(list(child.events())) == 500
    assert child.ending.how == "silent"


def test_endless_printing_is_cut(tmp_path):
    body = "print('first')\nwhile True:\n    print('x' * 99)\n    print('last', file=sys.stderr)\n"
    _, ending = run(tmp_path, body, Bounds(printed=2 << 20))
    assert ending.how == "prints"
    assert "more than 2 MiB" in said(ending)
    assert re.search(r"line \d+ of answer\.py", said(ending))
    head, tail = ending.printed.parts()
    assert head.startswith("first\nxxx")
    assert (len(head), len(tail)) == (BOUNDS.head, BOUNDS.tail)
    assert ending.printed.dropped > 1 << 20


def test_printing_is_kept_when_it_is_little(tmp_path):
    body = "print('早')\nif os.fork() == 0:\n    print('of a child', flush=True)\n    os._exit(0)\nos.wait()\n"
    events, ending = run(tmp_path, body + "sys.stdout.buffer.write(b'\\xff\\n')\n")
    assert (ending.how, events[-1]) == ("finished", "loaded")
    assert ending.printed.parts() == ("早\nof a child\n\ufffd\n", "")


@pytest.mark.parametrize(
    ("body", "how", "cause"),
    [
        ("os._exit(3)", "died", "3"),
        ("sys.exit(4)", "died", "4"),
        ("sys.exit('words')", "died", "1"),
        ("os._exit(0)", "silent", "0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "died", "SIGKILL"),
        ("os.kill(os.getppid(), signal.SIGKILL); time.sleep(1000)", "died", "SIGKILL"),
        ("os.kill(os.getppid(), signal.SIGTERM)", "finished", "0"),
        ("os.killpg(0, signal.SIGTERM); time.sleep(1000)", "died", "SIGTERM"),
        ("os.kill(os.getpid(), signal.SIGSTOP); time.sleep(1000)", "time", "0"),
        ("os.abort()", "died", "SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "died", "SIGSEGV"),
        ("os.closerange(0, 4096)", "silent", "0"),
        ("sys.stdout.close(); sys.stderr.close()", "finished", "0"),
        ("fds = [int(fd) for fd in os.listdir('/dev/fd') if int(fd) > 2 and os.path.exists('/dev/fd/' + fd)]\n"
         "for fd in fds:\n    try: os.write(fd, b'rubbish' * 99)\n"
         "    except OSError: print(fd, os.readlink(f'/dev/fd/{fd}'))", "silent", "0"),
        ("os.chdir('/'); os.environ.clear(); signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))", "finished", "0"),
    ],
)  # fmt: skip
def test_a_file_that_ends_its_process_or_its_lines(tmp_path, body, how, cause):
    _, ending = run(tmp_path, body + "\n")
    assert (ending.how, ending.cause) == (how, cause)
    assert how == "finished" or said(ending)


@LINUX
def test_threads_without_end(tmp_path):
    body = "def rest():\n    time.sleep(1000)\nwhile True:\n    threading.Thread(target=rest).start()\n"
    _, ending = run(tmp_path, body, Bounds(seconds=60, quiet=20, threads=100, data=1 << 40))
    assert ending.how == "threads"
    assert "100 threads" in said(ending)


def test_stacks_of_threads_count_as_data(tmp_path):
    """So a burst of threads ends even before somebody looks."""
    body = "def rest():\n    time.sleep(1000)\ntry:\n    while True:\n        threading.Thread(target=rest).start()\n"
    _, ending = run(tmp_path, body + "except RuntimeError as error:\n    print(error)\n", Bounds(threads=100_000))
    assert "can't start new thread" in ending.printed.parts()[0]


@LINUX
def test_processes_without_end(tmp_path):
    _, ending = run(tmp_path, "while True:\n    if os.fork() == 0:\n        sign()\n        time.sleep(1000)\n", ROOMY)
    assert ending.how in ("threads", "memory")  # whichever of the two bounds such a crowd meets first


@LINUX
def test_memory_without_end(tmp_path):
    body = "kept = []\nwhile True:\n    kept.append(b'x' * (1 << 20))\n    time.sleep(1e-4)\n"
    _, ending = run(tmp_path, body, ROOMY)
    assert ending.how == "memory"
    number = re.search(r"it took more than ([\d.]+) GiB of memory", said(ending))
    assert ending.bounds.memory >= ROOMY.memory
    assert float(number[1]) == pytest.approx(ending.bounds.memory / (1 << 30), rel=0.01)


@LINUX
def test_memory_of_many_processes_counts_together(tmp_path):
    body = "any(os.fork() == 0 for i in range(4))\nsign()\nkept = b'x' * (400 << 20)\ntime.sleep(1000)\n"
    assert run(tmp_path, body, ROOMY)[1].how == "memory"


@LINUX
def test_memory_that_forks_share_counts_once(tmp_path):
    body = "kept = b'x' * (100 << 20)\nif any(os.fork() == 0 for i in range(4)):\n    time.sleep(1)\n    os._exit(0)\n"
    assert run(tmp_path, body + "time.sleep(1)\n", ROOMY)[1].how == "finished"


def test_one_process_cannot_allocate_without_end(tmp_path):
    body = "try:\n    bytearray(1 << 40)\nexcept MemoryError:\n    print('refused')\n"
    assert run(tmp_path, body)[1].printed.parts()[0] == "refused\n"


def test_a_file_cannot_grow_without_end(tmp_path):
    body = "with open('large', 'wb') as file:\n    try:\n        while True:\n            file.write(bytes(1 << 20))\n"
    body += "    except OSError as error:\n        print(error.errno)\n        os.ftruncate(file.fileno(), 0)\n"
    _, ending = run(tmp_path, body, Bounds(file=4 << 20))
    assert ending.printed.parts()[0].startswith("27")


@LINUX
@pytest.mark.parametrize("body", ["ctypes.string_at(0)", "os.abort()"])
def test_a_crash_names_its_line(tmp_path, body):
    _, ending = run(tmp_path, f"import ctypes\ndef crash():\n    {body}\ncrash()\n")
    assert (ending.how, ending.where) == ("died", ("answer.py", 9, "crash"))
    assert said(ending).endswith("It was in line 9 of answer.py, in crash.")


@LINUX
def test_of_many_processes_the_one_that_takes_most_is_named(tmp_path):
    body = "if os.fork() == 0:\n    sign()\n    kept = []\n    while True:\n        kept.append(b'x' * (1 << 20))\n"
    _, ending = run(tmp_path, body + "time.sleep(1000)\n", ROOMY)
    assert (ending.how, *ending.where[::2]) == ("memory", "answer.py", "<module>")
    assert ending.where[1] in (10, 11)


def test_temporary_files_are_bounded_and_removed(tmp_path):
    body = "import tempfile\nprint(tempfile.mkdtemp())\nwhile True:\n    handle, _ = tempfile.mkstemp()\n"
    body += "    os.write(handle, bytes(1 << 20))\n    os.close(handle)\n"
    _, ending = run(tmp_path, body, Bounds(scratch=5 << 20))
    assert ending.how == "files"
    assert "more than 5 MiB" in said(ending)
    assert not Path(ending.printed.parts()[0].strip()).parent.exists()


def test_what_it_starts_makes_temporary_files_there_too(tmp_path):
    _, ending = run(tmp_path, "subprocess.run(['mktemp'])\n")
    assert ending.how == "finished"
    assert not Path(ending.printed.parts()[0].strip()).exists()


@LINUX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_temporary_file_is_left_of_a_check_that_is_ended(tmp_path, number):
    (tmp_path / "my_lessons").mkdir()
    body = "import tempfile, time\nopen('made', 'w').write(tempfile.mkdtemp() + '.')\ntime.sleep(1000)\n"
    (tmp_path / "my_lessons/01_send_and_receive.py").write_text(body)
    runner = subprocess.Popen([sys.executable, "-m", "lessons", "check", "1"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    made = tmp_path / "my_lessons/made"
    until = time.monotonic() + 60
    while not (made.exists() and made.read_text().endswith(".")) and time.monotonic() < until:
        time.sleep(0.05)
    folder = Path(made.read_text().rstrip(".")).parent
    assert folder.name.startswith("lesson-")
    runner.send_signal(number)
    runner.wait()
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.exists()


@LINUX
def test_nothing_is_left_that_has_left_the_session(tmp_path):
    body = """
for i in range(5):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            sign()
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
            time.sleep(1000)
        sign()
        os._exit(0)
subprocess.Popen(["sh", "-c", "echo $$ >> pids; sleep 1000 & echo $! >> pids; wait"], start_new_session=True)
time.sleep(0.5)
"""
    events, ending = run(tmp_path, body, ROOMY)
    assert (ending.how, events[-1]) == ("finished", "loaded")
    assert len((tmp_path / "pids").read_text().split()) == 13


@LINUX
def test_nothing_is_left_when_the_guard_is_killed(tmp_path):
    body = """
if os.fork() == 0:
    os.setsid()
    sign()
    time.sleep(1000)
time.sleep(0.3)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(1000)
"""
    assert run(tmp_path, body)[1].how == "died"


def test_closing_early_leaves_nothing(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text(HEAD + "time.sleep(1000)\n")
    with Child(load, path, folder=tmp_path) as child:
        events = child.events()
        next(events)
        while not (tmp_path / "pids").exists() or not (tmp_path / "pids").read_text().endswith("\n"):
            time.sleep(0.01)
    assert not lives(int((tmp_path / "pids").read_text()))
    assert child.ending is None
    child.close()


@LINUX
def test_nothing_is_left_when_the_runner_is_killed(tmp_path):
    (tmp_path / "answer.py").write_text(HEAD + "time.sleep(1000)\n")
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); from test_child import *\n"
        "list(Child(load, Path('answer.py').absolute(), folder=Path.cwd()).events())"
    )
    here = str(Path(__file__).parent)
    runner = subprocess.Popen([sys.executable, "-c", code, here], cwd=tmp_path)
    pids = tmp_path / "pids"
    while not pids.exists() or not pids.read_text().endswith("\n"):
        assert runner.poll() is None
        time.sleep(0.01)
    runner.kill()
    runner.wait()
    until = time.monotonic() + 5
    while lives(int(pids.read_text())) and time.monotonic() < until:
        time.sleep(0.01)
    assert not lives(int(pids.read_text()))


def test_ranks_can_be_started_in_a_child(tmp_path):
    def judge():
        from collectives.launch import run as launch

        yield launch(os.getppid, 2, timeout=60)

    (parents,) = Child(judge, folder=tmp_path).events()
    assert len(set(parents)) == 1


def test_ctrl_c_while_it_is_cleared_up_is_not_lost(tmp_path):
    def brief():
        yield 1

    child = Child(brief, folder=tmp_path)
    end = child._family.end
    child._family.end = lambda: (os.kill(os.getpid(), signal.SIGINT), end())
    with pytest.raises(KeyboardInterrupt):
        list(child.events())
    assert all(end.closed for end in child._ends)


@LINUX
def test_both_ways_to_list_processes_agree():
    from lessons import family

    here = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    try:
        listed, found = family._from_ps(), family._from_proc()
        for pid in (here.pid, os.getpid()):
            assert (listed[pid].parent, listed[pid].group) == (found[pid].parent, found[pid].group)
        assert found[here.pid].group == here.pid
    finally:
        here.kill()
        here.wait()


@LINUX
def test_what_a_file_has_started_ends_when_the_runner_is_killed(tmp_path):
    (tmp_path / "my_lessons").mkdir()
    body = (
        "import subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\nopen('pid', 'w').write(str(child.pid))\n"
    )
    (tmp_path / "my_lessons/01_send_and_receive.py").write_text(body + "time.sleep(1000)\n")
    runner = subprocess.Popen([sys.executable, "-m", "lessons", "check", "1"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    pid = tmp_path / "my_lessons/pid"
    until = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    started = int(pid.read_text())
    runner.kill()
    runner.wait()
    while lives(started) and time.monotonic() < until:
        time.sleep(0.05)
    assert not lives(started)


@LINUX
def test_what_comes_to_us_leaves_no_zombie_and_our_own_processes_keep_their_status(tmp_path):
    before = zombies()
    body = "for _ in range(12):\n    subprocess.Popen(['sleep', '100'], start_new_session=True)\n"
    (tmp_path / "answer.py").write_text(HEAD + body + "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(100)\n")
    for _ in range(3):
        child = Child(load, tmp_path / "answer.py", folder=tmp_path, bounds=ROOMY)
        ours = subprocess.Popen(["sh", "-c", "exit 7"])
        list(child.events())
        assert ours.wait() == 7
        assert zombies() == before


def zombies():
    """Of this process's children, those that have ended and that nobody has waited for."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = place.read_text().rpartition(")")[2].split()[:2]
            if (state, int(parent)) == ("Z", os.getpid()):
                found.add(place.parent.name)
    return found
