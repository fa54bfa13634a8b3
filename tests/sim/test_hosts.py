"""Hosts made of namespaces: they are apart, shaped, and gone afterwards whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim.__main__ import DOOR
from sim.commands.hosts import torchrun_args
from sim.hosts import Hosts, Unavailable, default_burst
from sim.netns import Host, check

RANK = """
import os, socket, sys
rank, status = int(os.environ["RANK"]), [int(text) for text in sys.argv[1:]]
print("rank", rank, "of", os.environ["WORLD_SIZE"], "on", socket.gethostname(), flush=True)
sys.exit(status[rank])
"""

TRAFFIC = """
import json, torch, torch.distributed as dist
import collectives
from collectives import launch
from collectives.combinators import over_nodes, rings

def sent():
    lines = [line.replace(":", " ").split() for line in open("/proc/net/dev") if "eth" in line]
    return {words[0]: int(words[9]) for words in lines}

with launch.join() as (rank, size):
    data, found = torch.ones(1 << 20), []
    for algorithm in ("ring", rings(over_nodes([[0, 1]], 2, 2))):
        collectives.all_reduce(data, algorithm=algorithm)  # connects
        dist.barrier()
        before = sent()
        dist.barrier()
        for _ in range(4):
            collectives.all_reduce(data, algorithm=algorithm)
        dist.barrier()
        found.append(sorted((number - before[name]) / data.nbytes / 4 for name, number in sent().items()))
        dist.barrier()
    everyone = [None] * size
    dist.all_gather_object(everyone, found)
    if rank == 0:
        print(json.dumps(everyone))
"""

SENDER = """
import socket, sys
if sys.argv[1] == "send":
    with socket.create_connection((sys.argv[2], 5000)) as line:
        line.sendall(bytes(1 << 20))
else:
    with socket.create_server((sys.argv[2], 5000)) as server:
        print("up", flush=True)
        line, _ = server.accept()
        print(sum(len(piece) for piece in iter(lambda: line.recv(1 << 20), b"")))
"""

HOLDER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from sim.hosts import Hosts
with Hosts(2, rate="200mbit") as hosts:
    hosts.run(["sh", "-c", "readlink /proc/self/ns/net; sleep 100"])
"""


def refusal() -> str:
    """Why this system cannot make hosts; empty if it can."""
    try:
        check()
        Host("probe").close()
    except Unavailable as error:
        return str(error)
    return ""


REFUSAL = refusal()
real = pytest.mark.skipif(bool(REFUSAL), reason=REFUSAL)


def command(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "sim", "hosts", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300)


def output(hosts: Hosts, host: int, *argv: str) -> str:
    return hosts.spawn(host, argv, stdout=subprocess.PIPE).communicate()[0]


