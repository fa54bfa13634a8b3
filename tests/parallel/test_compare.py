"""``python -m parallel compare``: every strategy against one process and against closed forms worked out here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from collectives.span import Span
from parallel import table
from parallel.__main__ import DOOR
from parallel.model import GPT, SIZES
from parallel.overlap import overlap
from parallel.strategies import STRATEGIES
from parallel.table import Row
from tests.parallel.command import ROOT, environment, forked

KEYS = {"strategy", "precision", "loss", "step_s", "bytes_sent", "memory", "expected_bytes_sent", "expected_memory"}
STEPS, LENGTH, SEED = 3, 40, 7
LAYERS, WIDTH, HEADS, VOCABULARY, PLACES = 2, 32, 4, 256, 64  # of the model tiny
BLOCK, REST = 12 * WIDTH**2 + 13 * WIDTH, (VOCABULARY + PLACES) * WIDTH + 2 * WIDTH
X = LAYERS * BLOCK + REST


@pytest.fixture(autouse=True, scope="module")
def _alone() -> Any:
    """No test is a rank of somebody's torchrun."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            patch.delenv(name, raising=False)
        yield


def command(*args: object, launcher: tuple[str, ...] = ()) -> str:
    """With a ``launcher`` in a new Python, else forked."""
    words = ["compare", *map(str, args)]
    if launcher:
        start = [sys.executable, *launcher, "parallel", *words]
        ran = subprocess.run(start, capture_output=True, text=True, timeout=110, env=environment())
        status, out, err = ran.returncode, ran.stdout, ran.stderr
    else:
        status, out, err = forked(words, timeout=110)
    assert status == 0, out + err
    assert "measuring" not in err  # the bar is for terminals
    return out


@pytest.fixture(scope="module", params=[1, 2, 3])
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Any]:
    """The number of ranks, the table, and the JSON file."""
    ranks: int = request.param
    path = tmp_path_factory.mktemp("compare") / "rows.json"
    options = ("--model", "tiny", "--steps", STEPS, "--length", LENGTH, "--seed", SEED, "--json", path)
    printed = command("--ranks", ranks, *options)
    return ranks, printed, json.loads(path.read_text())


def by_name(content: Any) -> dict[str, Any]:
    return {row["strategy"]: row for row in content["rows"]}


def test_every_strategy_is_in_the_table_and_in_the_file(compared: tuple[int, str, Any]) -> None:
    ranks, printed, content = compared
    rows = by_name(content)
    assert list(rows) == [name for name in STRATEGIES if name != "hybrid"]
    assert f"# left out: hybrid needs an even number of ranks from 4 on, and there are {ranks}" in printed
    assert all(set(row) == KEYS for row in rows.values())
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines if not line.startswith(("#", "strategy", " "))] == list(rows)
    assert "\x1b" not in printed
    assert lines[-1].startswith("# loss of the 11 fp32 rows: the same to ")
    assert content["environment"]["parameters"] == X


