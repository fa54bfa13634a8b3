"""The trace of examples/overlap.py: DDP's communication on backend ``ring`` runs under the backward pass."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from collectives.span import Span
from tests.conftest import Ranks

EXAMPLE = Path(__file__).parents[2] / "examples/overlap.py"


def spans() -> list[Span]:
    return runpy.run_path(str(EXAMPLE))["step_of_ddp"]()


def test_a_bucket_is_on_its_way_while_the_backward_pass_goes_on(ring_ranks: Ranks) -> None:
    for rank, found in enumerate(ring_ranks(2, spans)):
        buckets = [span for span in found if span.stream == "all_reduce"]
        layers = [span for span in found if span.name.startswith("backward")]
        assert [layer.name for layer in layers] == [f"backward {number}" for number in reversed(range(8))]
        assert sum(bucket.bytes for bucket in buckets) == 8 * (1024 * 1024 + 1024) * 4
        assert buckets[0].start < layers[-1].start  # the first leaves before the last layer begins
        assert all(one.end <= other.start for one, other in pairwise(buckets))
        assert {span.rank for span in found} == {rank}


def test_the_command_writes_a_trace_of_both_ranks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(EXAMPLE), "trace.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in slices} == {0, 1}
    assert sum(event["name"] == "bucket 0" for event in slices) == 2
    assert "of rank 0's communication" in done.stdout