def inhabited() -> set[str]:
    """The network namespaces that have a process."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(os.readlink(process / "ns" / "net"))
        except OSError:  # it has ended
            continue
    return found


def gone(space: str) -> bool:
    limit = time.monotonic() + 10
    while space in inhabited() and time.monotonic() < limit:
        time.sleep(0.05)
    return space not in inhabited()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--hosts", "0", "--", "x.py"], "hosts 0: make from 1"),
        (["--links", "0", "--", "x.py"], "links 0: give a host from 1"),
        (["--ranks-per-host", "0", "--", "x.py"], "--ranks-per-host 0: start at least 1"),
        (["--rate", "fast", "--", "x.py"], "rate 'fast'"),
        (["--rate", "none", "--burst", "8K", "--", "x.py"], "without a rate"),
        (["--burst", "1K", "--", "x.py"], "a packet has 1514 bytes"),
        (["--timeout", "0", "--", "x.py"], "--timeout 0: use a number of seconds above 0"),
        ([], "nothing to run"),
    ],
)
def test_arguments_are_refused_with_one_sentence(capsys, args, words):
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert DOOR.main(["hosts", *args]) == 2
    finally:
        signal.signal(signal.SIGTERM, handler)  # the command's own
    out, error = capsys.readouterr()
    assert out == ""
    assert words in error
    assert error.count("\n") == 1


def test_what_follows_the_dashes_is_what_would_follow_torchrun():
    assert torchrun_args(["--", "python", "-m", "x", "--", "y"]) == ["-m", "x", "--", "y"]
    assert torchrun_args(["--", "python.py", "python"]) == ["python.py", "python"]


def test_a_system_that_cannot_make_hosts_says_what_is_missing(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        with pytest.raises(Unavailable, match="only Linux has, not darwin"):
            check()
    monkeypatch.setattr(sys, "platform", "linux")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(Unavailable, match="ip, which is not on the PATH: install iproute2"):
            check()
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    with pytest.raises(Unavailable, match="run it as root"):
        check()


def test_the_burst_is_half_a_millisecond_at_the_rate():
    assert default_burst(125e6) == 62_500
    assert default_burst(1e6) == 4096


@real
def test_hosts_are_apart_and_shaped():
    outside = subprocess.run(["ip", "address"], capture_output=True, text=True).stdout
    with Hosts(2, rate="200mbit") as hosts:
        assert [output(hosts, i, "hostname").strip() for i in range(2)] == hosts.names == ["host0", "host1"]
        assert "rate 200Mbit burst 12" in output(hosts, 1, "tc", "qdisc", "show", "dev", "eth0")
        receiver = hosts.spawn(0, [sys.executable, "-c", SENDER, "receive", "host0"], stdout=subprocess.PIPE)
        assert receiver.stdout.readline() == "up\n"
        assert hosts.spawn(1, [sys.executable, "-c", SENDER, "send", "host0"]).wait() == 0
        assert receiver.communicate()[0] == f"{1 << 20}\n"
        counts = output(hosts, 1, "tc", "-s", "qdisc", "show", "dev", "eth0")
        assert "dropped 0, overlimits" in counts
        assert "overlimits 0" not in counts  # it had to wait for the rate
        spaces = [output(hosts, i, "readlink", "/proc/self/ns/net").strip() for i in range(2)]
        assert subprocess.run(["ip", "address"], capture_output=True, text=True).stdout == outside
        assert hosts.spawn(0, ["pwd"], stdout=subprocess.PIPE).communicate()[0].strip() == os.getcwd()
    assert not inhabited() & set(spaces)


@real
def test_the_first_failure_ends_the_others_and_the_hosts_can_go_on(capfd):
    with Hosts(3) as hosts:
        began = time.monotonic()
        assert hosts.run(["sh", "-c", "[ $(hostname) != host1 ] || exit 3; sleep 100"]) == 3
        assert hosts.run(["sh", "-c", "[ $(hostname) != host2 ] || kill -9 $$"]) == 128 + 9
        with pytest.raises(TimeoutError, match=r"host0, host1, host2 did not end within 0\.5 s"):
            hosts.run(["sleep", "100"], timeout=0.5)
        assert time.monotonic() - began < 30
        capfd.readouterr()
        assert hosts.run(["hostname"]) == 0
        out, err = capfd.readouterr()
        assert out == "host0\n"
        assert sorted(err.splitlines()) == ["host1: host1", "host2: host2"]


@real
def test_two_sets_of_hosts_do_not_meet():
    with Hosts(1) as one, Hosts(1, rate="1gbit") as other:
        serving = [sys.executable, "-c", SENDER, "receive", "198.18.0.1"]  # the same address and port in both
        receivers = [hosts.spawn(0, serving, stdout=subprocess.PIPE) for hosts in (one, other)]
        assert [receiver.stdout.readline() for receiver in receivers] == ["up\n", "up\n"]
        one.clear(0)
        receivers[0].communicate()
        assert receivers[0].returncode == -signal.SIGTERM
        assert receivers[1].poll() is None
        assert other.spawn(0, [sys.executable, "-c", SENDER, "send", "host0"]).wait() == 0
        assert receivers[1].communicate()[0] == f"{1 << 20}\n"


@real
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_parent_is_killed(sign):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    spaces = [holder.stdout.readline().strip(), holder.stderr.readline().removeprefix("host1: ").strip()]
    assert set(spaces) <= inhabited()
    holder.send_signal(sign)
    holder.communicate(timeout=20)
    assert all(gone(space) for space in spaces)


@real
@pytest.mark.timeout(700)  # imports torch several times; a net, not a bound
def test_a_job_of_torchrun_on_two_hosts(tmp_path):
    (tmp_path / "rank.py").write_text(RANK)
    job = ["--hosts", "2", "--", "python", str(tmp_path / "rank.py")]
    ran = command(*job, "0", "0")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "rank 0 of 2 on host0\n"
    # torch may have words of its own there, about a store that was gone before the last who asked it
    assert "host1: rank 1 of 2 on host1" in ran.stderr.splitlines()
    ran = command(*job, "0", "3")
    assert ran.returncode == 1  # torchrun's own status; the rank's is in its report
    assert "host1 failed first: exit status 1" in ran.stderr
    assert "exitcode  : 3" in ran.stderr


@real
@pytest.mark.timeout(700)  # imports torch several times; a net, not a bound
def test_a_training_run_over_hosts_is_that_of_one_process_and_goes_on_on_another_mesh(tmp_path):
    def losses(*args):
        file = tmp_path / "run.json"
        argv = [sys.executable, "-m", *args, "--model", "tiny", "--batch", "6", "--json", str(file)]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        return [(row["step"], row["loss"]) for row in json.loads(file.read_text())["steps"]]

    hosts, train, saving = ("sim", "hosts", "--hosts", "2"), ("parallel", "train"), ("--save", str(tmp_path / "runs"))
    four = (*hosts, "--ranks-per-host", "2", "--rate", "200mbit", "--", "-m", *train)
    first = losses(*four, "--tp", "2", "--dp", "2", "--steps", "3", *saving)
    two = (*hosts, "--rate", "200mbit", "--", "-m", *train)
    second = losses(*two, "--pp", "2", "--steps", "5", *saving, "--resume")
    alone = losses(*train, "--steps", "5")
    assert [step for step, _ in first + second] == [1, 2, 3, 4, 5]
    assert first + second == [(step, pytest.approx(loss, abs=1e-5)) for step, loss in alone]


@real
@pytest.mark.timeout(700)  # imports torch several times; a net, not a bound
def test_two_rings_use_two_links_where_one_uses_one(tmp_path):
    """The bytes that leave by each link: 2(n-1)/n of the buffer, all by one of two, or half by each."""
    (tmp_path / "rank.py").write_text(TRAFFIC)
    pair = ["--hosts", "2", "--ranks-per-host", "2", "--links", "2", "--rate", "none"]
    ran = command(*pair, "--", str(tmp_path / "rank.py"))
    assert ran.returncode == 0, ran.stderr
    for one, two in json.loads(ran.stdout):
        assert one == pytest.approx([0, 1.5], abs=0.08)  # headers, and the barriers
        assert two == pytest.approx([0.75, 0.75], abs=0.08)


@real
def test_every_link_has_the_rate_and_an_address_of_its_own():
    with Hosts(2, rate="100mbit", links=2) as hosts:
        assert hosts.ports == ["eth0", "eth1"]
        shaped = output(hosts, 1, "tc", "qdisc", "show")
        assert shaped.count("rate 100Mbit") == 2
        ways = output(hosts, 0, "ip", "-4", "-brief", "address")
        assert [line.split()[-1] for line in ways.splitlines()] == ["127.0.0.1/8", "198.18.0.1/24", "198.18.1.1/24"]
