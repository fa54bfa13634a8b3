"""What goes wrong with a pipeline: ranks that die, stall or raise, and arguments that make no sense."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn

from collectives.errors import CollectiveError
from collectives.launch import run
from parallel import Mesh, Pipeline, Stepper
from parallel.pipeline import Stages, find
from parallel.pipeline.splitting import balanced, split
from tests.parallel.pipelined import batch, loss_sum, pipeline, valid, whole

WIDE = 200  # rows: a message of 200 · 9 · 12 · 8 bytes is longer than a socket's buffer takes at once


class Trouble(nn.Module):
    """Does something at its third call."""

    def __init__(self, stage, what):
        super().__init__()
        self.stage, self.what, self.calls = stage, what, 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 3:
            self.what()
        return self.stage(x)


def die():
    os._exit(7)


def stall(directory):
    """Until both others have written down what they were told, a minute at most."""
    until = time.monotonic() + 60
    while len(list(directory.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.1)


def stumble():
    raise KeyError("no such row")


def troubled(schedule, who, what, directory, timeout):
    """One rank is in trouble in a step; the others write down what they are told, and when."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts, tied = split(whole(size), Stages(find(schedule), size), rank)
    chunk = Trouble(parts[0], what) if rank == who else parts[0]
    pipe = Pipeline(chunk, schedule, 4, loss_sum, valid, tied=tied, timeout=timeout)
    began = time.monotonic()
    try:
        pipe.step(*batch(4 * WIDE))
    except CollectiveError as error:
        with pytest.raises(CollectiveError, match="broken since an earlier failure"):
            pipe.step(*batch(4 * WIDE))
        (directory / str(rank)).write_text(f"{time.monotonic() - began} {error}")
    except KeyError:
        stall(directory)  # alive: the others must have been told
        raise
    raise SystemExit(3)


@pytest.mark.parametrize("schedule", ["gpipe", "zb-h1"])
@pytest.mark.parametrize("who", [0, 1, 2])
def test_a_stage_that_dies_ends_the_others_who_name_it(tmp_path, schedule, who):
    with pytest.raises(Exception, match=rf"rank {who} "):
        run(troubled, 3, schedule, who, die, tmp_path, 60.0, timeout=80, grace=30)
    others = [rank for rank in range(3) if rank != who]
    assert sorted(path.name for path in tmp_path.iterdir()) == [str(rank) for rank in others]
    for rank in others:
        seconds, _, said = (tmp_path / str(rank)).read_text().partition(" ")
        assert float(seconds) < 60  # not at its timeout
        assert f"pipeline of 4 microbatches (algorithm {schedule}) failed on rank {rank}" in said
        assert f"rank {who}" in said


def test_a_stage_that_stalls_is_named_when_the_time_is_over(tmp_path):
    with pytest.raises(Exception, match="rank"):
        run(troubled, 3, "1f1b", 1, partial(stall, tmp_path), tmp_path, 6.0, timeout=80, grace=30)
    said = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {"0", "2"} <= set(said)  # and the one that stalled, when it comes back
    assert "to receive the gradient of microbatch" in said["0"] or "rank 2, which gave up" in said["0"]
    assert all("rank 1" in text for text in said.values())


def test_a_stage_that_raises_ends_the_others_at_once(tmp_path):
    with pytest.raises(Exception, match="KeyError: 'no such row'"):
        run(troubled, 3, "1f1b", 1, stumble, tmp_path, 40.0, timeout=90, grace=30)
    for rank in (0, 2):
        seconds, _, said = (tmp_path / str(rank)).read_text().partition(" ")
        assert float(seconds) < 40
        assert "rank 1" in said