def loss_of_one_process(batch: int) -> float:
    """The model, and torch's own optimizer and loss, on all rows at once."""
    torch.manual_seed(SEED)
    model = GPT(SIZES["tiny"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
    tokens = torch.randint(VOCABULARY, (batch, LENGTH + 1), generator=torch.Generator().manual_seed(SEED))
    for step in range(STEPS):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        if step < STEPS - 1:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


ROUNDED = {
    "ddp-fp16": "fp16",
    "ddp-bf16": "bf16",
    "ddp-int8": "int8",
    "bf16": "bf16",
    "fp16": "fp16",
    "zero-3-bf16": "bf16",
    "adam-8bit": "int8",
}


def test_the_loss_is_that_of_one_process(compared: tuple[int, str, Any]) -> None:
    """To 1e-5 where nothing is rounded; else near it, below where it began, and not by training in fp32 after all."""
    ranks, _, content = compared
    wanted = loss_of_one_process(2 * ranks)
    for name, row in by_name(content).items():
        assert row["precision"] == ROUNDED.get(name, "fp32")
        assert row["loss"] == pytest.approx(wanted, abs=1e-5 if row["precision"] == "fp32" else 1e-2), name
        assert row["step_s"] > 0
    for name in ("bf16", "fp16", "zero-3-bf16", "adam-8bit"):
        assert by_name(content)[name]["loss"] != by_name(content)["ddp"]["loss"]


def test_bytes_sent_are_those_of_the_closed_form(compared: tuple[int, str, Any]) -> None:
    """Multiples of X (N − 1)/N elements; ZeRO pads each layer to a multiple of N elements."""
    ranks, _, content = compared
    padding, share = 4 * 3 * ranks * (LAYERS + 1), (ranks - 1) / ranks
    tokens = 2 * ranks * LENGTH
    threads = 2 * X * 4 * (ranks - 1) + (8 + 2 * VOCABULARY * 4) * tokens * share
    times = {
        **dict.fromkeys(("ddp", "zero-1", "zero-2", "zero-3-kept", "zero-offload"), 2 * 4),
        **dict.fromkeys(("recompute", "offload-activations", "offload-states", "adam-8bit"), 2 * 4),
        **dict.fromkeys(("ddp-fp16", "ddp-bf16", "bf16", "fp16"), 2 * 2),
        "ddp-int8": 2 * (1 + 4 / 128),
        "zero-3": 3 * 4,
        "zero-3-bf16": 3 * 2,
    }
    for name, row in by_name(content).items():
        wanted = {"single": 0.0, "dp": threads}.get(name, times.get(name, 0) * X * share)
        assert row["expected_bytes_sent"] == pytest.approx(wanted, abs=padding), name
        # int8: a part's last scale may be for fewer than 128 elements; fp16: one byte asks for an overflow
        above = {"ddp-int8": 2 * ranks * 4, "fp16": 2 * ranks}.get(name, 0)
        assert 0 <= row["bytes_sent"] - row["expected_bytes_sent"] <= above, name


def test_bytes_held_are_those_of_the_closed_form(compared: tuple[int, str, Any]) -> None:
    """16X, or 4X + 4X + 8X in fp32; 1/N of what ZeRO cuts; 8-bit states; what rounding took away, kept for the next."""
    ranks, _, content = compared
    lost = X * 4 * (1 + 1 / ranks) if ranks > 1 else 0
    plain = (4 * X, 4 * X, 8 * X)
    in_codes = VOCABULARY * WIDTH + LAYERS * 2 * 4 * WIDTH**2  # the others have fewer than 4,096 elements
    wanted = {
        **dict.fromkeys(STRATEGIES, plain),
        **dict.fromkeys(("ddp-fp16", "ddp-bf16", "ddp-int8"), (4 * X, 4 * X + lost, 8 * X)),
        "zero-1": (4 * X, 4 * X, 8 * X / ranks),
        "zero-2": (4 * X, 4 * X / ranks, 8 * X / ranks),
        "zero-3": (4 * X / ranks, 4 * X / ranks, 8 * X / ranks),
        "zero-3-kept": (4 * X / ranks, 4 * X / ranks, 8 * X / ranks),
        "zero-offload": (4 * X, 4 * X / ranks, 12 * X / ranks),
        "bf16": (2 * X, 2 * X, 12 * X),
        "fp16": (2 * X, 2 * X, 12 * X),
        "zero-3-bf16": (2 * X / ranks, 2 * X / ranks, 12 * X / ranks),
        "offload-states": (4 * X, 4 * X, 0),
        "adam-8bit": (4 * X, 4 * X, 8 * (X - in_codes) + in_codes * (2 + 2 * 4 / 256)),
    }
    padding = 12 * ranks * (LAYERS + 1)
    for name, row in by_name(content).items():
        for kind, nbytes in zip(("parameters", "gradients", "optimizer"), wanted[name], strict=True):
            assert row["expected_memory"][kind] == pytest.approx(nbytes, abs=padding), (name, kind)
            assert row["memory"][kind] == pytest.approx(row["expected_memory"][kind], abs=padding), (name, kind)
            if name not in ("zero-1", "zero-2", "zero-offload"):  # whose whole parameters have the padding, too
                assert row["memory"][kind] == row["expected_memory"][kind], (name, kind)


def test_activations_are_those_of_the_closed_form(compared: tuple[int, str, Any]) -> None:
    """16 h a token and block, two logits; recomputed the inputs and one block. On a slower tier: less than h a token
    and block, and what is on its way."""
    ranks, _, content = compared
    rows = by_name(content)
    tokens, end, small = 2 * LENGTH, 8 * VOCABULARY, 2 * LENGTH + 8 * LENGTH + 16
    block = 4 * (16 * WIDTH + 4 + HEADS)
    ddp = tokens * (LAYERS * block + 4 * (2 * WIDTH + 2) + end) + small
    recomputed = tokens * (LAYERS * 4 * WIDTH + max(block - 4 * WIDTH, 4 * (2 * WIDTH + 2) + end)) + small
    for name in ("ddp", "zero-3", "zero-3-kept", "zero-offload", "adam-8bit"):
        assert rows[name]["memory"]["activations"] == ddp
    assert rows["single"]["memory"]["activations"] == ranks * (ddp - 8 * LENGTH - 16) + 8 * LENGTH + 16
    assert rows["recompute"]["memory"]["activations"] == recomputed
    for name in ("single", "ddp", "recompute", "bf16", "fp16", "zero-3-bf16"):
        found, wanted = (rows[name][key]["activations"] for key in ("memory", "expected_memory"))
        assert found == wanted, name
    away = rows["offload-activations"]
    assert away["memory"]["activations"] <= away["expected_memory"]["activations"] < 0.6 * ddp
    assert rows["dp"]["memory"]["activations"] is rows["dp"]["expected_memory"]["activations"] is None


def test_threads_and_processes_agree_and_exchange_as_the_lesson_says(compared: tuple[int, str, Any]) -> None:
    """One table with both: the same loss; five exchanges through one device, against one share of a sum a rank."""
    ranks, _, content = compared
    rows = by_name(content)
    assert rows["dp"]["loss"] == pytest.approx(rows["ddp"]["loss"], abs=1e-5)
    if ranks > 1:
        assert rows["dp"]["bytes_sent"] > rows["ddp"]["bytes_sent"] > 0


def test_hybrid_sharding_where_ranks_allow(tmp_path: Path) -> None:
    """Two copies over two shards each: 3X/2 inside, 2 · X/2 · 1/2 across; half of the state a rank."""
    path = tmp_path / "rows.json"
    words = ("--model", "tiny", "--ranks", 4, "--strategies", "hybrid,single", "--steps", 2, "--json", path)
    printed = command(*words, launcher=("-m",))
    rows = by_name(json.loads(path.read_text()))
    assert list(rows) == ["hybrid", "single"]
    assert rows["hybrid"]["loss"] == pytest.approx(rows["single"]["loss"], abs=1e-5)
    assert rows["hybrid"]["bytes_sent"] == rows["hybrid"]["expected_bytes_sent"] == 4 * (3 * X / 2 + X / 2)
    assert [rows["hybrid"]["memory"][k] for k in ("parameters", "gradients", "optimizer")] == [2 * X, 2 * X, 4 * X]
    assert "left out" not in printed


def spans(path: Path, category: str) -> list[Any]:
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X" and event["cat"] == category]


@pytest.mark.parametrize(
    ("strategy", "bucket_mb", "within", "messages"),
    [
        ("ddp", 0.05, ("backward", "wait"), 2 * 3),
        ("ddp", 25, ("wait", "wait"), 2),
        ("zero-1", 0.05, ("step", "step"), 2 * (LAYERS + 1)),
    ],
)
def test_a_trace_shows_when_buckets_leave(
    strategy: str, bucket_mb: float, within: tuple[str, str], messages: int, tmp_path: Path
) -> None:
    """Buckets of DDP from the backward pass on; one of all gradients after the last of them; stage 1's in the step."""
    path = tmp_path / "trace.json"
    options = ("--model", "tiny", "--ranks", 2, "--steps", 1, "--bucket-mb", bucket_mb)
    printed = command(*options, "--strategies", strategy, "--trace", path)
    assert "of it under its backward pass" in printed
    assert (", 0% of it under its backward pass" in printed) or within[0] == "backward"
    for rank in range(2):
        parts = {e["name"]: e for e in spans(path, "compute") if e["pid"] == rank}
        assert list(parts) == ["forward", "backward", "wait", "step"]
        sends = [e["ts"] for e in spans(path, "send") if e["pid"] == rank]
        assert len(sends) == messages
        first, last = (parts[name] for name in within)
        assert all(first["ts"] <= send < last["ts"] + last["dur"] for send in sends)


def test_the_share_that_is_hidden() -> None:
    """Seconds 2 to 5 of the backward pass, with gaps and overlaps; another rank and what is no message do not count."""
    spans = [
        Span(0, "compute", "forward", 0, 2),
        Span(0, "compute", "backward", 2, 5),
        Span(0, "send 0", "send to 1", 1, 3, link="0->1"),
        Span(0, "recv 0", "receive from 1", 2.5, 3.5, link="1->0"),
        Span(0, "recv 0", "receive from 1", 4, 7, link="1->0"),
        Span(0, "send 0", "send to 1", 4.5, 6, link="0->1"),
        Span(0, "reduce 0", "reduce", 3, 4),
        Span(1, "compute", "backward", 0, 9),
        Span(1, "recv 0", "receive from 0", 3, 4, link="0->1"),
    ]
    assert overlap(spans) == (2.5 + 3, 1.5 + 1)
    assert overlap(spans, rank=1) == (1, 1)
    assert table.hidden(spans) == "# rank 0 had messages under way for 5500.0 ms, 45% of it under its backward pass"
    assert overlap([]) == (0, 0)


def test_under_torchrun(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
    printed = command(
        "--model", "tiny", "--strategies", "single,ddp,zero-2", "--steps", 2, "--json", path, launcher=launcher
    )
    assert [row["strategy"] for row in json.loads(path.read_text())["rows"]] == ["single", "ddp", "zero-2"]
    assert printed.count("# loss of the 3 fp32 rows") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--ranks 0", "--ranks 0: use at least 1"),
        ("--model huge", "--model huge: there is no such size; use tiny, small, 25m"),
        ("--batch 7 --ranks 3", "--batch 7: 3 ranks cannot share it evenly; use 6 or 9"),
        ("--batch 2 --ranks 3", "--batch 2: 3 ranks cannot share it evenly; use 3"),
        ("--batch 0", "--batch 0: 4 ranks cannot share it evenly; use 4"),
        ("--steps 0", "--steps 0: use at least 1"),
        ("--length 65 --model tiny", "--length 65: the model tiny has places for 1 to 64 tokens"),
        ("--bucket-mb -1", "--bucket-mb -1: use MiB of at least 0"),
        ("--seed -1", "--seed -1: use a number from 0 to"),
        ("--timeout 0", "--timeout 0: use a number of seconds above 0"),
        ("--strategies zero-4", "--strategies zero-4: there is no such strategy; use zero-"),
        ("--strategies ,", "--strategies ',' names none: use all, or some of single, dp, ddp"),
        ("--strategies hybrid --ranks 3", "hybrid needs an even number of ranks from 4 on, and there are 3"),
        ("--strategies ddp,dp --trace t.json", "--trace t.json: it shows one strategy whose ranks are one group"),
        ("--strategies dp --trace t.json", "--trace t.json: it shows one strategy whose ranks are one group"),
        ("--json no/such/rows.json", "--json no/such/rows.json: folder"),
    ],
)
def test_a_wrong_argument_is_one_sentence(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert DOOR.main(["compare", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m parallel compare: error: ")
    assert said in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def row(strategy: str, loss: float, precision: str = "fp32") -> Row:
    return Row(strategy, precision, loss, 0.1, 0, 0, {}, {})


def test_rows_that_differ_are_named() -> None:
    rounded = row("bf16", 9.0, "bf16")
    fine = [row("single", 2.0), rounded, row("ddp", 2.000009)]
    assert table.closing(fine) == ["# loss of the 2 fp32 rows: the same to 9.0e-06 OK"]
    wrong = [*fine, row("zero-3", 2.1)]
    assert table.closing(wrong) == ["# loss of the fp32 rows: single and zero-3 are 1.0e-01 apart FAILED"]
    assert table.spread([row("ddp", float("nan")), row("single", 2.0)]) == float("inf")
    assert table.closing([rounded]) == []


def test_help_is_free_of_torch() -> None:
    code = "import sys; from parallel.__main__ import DOOR; DOOR.build(['compare']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
