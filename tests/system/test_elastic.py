"""Ranks that are killed under torchrun: training goes on from its checkpoint, and ends with the same bits."""

from __future__ import annotations

import os
import random
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from collectives import launch

RANKS, STEPS = 3, 12
SCRIPT, ROOT = Path(__file__).with_name("elastic_rank.py"), Path(__file__).parents[2]


def undisturbed(checkpoint: Path) -> dict[str, Any]:
    """The state at the end of a training in which nobody dies."""
    train = runpy.run_path(str(ROOT / "examples" / "elastic.py"))["train"]
    launch.run(train, RANKS, checkpoint, STEPS, backend="ring", timeout=60)
    return torch.load(checkpoint)


def torchrun(folder: Path, *deaths: str) -> dict[str, Any]:
    """The state at the end of a training in ``folder`` in which ranks die."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    command += ["--max-restarts", str(len(deaths)), str(SCRIPT), str(folder / "state.pt"), str(folder), str(STEPS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # see the example
    ran = subprocess.run([*command, *deaths], capture_output=True, text=True, env=environment, timeout=200)
    assert ran.returncode == 0, ran.stderr
    return torch.load(folder / "state.pt")


def notes(folder: Path, start: int, rank: int) -> list[str]:
    return (folder / f"{start}-{rank}").read_text().split("\n")[:-1]


@pytest.mark.timeout(300)
def test_training_goes_on_with_the_same_bits_when_ranks_are_killed(tmp_path):
    draw = random.Random(0)
    victims = draw.sample(range(RANKS), 2)
    steps = sorted(draw.sample(range(1, STEPS), 2))
    deaths = [f"{victim}@{step}" for victim, step in zip(victims, steps, strict=True)]
    wanted, got = undisturbed(tmp_path / "undisturbed.pt"), torchrun(tmp_path, *deaths)

    assert wanted["step"] == got["step"] == STEPS
    for start, (victim, step) in enumerate(zip(victims, steps, strict=True)):
        assert notes(tmp_path, start, victim)[-2:] == [f"step {step}", "dies"]
        assert notes(tmp_path, start + 1, victim)[0] == f"step {step}"  # done again, and none before it
    for rank in range(RANKS):
        assert notes(tmp_path, len(deaths), rank)[-1] == f"step {STEPS - 1}"

    assert got["model"].keys() == wanted["model"].keys()
    for name, value in wanted["model"].items():
        assert torch.equal(got["model"][name], value), name
    for number, moments in wanted["optimizer"]["state"].items():
        for name, value in moments.items():
            assert torch.equal(got["optimizer"]["state"][number][name], value), (number, name)
