"""``python -m parallel train`` from the command line: what it prints, refuses, survives, and hands to scripts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from parallel.__main__ import DOOR
from parallel.checkpoints.folder import checkpoints
from tests.parallel.command import RANK, environment, forked

QUICK = ("--model", "tiny", "--sequence", "17", "--batch", "6")


def train(*args: object, status: int = 0, launcher: tuple[str, ...] = ()) -> str:
    """With a ``launcher`` in a new Python, else forked."""
    words = ["train", *map(str, args)]
    if launcher:
        start = [sys.executable, *launcher, "parallel", *words]
        done = subprocess.run(start, capture_output=True, text=True, env=environment(), timeout=100)
        found, out, err = done.returncode, done.stdout, done.stderr
    else:
        found, out, err = forked(words)
    assert found == status, out + err
    return err if status else out


def losses(path: Path) -> list[float]:
    return [row["loss"] for row in json.loads(path.read_text())["steps"]]


def test_it_trains_saves_and_goes_on_elsewhere(tmp_path: Path) -> None:
    straight, first, second = (tmp_path / f"{name}.json" for name in ("straight", "first", "second"))
    train(*QUICK, "--steps", 6, "--json", straight)
    printed = train(*QUICK, "--steps", 4, "--ranks", 2, "--save", tmp_path / "runs", "--save-every", 3, "--json", first)
    assert "# saved:" in printed
    assert len(re.findall(r"^step \d   loss ", printed, re.M)) == 4
    printed = train(
        *QUICK, "--steps", 6, "--dp", 3, "--zero", 2, "--save", tmp_path / "runs", "--resume", "--json", second
    )
    assert "after step 4" in printed
    assert "dp: was 2, is 3" in printed
    assert losses(first) + losses(second) == pytest.approx(losses(straight), abs=1e-5)
    row = json.loads(second.read_text())["steps"][0]
    assert row.keys() == {"step", "loss", "grad_norm", "step_s", "tokens_per_s", "taken"}
    assert row["step"] == 5
    assert row["tokens_per_s"] == pytest.approx(6 * 17 / row["step_s"])


def test_a_first_start_with_resume_is_the_beginning_but_a_named_folder_must_have_one(tmp_path: Path) -> None:
    printed = train(*QUICK, "--steps", 1, "--save", tmp_path / "runs", "--resume")
    assert "nothing saved yet" in printed
    said = train(*QUICK, "--steps", 1, "--resume", tmp_path / "nowhere", status=2)
    assert "no checkpoint here" in said
    assert "Traceback" not in said


def test_of_torchruns_ranks_one_speaks() -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
    printed = train(*QUICK, "--steps", 2, launcher=launcher)
    assert printed.count("# saved") == 0
    assert len(re.findall(r"^step \d", printed, re.M)) == 2


def test_a_picture_and_a_trace(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    picture, trace = tmp_path / "loss.svg", tmp_path / "step.json"
    train(*QUICK, "--steps", 2, "--ranks", 2, "--pp", 2, "--plot", picture, "--trace", trace)
    assert "<svg" in picture.read_text()
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"F 0", "B 0", "F 1", "B 1"} <= names


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--ranks", 4, "--dp", 3], "there are 4 ranks"),
        (["--ranks", 0], "--ranks 0: use at least 1"),
        (["--model", "huge"], "use tiny, small"),
        (["--zero", 4], "--zero 4: use 0, 1, 2 or 3"),
        (["--precision", "fp31"], "--precision fp31: use fp32"),
        (["--offload", "activations,some"], "--offload some: use activations or optimizer"),
        (["--recompute", "ful"], "--recompute ful: use full"),
        (["--pp", 2, "--vpp", 2], "chunks=2 of 1f1b"),
        (["--pp", 4], "has 2 layers"),
        (["--pp", 2, "--zero", 2], "use --zero 1"),
        (["--pp", 2, "--schedule", "1f2b"], "use 1f1b"),
        (["--clip", "postvalidate"], "use --clip sync"),
        (["--sp"], "leave --sp out"),
        (["--tp", 3], "3"),
        (["--batch", 1, "--dp", 2], "use --batch 2"),
        (["--sequence", 1000], "has places for 64"),
        (["--sequence", 0], "--sequence 0: use at least 1"),
        (["--lr", "nan"], "--lr nan"),
        (["--lr", 0], "--lr 0"),
        (["--steps", 0], "--steps 0"),
        (["--seed", -1], "--seed -1"),
        (["--resume"], "--resume: from where?"),
        (["--json", "/nowhere/x.json"], "does not exist"),
        (["--plot", "loss.txt"], "name a .png"),
        (["--timeout", 0], "--timeout 0"),
        (["--keep", 0], "--keep 0"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    args: list[object], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if RANK.match(name)]:
        monkeypatch.delenv(name)
    assert DOOR.main(["train", "--model", "tiny", *map(str, args)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.strip().splitlines()) == 1


def test_a_text_that_cannot_be_read_and_a_place_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "file").write_text("x" * 5)
    for option, path, words in (
        ("--text", tmp_path / "missing", "name a file that can be read"),
        ("--text", tmp_path / "empty", "it is empty"),
        ("--text", tmp_path / "file", "use a shorter one"),
        ("--save", tmp_path / "file", "no folder for checkpoints"),
    ):
        said = train(*QUICK, option, path, "--ranks", 2, status=2)
        assert words in said
        assert "Traceback" not in said


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_what_was_saved(tmp_path: Path) -> None:
    said = train(*QUICK, "--lr", 1e30, "--steps", 9, "--ranks", 2, "--save", tmp_path, "--save-every", 1, status=1)
    assert "lower --lr" in said
    assert "--resume" in said
    assert checkpoints(tmp_path)


def test_a_killed_rank_ends_the_run_and_the_line_it_prints_goes_on(tmp_path: Path) -> None:
    """SIGKILL at any moment; the printed command continues, and the losses are those of an undisturbed run."""
    undisturbed, found = tmp_path / "undisturbed.json", tmp_path / "found.json"
    shape = (*QUICK, "--steps", "30", "--ranks", "2", "--zero", "2")
    train(*shape, "--json", undisturbed)
    words = [sys.executable, "-m", "parallel", "train", *shape, "--save", str(tmp_path / "runs"), "--save-every", "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("step  7"):
                break
        os.kill(children(run.pid)[-1], signal.SIGKILL)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 1
    command = said.strip().splitlines()[-1]
    assert command.startswith("python -m parallel train ")
    assert command.endswith("--resume")
    train(*command.split()[4:], "--json", found)
    wanted = losses(undisturbed)
    assert losses(found) == wanted[-len(losses(found)) :]
    assert 20 <= len(losses(found)) <= 25


def children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
    return sorted(int(word) for word in listed.stdout.split())


@pytest.mark.timeout(240)
def test_torchrun_starts_again_after_kills_and_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    undisturbed, found = tmp_path / "undisturbed.json", tmp_path / "found.json"
    shape = (*QUICK, "--steps", "24", "--zero", "3")
    train(*shape, "--ranks", "2", "--json", undisturbed)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "3", "-m")
    runs = tmp_path / "runs"
    saving = ("--save", str(runs), "--save-every", "3", "--resume", "--json", str(found))
    words = [sys.executable, *launcher, "parallel", "train", *shape, *saving]
    apart = {**environment(), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=apart) as run:
        for least in (3, 12):
            while not any(int(path.name.split("-")[1]) >= least for path in checkpoints(runs)):
                assert run.poll() is None
                time.sleep(0.02)
            os.kill(children(run.pid)[least % 2], signal.SIGKILL)
        _, said = run.communicate(timeout=180)
    assert run.returncode == 0, said
    rows: list[dict[str, Any]] = json.loads(found.read_text())["steps"]
    assert rows[-1]["step"] == 24
    assert [row["loss"] for row in rows] == losses(undisturbed)[rows[0]["step"] - 1 :]