def refused():
    """Every rank raises the same, and nothing is sent: the last pipeline still works."""
    linear = nn.Linear(2, 2)

    def sums(y, t):
        return (y - t).sum()

    for match, make in (
        ("microbatches=0: a step has at least 1 microbatch", lambda: Pipeline(linear, "1f1b", 0, sums)),
        ("microbatches=2.5: give a whole number", lambda: Pipeline(linear, "1f1b", 2.5, sums)),
        ("chunks has 1 modules, but a rank of zbv holds 2", lambda: Pipeline(linear, "zbv", 2, sums)),
        ("chunks has 0 modules", lambda: Pipeline([], "looped", 2, sums)),
        ("schedule '1f1' is unknown: use 1f1b", lambda: Pipeline(linear, "1f1", 2, sums)),
        ("bucket_mb=-1: give MiB", lambda: Pipeline(linear, "1f1b", 2, sums, bucket_mb=-1)),
        ("the mesh pp 3 × dp 1 × tp 1 has 3 ranks, but there are 2", lambda: Mesh(pp=3)),
        ("tied 'w': rank 0 has .* two at least", lambda: Pipeline(linear, "1f1b", 2, sums, tied=_only_first(linear))),
        (
            "recompute names chunk 1, but there are chunks 0 to 0",
            lambda: Pipeline(linear, "1f1b", 2, sums, recompute=[1]),
        ),
        ("microbatches or chunks differ between ranks", lambda: Pipeline(linear, "1f1b", 2 + dist.get_rank(), sums)),
    ):
        with pytest.raises(ValueError, match=match):
            make()
    pipe = pipeline(whole(2), "1f1b", 3)
    with pytest.raises(ValueError, match="pipeline was given a group: give it a Mesh"):
        Stepper(pipe, torch.optim.SGD(pipe.parameters()), 1.0)
    inputs, targets = batch(6)
    for match, arguments in (
        ("inputs has 2 rows for 3 microbatches: give each at least one, or take at most 2", (inputs[:2], targets[:2])),
        ("batch has tensors with 5 and 6 rows", ((inputs, inputs[:5]), targets)),
        ("batch is NoneType: give a tensor with rows", (None, targets)),
    ):
        with pytest.raises(ValueError, match=match):
            pipe.step(*arguments)
    if dist.get_rank() == 1:
        for match, targets_ in (
            ("targets=None on the rank of the last stage", None),
            ("targets has 5 rows and inputs 6", targets[:5]),
            ("targets: none of them counts", torch.full_like(targets, -100)),
        ):
            with pytest.raises(ValueError, match=match):
                pipe.step(inputs, targets_)
    return pipe.mean_loss(pipe.step(inputs, targets)).item()


def _only_first(linear):
    return {"w": linear.weight} if dist.get_rank() == 0 else {}


def test_bad_arguments_are_refused_before_anything_is_sent(ranks):
    first, second = ranks(2, refused)
    assert first == second


def test_more_stages_than_layers_are_refused():
    with pytest.raises(ValueError, match=r"3 layers for 4 stages .*: each needs at least one; use fewer ranks"):
        balanced(3, 4)
    with pytest.raises(ValueError, match="clip='never': give one of sync, postvalidate"):
        Stepper(None, None, 1.0, "never")


def changing():
    """A stage whose output changes with more than the batch's shape."""
    torch.manual_seed(0)
    stage = nn.Linear(3, 3)
    pipe = Pipeline(stage, "1f1b", 2, lambda y, t: (y - t).square().sum(), timeout=60)
    x = torch.randn(4, 3)
    pipe.step(x, x)
    stage.requires_grad_(False)
    with pytest.raises((ValueError, CollectiveError)) as caught:
        pipe.step(x, x)
    return str(caught.value)


def test_a_stage_that_is_frozen_meanwhile_says_what_to_do():
    first, second = run(changing, 2, timeout=80)
    assert first.startswith("stage 0 gave 2×3 float32 without gradient for microbatch 0, and 2×3 float32 in an earlier")
    assert first.endswith("or make a new Pipeline after freezing parameters")
    assert "rank 0" in second
