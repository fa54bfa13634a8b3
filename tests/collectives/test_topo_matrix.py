"""nvidia-smi topo -m, as people paste it: what is sure is read, what is not is left out and said."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.readers.pasted import listed
from collectives.readers.topo_matrix import TopoMatrix, read_topo

LEGEND = "\n".join(
    ["", "Legend:", "", "  X    = Self"]
    + [f"  {path:<4} = Connection …" for path in ("SYS", "NODE", "PHB", "PXB", "PIX", "NV#")]
)

# Two sockets; GPUs in pairs by 4 links, a NIC for each pair.
FOUR = """
        GPU0    GPU1    GPU2    GPU3    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV4     NODE    SYS     PIX     SYS     0-7,16-23       0               N/A
GPU1    NV4      X      NODE    SYS     PXB     SYS     0-7,16-23       0               N/A
GPU2    NODE    NODE     X      NV18    SYS     PHB     8-15,24-31      1               N/A
GPU3    SYS     SYS     NV18     X      SYS     PIX     8-15,24-31      1               N/A
NIC0    PIX     PXB     SYS     SYS      X      SYS
NIC1    SYS     SYS     PHB     PIX     SYS      X
"""
FOUR_LEGEND = FOUR + LEGEND + "\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n"


def changed(number: int, old: str, new: str) -> str:
    """The four GPUs with something else in one line; lines count from 1, the first is empty."""
    lines = FOUR_LEGEND.split("\n")
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    return "\n".join(lines)


def test_a_whole_matrix():
    topo = read_topo(FOUR_LEGEND)
    assert topo.gpus == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert topo.nics == ("mlx5_0", "mlx5_bond_0")
    assert len(topo.cells) == 6 * 5
    assert topo.cells["GPU0", "GPU1"] == topo.cells["GPU1", "GPU0"] == "NV4"
    assert topo.cells["mlx5_bond_0", "GPU2"] == "PHB"
    assert topo.cpu_affinity["GPU2"] == "8-15,24-31"
    assert topo.numa == {"GPU0": "0", "GPU1": "0", "GPU2": "1", "GPU3": "1"}
    assert topo.notes == topo.doubts == ()
    assert (topo.links("GPU3", "GPU2"), topo.links("GPU0", "GPU2")) == (18, 0)
    with pytest.raises(ValueError, match="'GPU9' is not in the matrix: use one of GPU0 to GPU3"):
        topo.links("GPU0", "GPU9")


@pytest.mark.parametrize(
    "paste",
    [
        lambda text: re.sub(" {2,}", "\t", text),
        lambda text: re.sub(" {2,}", "\t \t", text),
        lambda text: re.sub(" {2,}", "  ", text),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\n    "),
        lambda text: text.replace("\n", "\n> "),
        lambda text: text.replace("\n", "\n0: "),
        lambda text: text.replace("\n", "\n[1,0]<stdout>:"),
        lambda text: text.replace("GPU0    GPU1", "\x1b[4mGPU0    GPU1", 1).replace("NUMA ID", "NUMA ID\x1b[0m"),
        lambda text: text.replace("GPU0    GPU1", "[4mGPU0    GPU1", 1).replace("NUMA ID", "NUMA ID[0m"),
        lambda text: "user@node:~$ nvidia-smi topo -m\nGPU0 is fine\n```\n" + text + "\n```\n",
        lambda text: "\ufeff" + text.replace("GPU2    NODE", "INFO: something else\nGPU2    NODE"),
        lambda text: text.replace("GPU NUMA ID", "").replace("N/A", ""),
        lambda text: text + "\n" + FOUR,  # what comes after the legend is not read
    ],
)
def test_however_it_is_pasted(paste):
    topo, whole = read_topo(paste(FOUR_LEGEND)), read_topo(FOUR_LEGEND)
    assert topo.cells == whole.cells
    assert (topo.cpu_affinity, topo.numa) == (whole.cpu_affinity, whole.numa)
    assert (topo.notes, topo.doubts) == ((), ())


def test_one_gpu():
    topo = read_topo("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-19\t\tN/A\n" + LEGEND)
    assert (topo.gpus, topo.nics, topo.cells) == (("GPU0",), (), {})
    assert (topo.cpu_affinity, topo.numa, topo.doubts) == ({"GPU0": "0-19"}, {"GPU0": None}, ())


def test_nics_named_in_the_header_in_any_order_and_no_legend():
    topo = read_topo("GPU0 mlx5_2 mlx5_0 CPU Affinity\nGPU0 X PIX PHB 0,2-3,9\nmlx5_2 PIX X SYS\nmlx5_0 PHB SYS X")
    assert topo.nics == ("mlx5_2", "mlx5_0")
    assert topo.cells["GPU0", "mlx5_0"] == "PHB"
    assert topo.cpu_affinity == {"GPU0": "0,2-3,9"}
    assert (len(topo.notes), topo.doubts) == (1, ())
    assert "line 1: the matrix has no legend" in topo.notes[0]


@pytest.mark.parametrize(
    ("tail", "cpu", "numa", "doubts"),
    [
        ("0-3 1 N/A", "0-3", "1", 0),
        ("0,2-3 0-1 2", "0,2-3", "0-1", 0),
        ("0, 2-3 1 N/A", "0,2-3", "1", 0),
        ("N/A N/A N/A", None, None, 0),
        ("", None, None, 0),
        ("0-3", "0-3", None, 0),
        ("0-3 N/A", "0-3", None, 0),
        ("0-3 1", "0-3", None, 1),  # NUMA, or GPU NUMA ID?
        ("1 N/A", None, None, 1),
    ],
)
def test_affinity_columns_may_be_blank(tail, cpu, numa, doubts):
    header = "GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID"
    topo = read_topo(f"{header}\nGPU0 X PIX {tail}\nGPU1 PIX X 4-7 0 N/A\n{LEGEND}")
    assert (topo.cpu_affinity["GPU0"], topo.numa["GPU0"], len(topo.doubts)) == (cpu, numa, doubts)
    assert topo.links("GPU0", "GPU1") == 0


GLUED = [
    (3, "PIX     SYS", "PIXSYS"),
    (7, "SYS      X", "SYSX"),
    (4, "GPU1    NV4", "GPU1NV4"),
    (3, "X      NV4", "XNV4"),
]


@pytest.mark.parametrize(("number", "old", "new"), GLUED)
def test_glued_cells_are_split(number, old, new):
    topo = read_topo(changed(number, old, new))
    assert topo.cells == read_topo(FOUR_LEGEND).cells
    assert topo.doubts == () if new.startswith("GPU") else new in topo.doubts[0] and f"line {number}" in topo.doubts[0]


def test_many_glued_cells_are_one_doubt():
    names = [f"GPU{i}" for i in range(9)]
    rows = [f"{name} " + "".join("X" if i == at else "NODE" for i in range(9)) for at, name in enumerate(names)]
    topo = read_topo("\n".join([" ".join(names), *rows]))
    assert len(topo.cells) == 72
    assert len(topo.doubts) == 1
    assert topo.doubts[0].endswith("; and 3 more")


def test_rows_that_were_cut_away():
    topo = read_topo("\n".join(FOUR.split("\n")[:4]))
    assert topo.links("GPU1", "GPU3") == 0
    assert topo.links("GPU2", "GPU3") is None
    assert len(topo.cells) == 2 * (15 - 6)
    assert topo.doubts == (
        "the rows of GPU2, GPU3, NIC0 and NIC1 are missing: pairs with the others are read from the others' rows "
        "alone; the 6 among them are unknown",
    )


def test_a_row_that_was_cut():
    topo = read_topo(FOUR[: FOUR.index("NV18     X") + 2])  # NV of NV18
    assert "line 6: GPU3 ends after 3 of 6 cells; GPU3, NIC0 and NIC1 are missing" in topo.doubts
    assert topo.links("GPU2", "GPU3") == 18  # of the row of GPU2
    two = read_topo("GPU0 GPU1 GPU2\nGPU0 X NV12 NV1")  # is it NV1, or the beginning of NV12?
    assert two.cells == {("GPU0", "GPU1"): "NV12", ("GPU1", "GPU0"): "NV12"}
    assert "ends in NV1, which may be cut" in two.doubts[0]


@pytest.mark.parametrize(
    ("number", "old", "new", "doubt", "lost"),
    [
        (3, "NV4 ", "NV2 ", "line 3 says NV2 between GPU0 and GPU1, line 4 says NV4; left out", 1),
        (5, "NV18", "NV??", "line 5: GPU2: the cell under GPU3 cannot be read; left out", 0),
        (4, "NODE    SYS     PXB", "NODE    SYS     ", "line 4: GPU1 has 5 cells and X in column 2 under 6 columns", 0),
        (5, "NODE    NODE     X", "NODE     X", "line 5: GPU2 has 5 cells and X in column 2 under 6 columns", 0),
        (3, " X ", " X   X ", "line 3: GPU0 has 7 cells under 6 columns", 0),
        (6, "GPU3", "GPU7", "line 6: cells, but GPU7 is no device of the header; the line is left out", 0),
        (6, "GPU3", "GPU2", "line 6: a second row of GPU2; it is left out", 0),
    ],
)
def test_damage_is_said_with_its_line(number, old, new, doubt, lost):
    topo = read_topo(changed(number, old, new))
    assert any(doubt in said for said in topo.doubts)
    whole = read_topo(FOUR_LEGEND).cells
    assert topo.cells.items() <= whole.items()
    assert len(whole) - len(topo.cells) == 2 * lost


def test_two_damaged_rows_leave_their_pair_unknown():
    topo = read_topo("GPU0 GPU1 GPU2\nGPU0 X PIX SYS SYS\nGPU1 PIX X ?? 0-3\nGPU2 SYS ?? X 0-3")
    assert topo.links("GPU1", "GPU2") is None
    assert topo.links("GPU0", "GPU1") == 0
    assert "unknown pairs of rows that are there: 1, the first GPU1 and GPU2" in topo.doubts


def test_a_wrapped_header_and_another_process():
    wrapped = read_topo("GPU0 GPU1\nNIC0 CPU Affinity\nGPU0 X PIX\nSYS SYS 0-3\nGPU1 PIX X\nSYS SYS 0-3")
    assert wrapped.cells == {("GPU0", "GPU1"): "PIX", ("GPU1", "GPU0"): "PIX"}
    assert "line 2: the header was wrapped, and its other columns are left out" in wrapped.doubts[0]
    assert "line 4: cells, but SYS is no device of the header; the line is left out" in wrapped.doubts
    text = "".join(f"{rank}: {line}\n" for rank in (0, 1) for line in ("GPU0 GPU1", "GPU0 X NV2", "GPU1 NV2 X"))
    assert "line 4: the matrix of another process; only that from line 1 on is read" in read_topo(text).doubts


def test_pcie_only():
    hidden = FOUR.replace("NV4 ", "PIX ").replace("NV18", "NODE")
    with pytest.raises(ValueError, match="line 1: topo -mp shows PCIe paths only and hides NVLink; paste"):
        read_topo("$ nvidia-smi topo -mp" + hidden)
    assert read_topo("$ nvidia-smi topo -mp\n$ nvidia-smi topo -m" + hidden).links("GPU0", "GPU1") == 0
    assert read_topo(hidden + LEGEND).doubts == ()  # a box without NVLink
    unsure = read_topo(hidden + LEGEND.replace("NV#", "…"))
    assert "line 10: the legend has no NV#" in unsure.doubts[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 to 1: no header of a topology matrix"),
        ("nothing\nof the kind", "line 1 to 2: no header"),
        ("GPU0 GPU1 CPU Affinity\n", "line 1: no row with a path"),
        ("\tGPU0\tGPU1\nGPU0\tX\tGNS\nGPU1\tGNS\tX", "line 1: no row with a path such as NV12, PIX or SYS"),  # -p2p
        ("GPU0 X NV2\nGPU1 NV2 X", "line 1: a row, but no header"),
        ("GPU0 GPU1 GPU1\nGPU0 X NV2 NV2", "line 1: the header names GPU1 twice"),
    ],
)
def test_no_matrix(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_topo(text)
    assert "paste all that nvidia-smi topo -m prints" in str(caught.value)


def test_names_that_count_up_are_drawn_together():
    assert listed(["GPU4", "GPU5", "GPU6", "mlx5_0", "mlx5_1", "a"]) == "GPU4 to GPU6, mlx5_0, mlx5_1 and a"
    assert listed([]) == ""


PATHS = st.sampled_from(["SYS", "NODE", "PHB", "PXB", "PIX", "SOC", "NV1", "NV4", "NV12", "NV18"])


@st.composite
def matrices(draw):
    gpus = tuple(f"GPU{i}" for i in range(draw(st.integers(1, 6))))
    nics = tuple(f"mlx5_{i}" for i in draw(st.permutations(range(draw(st.integers(0, 4))))))
    names = gpus + nics
    cells = {}
    for at, a in enumerate(names):
        for b in names[at + 1 :]:
            cells[a, b] = cells[b, a] = draw(PATHS)
    cpus = {gpu: draw(st.sampled_from(["0-3", "0,2-9", None])) for gpu in gpus}
    numa = {gpu: draw(st.sampled_from(["0", "1", "0-1", None])) for gpu in gpus}
    return TopoMatrix(gpus, nics, cells, cpus, numa, (), ())


def rendered(topo: TopoMatrix, between: str = "\t") -> str:
    names = topo.gpus + topo.nics
    lines = [between.join(["", *names, "CPU Affinity", "NUMA Affinity"])]
    for a in names:
        row = [a] + [" X " if a == b else topo.cells[a, b] for b in names]
        if a in topo.gpus:
            row += [topo.cpu_affinity[a] or "N/A", topo.numa[a] or "N/A"]
        lines.append(between.join(row))
    return "\n".join(lines) + "\n" + LEGEND


@given(matrices(), st.sampled_from(["\t", "  ", " ", " \t"]))
def test_what_was_rendered_is_read(topo, between):
    assert read_topo(rendered(topo, between)) == topo


JUNK = st.one_of(
    st.text(max_size=12), st.sampled_from(["X", "NV", "NV12", "PXBNODE", "\x1b[4m", "\t", "\n", "GPU0", "Legend:"])
)


@settings(max_examples=300)
@given(matrices(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 40), JUNK), min_size=1, max_size=4))
def test_damaged_text_is_refused_or_read(topo, damages):
    text = rendered(topo)
    for at, length, junk in damages:
        start = at % (len(text) + 1)
        text = text[:start] + junk + text[start + length :]
    try:
        read = read_topo(text)
    except ValueError:
        return
    assert all(read.cells[b, a] == cell for (a, b), cell in read.cells.items())
    assert {name for pair in read.cells for name in pair} <= set(read.gpus + read.nics)
    assert read.cpu_affinity.keys() == read.numa.keys() == set(read.gpus)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind(data):
    with pytest.raises(ValueError, match="line"):
        read_topo(data.decode("latin-1"))


def test_readers_load_neither_torch_nor_numpy():
    code = (
        "import sys; from collectives.readers import nccl_log, topo_matrix; "
        "print({'torch', 'numpy'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
