"""Who has launched a process, the line that launches, and the roll call before any group is made."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from collectives.launch_line import launch_line, without
from collectives.launcher import Place, counts_of, hosts_of, place_of
from collectives.roll_call import Facts, call_roll, check_roll

ROOT = Path(__file__).parents[2]
FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "OMPI_", "PMI_", "MPI_", "TORCHELASTIC_")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu[01-03,07],cpu5", ["gpu01", "gpu02", "gpu03", "gpu07", "cpu5"]),
        ("node1", ["node1"]),
        ("a,b-2,c.example.org", ["a", "b-2", "c.example.org"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[098-101]-ib", ["n098-ib", "n099-ib", "n100-ib", "n101-ib"]),
        ("r[1-2]n[0,2]", ["r1n0", "r1n2", "r2n0", "r2n2"]),
    ],
)
def test_slurms_lists_of_hosts(text: str, hosts: list[str]) -> None:
    assert hosts_of(text) == hosts


@pytest.mark.parametrize("text", ["", "gpu[01-", "gpu[3-1]", "gpu[a-b]", "a,,b", "a b", "gpu[1-2]]", "n[0-999999999]"])
def test_lists_of_hosts_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"SLURM_STEP_NODELIST=.* cannot be read .*set MASTER_ADDR"):
        hosts_of(text)


def test_tasks_of_nodes() -> None:
    assert counts_of("2(x3),1") == [2, 2, 2, 1]
    assert counts_of("8") == [8]
    for wrong in ("", "8(3)", "x8", "8(x9999999)"):
        with pytest.raises(ValueError, match="SLURM_STEP_TASKS_PER_NODE"):
            counts_of(wrong)


TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "9",
}
SRUN = {
    "SLURM_PROCID": "9",
    "SLURM_STEP_NUM_TASKS": "12",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "8,4",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_JOB_ID": "5",
    "SLURM_STEP_ID": "0",
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}


def test_places() -> None:
    assert place_of(TORCHRUN) == Place("torchrun", 3, 4, 1, 2, "a", 9)
    place = place_of(SRUN)
    assert place is not None
    assert (place.rank, place.size, place.local, place.local_size) == (9, 12, 1, 4)
    assert (place.address, place.counts) == ("gpu07", (8, 4))
    for environ, ranks in ((OPENMPI, 4), (MPICH, 2)):
        place = place_of(environ)
        assert place is not None
        assert (place.by, place.rank, place.size, place.local_size, place.address) == (
            "mpirun",
            1,
            ranks,
            ranks,
            "127.0.0.1",
        )
    assert place_of({}) is None
    assert place_of({**OPENMPI, "MASTER_ADDR": "b", "MASTER_PORT": "7", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}) == Place(
        "mpirun", 1, 4, 1, 2, "b", 7
    )


def test_ranks_of_a_start_meet_at_one_port_and_the_next_start_at_another() -> None:
    ports = {
        (step, rank): place_of({**SRUN, "SLURM_PROCID": str(rank), "SLURM_STEP_ID": step}).port  # type: ignore[union-attr]
        for step in ("0", "1")
        for rank in (0, 11)
    }
    assert ports["0", 0] == ports["0", 11] != ports["1", 0] == ports["1", 11]
    assert all(20_000 <= port < 32_000 for port in ports.values())


def test_a_shell_inside_a_step_is_no_rank() -> None:
    assert (
        place_of({**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}) is None
    )
    assert place_of({"SLURM_PROCID": "0", "SLURM_JOB_ID": "5"}) is None  # the script of a batch job
    assert place_of({"RANK": "0", "WORLD_SIZE": "1"}) is None  # somebody's variables, and no torchrun


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({**SRUN, "SLURM_STEP_NODELIST": "gpu[1-"}, "SLURM_STEP_NODELIST='gpu[1-' cannot be read"),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "8(y2)"}, "SLURM_STEP_TASKS_PER_NODE='8(y2)' cannot be read"),
        ({**SRUN, "SLURM_PROCID": "x"}, "SLURM_PROCID='x' is no number"),
        ({**SRUN, "SLURM_PROCID": "12"}, "ranks are 0 to 11"),
        ({**OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "-x MASTER_ADDR=HOST"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(environ: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        place_of(environ)
    assert "\n" not in str(error.value)


# The line.


def test_lines() -> None:
    argv = ["-b", "8", "--nodes", "2", "--print-launch=slurm", "--ranks", "16", "--json", "my file.json"]
    assert without(argv) == ["-b", "8", "--json", "my file.json"]
    lines = {
        by: launch_line(by, ["collectives", "bench"], argv, 2, 16, "head") for by in ("slurm", "torchrun", "mpirun")
    }
    rest = "-m collectives bench -b 8 --json 'my file.json'"
    assert lines == {
        "slurm": f"srun --nodes=2 --ntasks-per-node=8 python {rest}",
        "torchrun": "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=head:29500 " + rest,
        "mpirun": f"mpirun -np 16 --map-by ppr:8:node -x MASTER_ADDR=head -x MASTER_PORT=29500 python {rest}",
    }
    with pytest.raises(ValueError, match="--nodes 2 with --ranks 5: every node needs as many ranks"):
        launch_line("slurm", ["collectives", "bench"], [], 2, 5, "head")


def run(words: str, **variables: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return subprocess.Popen(
        [sys.executable, "-m", *words.split()],
        env={**kept, "PYTHONPATH": str(ROOT), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, error = process.communicate(timeout=90)
    return process.returncode, out, error


@pytest.mark.timeout(200)
@pytest.mark.parametrize("by", ["srun", "mpirun"])
def test_ranks_that_srun_or_mpirun_starts_find_each_other(by: str) -> None:
    """They are given the variables that the launcher gives, and nothing else."""
    started = str(os.getpid())
    variables = {
        "srun": lambda r: {"SLURM_PROCID": r, "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": r, "SLURM_JOB_ID": started,
                           "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "n[1]"},
        "mpirun": lambda r: {"OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": r,
                             "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": started},
    }[by]  # fmt: skip
    words = "collectives bench -b 4K -e 4K -n 2 -w 0 --algorithm ring --baselines none"
    ranks = [run(words, **variables(str(rank))) for rank in (0, 1)]
    (status, out, error), (other, silent, _) = map(ends, ranks)
    assert (status, other) == (0, 0), error
    assert "2 ranks" in out
    assert "# Out of bounds values : 0 OK" in out
    assert silent == ""


def test_the_line_is_printed_and_nothing_is_started() -> None:
    status, out, error = ends(run("collectives bench --ranks 4 --nodes 2 --print-launch torchrun -b 8"))
    assert (status, out.count("\n")) == (0, 1)
    assert out.startswith("torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d")
    assert out.endswith("-m collectives bench -b 8\n")
    assert error.startswith("# on every node")


# The roll call.


def facts(host: str = "a", **changes: object) -> Facts:
    return Facts(**{"host": host, "boot": host, "torch": "2.13", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("everyone", "words"),
    [
        ([facts(gpu="x", gpus=1), facts(gpu="x", gpus=1)], "2 ranks on a, which has 1 of the GPUs"),
        ([facts(gpu="x", gpus=8), facts("b", gpu="y", gpus=4)], "the hosts differ in GPUs (a: 8, b: 4)"),
        ([facts(), facts(), facts("b")], "the hosts differ in ranks (a: 2, b: 1)"),
        ([facts(gpu="x", gpus=1, nccl="2.29.7"), facts("b", gpu="y", gpus=1, nccl="2.20.5")], "differ in NCCL"),
        ([facts(), facts("b", torch="2.6")], "differ in torch (a: 2.13, b: 2.6)"),
        ([facts(), facts(), facts(torch="2.6")], "differ in torch (a: 2.13, a: 2.6)"),
    ],
)
def test_a_mixture_is_refused(everyone: list[Facts], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        check_roll(everyone)
    assert ";" in str(error.value), "the fix stands behind it"


def test_what_is_alike_passes() -> None:
    check_roll(
        [facts(gpu="x", gpus=1), facts(gpu="y", gpus=1), facts("b", gpu="x", gpus=1), facts("b", gpu="y", gpus=1)]
    )
    check_roll([facts(boot="1"), facts(boot="2")])  # two containers of one name


def test_everybody_hears_everybody_and_who_is_missing_is_named() -> None:
    store = dist.HashStore()
    for rank, host in ((1, "b"), (0, "a")):
        store.set(f"collectives/roll-call/{rank}", json.dumps({"host": host, "boot": "", "torch": "2"}))
    heard = call_roll(store, 2, 3, facts("c"), 5)
    assert [one.host for one in heard] == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"rank 3 did not come within 0\.1 s"):
        call_roll(store, 0, 4, facts("a"), 0.1)


def test_ranks_that_never_meet_are_a_sentence() -> None:
    """Rank 1 asks where nobody listens: the port is bound here, without listening."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
        place = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        code = (
            "from collectives import launch\n"
            "try:\n"
            "    with launch.join(timeout=2): print('joined')\n"
            "except ValueError as error: print(error)\n"
        )
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        kept |= {"PYTHONPATH": str(ROOT), "MASTER_PORT": port, **place}
        said = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, timeout=90).stdout
    assert f"rank 1 of 2 did not meet the others at 127.0.0.1, port {port}, within 2 s" in said
    assert "have all ranks started" in said


@pytest.mark.timeout(200)
def test_launched_ranks_that_do_not_fit_are_refused_before_a_group_is_made() -> None:
    """One host believes in two ranks, the other in one: seen through different host names."""
    code = (
        "import socket, sys\n"
        "socket.gethostname = lambda: sys.argv[1]\n"
        "from collectives import launch\n"
        "import torch.distributed as dist\n"
        "try:\n"
        "    with launch.join(timeout=30): print('joined')\n"
        "except ValueError as error: print(dist.is_initialized(), error)\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    port = 32_000 + os.getpid() % 700
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, host],
            env={**kept, "PYTHONPATH": str(ROOT), "RANK": str(r), "WORLD_SIZE": "3", "LOCAL_RANK": "0",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
            stdout=subprocess.PIPE, text=True,
        )
        for r, host in enumerate(["left", "left", "right"])
    ]  # fmt: skip
    said = [rank.communicate(timeout=90)[0].strip() for rank in ranks]
    assert said == ["False the hosts differ in ranks (left: 2, right: 1); start as many on every host"] * 3
