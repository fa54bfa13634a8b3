"""The command line as a user types it, and what importing costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

RING = """
from collectives import Recv, Reduce, Send

def all_reduce(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step{off}) % size, to=right), Reduce((rank - step - 1) % size, source=left)
    for step in range(size - 1):
        yield Send((rank - step + 1) % size, to=right), Recv((rank - step) % size, source=left)
"""


def command(*args, cwd=None, env=None, status=0):
    ran = subprocess.run(
        [sys.executable, "-m", "collectives", *args], capture_output=True, text=True, cwd=cwd, env=env, timeout=100
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_help_and_version_are_quick_and_free_of_torch():
    code = "import sys; from collectives.__main__ import DOOR; DOOR.main(['--help']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert "prove" in command("--help")
    assert "ringlab 0.1.0" in command("--version")


@pytest.mark.parametrize("name", ["bench", "list", "show", "prove", "doctor"])
def test_every_command_has_help(name):
    assert "usage" in command(name, "--help")


def test_schedules_proofs_costs_and_the_simulator_import_no_torch():
    code = """
import sys, collectives, sim
from collectives import Buffer, Reduce, Schedule, ScheduleError, Send, find, place, prove, register, rings, split
from collectives.cost import Machine, predict
for schedule in collectives.algorithms():
    prove(schedule, 5)
    predict(schedule, 5, 1e6, Machine(1e-6, 1e-9))
assert "torch" not in sys.modules and "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_module_is_named_like_a_public_function():
    code = """
import importlib, pkgutil, collectives
for module in pkgutil.iter_modules(collectives.__path__):
    assert module.name not in collectives.__all__, module.name
    if module.name != "__main__":
        importlib.import_module("collectives." + module.name)
for name in collectives.__all__:
    assert callable(getattr(collectives, name)), name
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_list_names_algorithm_collective_and_cost(tmp_path):
    printed = command("list", "--json", str(tmp_path / "list.json"))
    rows = json.loads((tmp_path / "list.json").read_text())["rows"]
    assert {"algorithm", "collective", "cost", "does", "options"} <= rows[0].keys()
    assert all(row["does"] and row["cost"] for row in rows)
    assert "hierarchical" in printed
    assert "Options: local" in printed
    assert "unknown: use one of" in command("list", "--collective", "sum", status=2)


def test_show_draws_the_ring():
    printed = command("show", "ring", "--ranks", "4").splitlines()
    assert printed[0].startswith("ring all_reduce (ranks: 4), chunks: 4, steps: 6, messages: 24")
    step_0 = printed[printed.index(next(line for line in printed if line.startswith("step 0"))) + 1 :]
    assert step_0[0].split() == ["rank", "0", "0", "0", "+03", "0", "←", "2", "from", "rank", "3"]
    assert printed[-3].split() == ["rank", "3", "=0123", "0123", "0123", "0123", "←", "0", "from", "rank", "2"]


@pytest.mark.parametrize("name", ["double_tree", "bruck", "hierarchical", "naive", "dissemination", "binomial"])
def test_show_draws_everything(name):
    assert "step 0" in command("show", name, "--ranks", "6")
    assert "rank 11" in command("show", name, "--ranks", "12")


def test_show_and_prove_a_users_file(tmp_path):
    (tmp_path / "mine.py").write_text(RING.format(off=""))
    (tmp_path / "wrong.py").write_text(RING.format(off=" - 1"))
    assert command("show", "mine.py:all_reduce", cwd=tmp_path).startswith("all_reduce all_reduce (ranks: 4)")
    assert "proofs: 9, all right" in command("prove", "--algorithm", "mine.py:all_reduce", cwd=tmp_path)
    few = command("prove", "--algorithm", "mine:all_reduce", "--ranks", "2,4-5", cwd=tmp_path)
    assert "proofs: 3, all right" in few
    refused = command("prove", "--algorithm", "wrong.py:all_reduce", "--json", "out.json", cwd=tmp_path, status=1)
    assert "wrong (order): the message from rank" in refused
    row = json.loads((tmp_path / "out.json").read_text())["rows"][-1]
    assert (row["ok"], row["ranks"]) == (False, 2)
    assert "carries chunk" in row["reason"]
    command("show", "wrong.py:all_reduce", cwd=tmp_path, status=1)


def test_prove_everything(tmp_path):
    printed = command("prove", "--ranks", "1-6", "--json", str(tmp_path / "rows.json"))
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    keys = ["algorithm", "collective", "ranks", "steps", "messages", "bytes_per_rank", "ok", "reason"]
    assert all(list(row) == keys and row["ok"] for row in rows)
    ring = next(r for r in rows if (r["algorithm"], r["collective"], r["ranks"]) == ("ring", "all_reduce", 4))
    assert (ring["steps"], ring["messages"], ring["bytes_per_rank"]) == (6, 24, 1.5)
    assert f"# proofs: {len(rows)}, all right" in printed


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("prove", "--ranks", "0"), "--ranks '0'"),
        (("prove", "--ranks", "5-2"), "--ranks '5-2'"),
        (("prove", "--algorithm", "rign"), "use ring"),
        (("prove", "--algorithm", "ring:channels=0"), "channels=0"),
        (("show", "ring", "--ranks", "0"), "--ranks 0"),
        (("show", "nothing.py:f"), "does not exist"),
        (("show", "ring", "--collective", "all_to_all"), "unknown for all_to_all"),
        (("prof",), "use prove"),
    ],
)
def test_wrong_arguments(args, words):
    assert words in command(*args, status=2)


def test_doctor_and_a_folder_that_shadows(tmp_path):
    assert "all is well" in command("doctor")
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "__init__.py").write_text("")
    said = command("doctor", cwd=tmp_path, status=1)
    assert "package sim is loaded from" in said
    assert "rename that folder" in said
    assert "shadows" in command("--version", cwd=tmp_path)
