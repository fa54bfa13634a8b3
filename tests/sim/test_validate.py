"""Predictions beside published rows: which preset a row means, errors, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.__main__ import DOOR
from sim.validation import compare, lines, machine_for, measuring, read_published, summary

HEADER = "system,gpu,nodes,ranks,collective,size_bytes,time_us,busbw_GBps,algorithm,placement,note\n"
# Published: https://github.com/stas00/ml-engineering/blob/master/network/README.md, and nccl-tests' logs.
ROWS = """8x H200 NVLink4 node,H200,1,8,all_reduce,17179869184,81875.7,367.2,Ring,?,nccl-tests -g 8
8x H200 NVLink4 node,H200,1,8,all_gather,17179869184,41594.9,361.4,Ring,?,nccl-tests -g 8
8x H100 HGX,H100-80GB-HBM3,1,8,all_reduce,1073741824,4027.3,466.57,NCCL default (NVLS),out-of-place,
2x DGX Spark,GB10,2,2,all_reduce,8192,35.15,0.23,NCCL default,out-of-place,
8x B200,B200,1,8,all_reduce,1024,6348.8,0.01,NCCL default,in-place,torch; time derived
"""


def row(words: str, gpu: str = "A100", nodes: int = 1, ranks: int = 8, note: str = ""):  # type: ignore[no-untyped-def]
    return read_published(HEADER + f"{words},{gpu},{nodes},{ranks},all_reduce,1024,10,1,NCCL default,,{note}\n")[0]


@pytest.mark.parametrize(
    ("words", "gpu", "nodes", "ranks", "name", "facts"),
    [
        ("8x A100 node", "A100-SXM4-40GB", 1, 8, "dgx-a100", {"nvlink": 235e9}),
        ("2x AWS p4d (EFA)", "A100-SXM4-40GB", 2, 16, "p4d", {"nics": 4}),
        ("2x p5 EFA 8x200G", "H100", 2, 16, "p5", {"nics": 8, "nic": 23.5e9}),
        ("2x Azure (8x NDR400)", "H100-80GB-HBM3", 2, 16, "dgx-h100", {"nic": 47e9}),
        ("2x AWS p3dn (EFA)", "V100-SXM2-32GB", 2, 16, "dgx-1v", {"nics": 1}),
        ("DGX-2", "V100", 1, 16, "dgx-2", {}),
        ("2 trays MNNVL", "GB200", 2, 8, "gb200-nvl72", {}),
        ("2 GPUs NV4 bridge", "A6000", 1, 2, "NVLink bridge", {"links": {(0, 1): 4}}),
        ("2x H100 PCIe with NVLink bridge", "H100-PCIe", 1, 2, "NVLink bridge", {"links": {(0, 1): 12}}),
        ("4x A100 PCIe", "A100-PCIe", 1, 4, "pcie-4,local=4", {"node": "pcie"}),
        ("4 of DGX A100 with P2P disabled", "A100-80GB", 1, 4, "host memory", {"pcie": 5.2e9}),
    ],
)
def test_words_mean_machines(words: str, gpu: str, nodes: int, ranks: int, name: str, facts: dict[str, object]) -> None:
    machine = machine_for(row(words, gpu, nodes, ranks))
    assert machine is not None
    assert machine.name == name
    assert {key: machine.parameters[key] for key in facts} == facts


@pytest.mark.parametrize("gpu", ["GB10", "GH200", "unstated", "1 GPU per node", "RTX5090"])
def test_unknown_gpus_have_no_preset(gpu: str) -> None:
    assert machine_for(row("2 nodes", gpu, 2, 2)) is None


def test_default_is_no_efa() -> None:
    assert machine_for(row("2x Azure", nodes=2, ranks=16)).name == "dgx-a100"  # type: ignore[union-attr]


def test_how_it_was_measured_adds_to_each_call() -> None:
    assert measuring(row("x", note="nccl-tests -g 8")) == pytest.approx(20e-6)
    assert measuring(row("x", note="torch all_reduce_bench.py")) == pytest.approx(25e-6)
    assert measuring(row("x")) == 0


def test_errors_and_what_is_left_out() -> None:
    compared, without = compare(read_published(HEADER + ROWS))
    assert [c.row.line for c in compared] == [2, 3, 4]
    assert [reason for _, reason in without] == ["no preset", "time derived from a rounded bandwidth"]
    assert all(abs(c.error) < 0.03 for c in compared)
    assert [c.way for c in compared] == ["ring/Simple", "ring/Simple", "nvls/Simple"]
    found = summary(compared)
    assert found is not None
    assert found.n == 3
    assert found.median <= found.p90 < 0.03
    assert summary([]) is None


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + ROWS)
    assert DOOR.main(["validate", "collectives", str(path), "--rows", "--json", str(tmp_path / "out.json")]) == 0
    said = capsys.readouterr().out
    for words in ("known ring, large", "8x H100 HGX, large", "no preset: 2x DGX Spark", "81875.7 us"):
        assert words in said
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["errors"]["known ring"]["large"]["n"] == 2
    assert len(content["rows"]), len(content["without"]) == (3, 2)
    assert DOOR.main(["validate", "collectives", str(path), "--machine", "dgx-a100", "--json"]) == 0
    assert {r["machine"] for r in json.loads(capsys.readouterr().out)["rows"]} == {"dgx-a100"}


def test_a_bare_table_is_enough() -> None:
    rows = read_published("gpu,ranks,size_bytes,time_us,busbw_GBps\nV100,4,1073741824,18869.0,85.36\n")
    compared, without = compare(rows)
    assert not without
    assert abs(compared[0].error) < 0.05


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu,ranks\nA100,8\n", "line 1: the columns size_bytes, time_us are missing"),
        ("", "line 1: the columns"),
        (HEADER, "no rows"),
        (HEADER + "x,A100,1,8,all_reduce,many,1,1,,,\n", "line 2: size_bytes 'many'"),
        (HEADER + "x,A100,1,8,all_reduce,8,0,1,,,\n", "line 2: 8 ranks on 1 nodes in 0.0 us"),
        (HEADER + "x,A100,3,8,all_reduce,8,1,1,,,\n", "as many ranks on every node"),
        (HEADER + "x,A100,1,8,all_redcue,8,1,1,,,\n", "line 2: collective 'all_redcue'"),
    ],
)
def test_bad_tables(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert DOOR.main(["validate", "collectives", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_bad_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + ROWS)
    assert DOOR.main(["validate", "collectives", str(path), "--machine", "laptop"]) == 2
    assert "laptop has no protocols" in capsys.readouterr().err
    assert DOOR.main(["validate", "collectives", str(tmp_path / "none.csv")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_line_through_the_times_of_a_system():
    # all_reduce of 4 ranks: 30 us and 200 GB/s of the bus, on which 1.5 bytes travel for each of the call
    sizes = [1 << power for power in range(20, 30)]
    rows = [f"A100,4,{size},{30 + 1.5 * size / 200e3},{1.5 * size / (30 + 1.5 * size / 200e3) / 1e3}" for size in sizes]
    text = "gpu,ranks,size_bytes,time_us,busbw_GBps\n" + "\n".join(rows) + "\nV100,4,1048576,60,26\n"
    compared, _ = compare(read_published(text), None)
    (found,) = lines(compared)  # one size makes no line
    assert (found.n, found.alpha_us, found.beta) == (10, pytest.approx(30), pytest.approx(200))
    assert found.mape < 1e-6
    assert found.busbw == pytest.approx(1.5 * sizes[-1] / (30 + 1.5 * sizes[-1] / 200e3) / 1e3)
    assert found.predicted_busbw == pytest.approx(found.busbw / (1 + compared[9].error))
