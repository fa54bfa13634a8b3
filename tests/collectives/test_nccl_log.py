"""nccl-tests' output, as people keep it: rows exact, what is missing found out or said."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.readers.measured_run import Row, Timing
from collectives.readers.nccl_log import read_nccl_tests, read_runs

FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda n: 1.0, "reduce": lambda n: 1.0}
GROUP = "     time   algbw   busbw #wrong"
TITLE = f"#       size         count      type   redop    root{GROUP}{GROUP}"
UNITS = "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"


def seven(value):
    """As nccl-tests print a time: seven wide, with as many digits as there is room for."""
    return f"{value:7.2f}" if value < 1e4 else f"{value:7.1f}" if value < 1e5 else f"{value:7.0f}"


def table(collective="all_reduce", ranks=8, sizes=(1024, 1 << 20, 1 << 26), wrong="0", columns="redop root"):
    """The rows and the average of a made-up run: 10 us and 100 GB/s out of place, 8 us and 125 GB/s in place."""
    blocks = collective not in FACTORS
    factor = FACTORS.get(collective, lambda n: (n - 1) / n)(ranks)
    redop = "sum" if "reduce" in collective else "none"
    root = 0 if collective in ("broadcast", "reduce", "gather", "scatter") else -1
    rows, buses = [], []
    for size in sizes:
        count = size // 4 // (ranks if blocks else 1)
        line = f"{size:12}  {count:12}  {'float':>8}"
        line += f"  {redop:>6}" * ("redop" in columns) + f"  {root:6}" * ("root" in columns)
        for time in (10 + size / 1e5, 8 + size / 1.25e5):
            time = float(seven(time))
            algbw = size / time / 1e3
            buses.append(round(algbw * factor, 2))
            line += f"  {seven(time)}  {algbw:6.2f}  {algbw * factor:6.2f}  {wrong:>6}"
        rows.append(line)
    return rows, sum(buses) / len(buses)


def devices(ranks, host=lambda rank: f"node-{'ab'[rank // 8]}", local=8):
    return [
        f"#  Rank {rank:2} Group  0 Pid {1000 + rank:6} on {host(rank):>10} device {rank % local:2} "
        f"[{rank % local:#04x}] NVIDIA H100 80GB HBM3"
        for rank in range(ranks)
    ]


def log(collective="all_reduce", ranks=8, test=True, header=True, **options):
    """A whole log."""
    rows, average = table(collective, ranks, **options)
    named = collective.replace("all_to_all", "alltoall")
    lines = [f"# Collective test starting: {named}_perf"] if test else []
    lines = ["# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807", *lines, "# Using devices"]
    lines += [*devices(ranks), "#", TITLE, UNITS] if header else []
    lines += [*rows, "# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {average:g} ", "#"]
    return "\n".join(lines) + "\n"


def one(text, *args, **kwargs):
    (run,) = read_nccl_tests(text, *args, **kwargs)
    return run


@pytest.mark.parametrize(
    "collective",
    ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter"],
)
def test_a_whole_log(collective):
    run = one(log(collective))
    assert (run.collective, run.ranks, run.algorithm) == (collective, 8, None)
    assert (run.hosts, run.ranks_per_host) == ({"node-a": 8}, 8)
    assert (run.gpu, run.nccl_version) == ("NVIDIA H100 80GB HBM3", "2.28.7")
    assert [row.size for row in run.rows] == [1024, 1 << 20, 1 << 26]
    assert (run.notes, run.doubts) == ((), ())


def test_the_numbers_of_a_row():
    line = "     1048576        262144     float     sum      -1"
    line += "    28.56   36.71   64.24      0    28.37   36.96   64.68    N/A"
    row = one(f"{TITLE}\n{line}").rows[0]
    assert row == Row(
        1048576, 262144, "float", "sum", None, Timing(28.56, 36.71, 64.24, 0), Timing(28.37, 36.96, 64.68, None)
    )
    assert row.timings == (row.out_of_place, row.in_place)


@pytest.mark.parametrize(
    "keep",
    [
        lambda text: re.sub("^", "[1,0]<stdout>:", text, flags=re.M),
        lambda text: re.sub("^", "0: ", text, flags=re.M) + "1: something\n",
        lambda text: re.sub("^", "[0] ", text, flags=re.M),
        lambda text: re.sub("^", "2026-01-02T03:04:05.678Z ", text, flags=re.M),
        lambda text: re.sub("^", "> ", text, flags=re.M),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: re.sub(" {2,}", " ", text),
        lambda text: re.sub(" {2,}", "\t", text),
        lambda text: re.sub("^# ?", "", text, flags=re.M),
        lambda text: f"\ufeff$ mpirun -n 8 x\n```\n\x1b[1m{text}\x1b[0m```\n",
        lambda text: text.replace(
            "\n  ", "\nnode-a:41:41 [0] NCCL INFO 12 34 float\nnode-a:41:99 [3] x.cc:1 NCCL WARN y\n  "
        ),
        lambda text: text.replace(
            "     -1  ", "     -1node-a:41:41 [0] NCCL INFO Connected\nnode-a:4:2 NCCL INFO z\n", 1
        ),
        lambda text: re.sub(r"^(.*sum.{45})", r"\1\nnode-a:41:41 [0] NCCL INFO x\n", text, count=1, flags=re.M),
    ],
)
def test_however_it_is_kept(keep):
    run, whole = one(keep(log())), one(log())
    assert run == whole


@pytest.mark.parametrize(
    ("collective", "columns", "wrong"),
    [
        ("all_reduce", "redop", "2e-07"),
        ("reduce_scatter", "redop", "N/A"),
        ("broadcast", "root", "N/A"),
        ("reduce", "redop root", "0e+00"),
    ],
)
def test_old_columns_tell_the_collective(collective, columns, wrong):
    rows, average = table(collective, 8, sizes=(0, 0, 32, 1 << 24), wrong=wrong, columns=columns)
    title = re.sub("#wrong", " error", TITLE)
    for column in {"redop", "root"} - set(columns.split()):
        title = title.replace(column, "")
    run = one("\n".join([*devices(8), title, *rows, f"# Avg bus bandwidth    : {average:g}"]))
    assert (run.collective, run.ranks, run.doubts) == (collective, 8, ())
    assert run.notes == (f"{collective}, by the columns and numbers of the rows",)
    assert [row.size for row in run.rows] == [0, 0, 32, 1 << 24]
    assert {timing.wrong for row in run.rows for timing in row.timings} == {None}


def test_what_leaves_a_choice():
    rows, _ = table("all_gather", 4, wrong="N/A", columns="")
    text = "\n".join(rows)
    run = one(text)
    assert (run.collective, run.ranks) == (None, None)
    assert "the rows may be all_gather or all_to_all; name the collective" in run.doubts
    assert "no header line above the rows from line 1 on; the usual columns are taken" in run.doubts
    for named in (
        one(text, name="alltoall_4.log"),
        one("./build/alltoall_perf -g 4\n" + text),
        one(text, "x", "all_to_all"),
    ):
        assert (named.collective, named.ranks) == ("all_to_all", 4)
        assert "ranks: 4, by size / count of the rows" in named.notes
    old = one(f"{TITLE.replace('root', '').replace('#wrong', 'error')}\n{text}")  # an empty redop column
    assert old.collective == "all_to_all"
    out_only = re.sub("N/A", "0", rows[0], count=1)  # an in-place all_to_all is not checked
    assert one(out_only).collective == "all_to_all"
    with pytest.raises(ValueError, match="collective 'all_sum' is unknown: use one of all_reduce"):
        read_nccl_tests(text, collective="all_sum")


def test_all_reduce_of_two_or_sendrecv():
    rows, _ = table("all_reduce", 2, wrong="N/A")
    text = "\n".join([TITLE, *rows])
    assert one(text).collective is None
    assert one("\n".join([*devices(2), text])).collective is None
    assert one("\n".join([*devices(8), text])).collective == "sendrecv"
    assert one(text.replace("N/A", "0")).collective == "all_reduce"


@pytest.mark.parametrize("ranks", [2, 3, 8, 16, 72])
def test_ranks_from_the_ratio(ranks):
    run = one(log(ranks=ranks, header=False))
    assert run.ranks == ranks
    assert f"ranks: {ranks}, by busbw / algbw of the rows" in run.notes


def test_ranks_that_the_ratio_leaves_open():
    run = one(log(ranks=2000, header=False))
    assert run.ranks is None
    assert re.search(r"\d+ to \d+ ranks fit busbw / algbw of the rows", " ".join(run.notes))


def test_device_lines():
    hosts = one(log(ranks=16))
    assert (hosts.hosts, hosts.ranks_per_host) == ({"node-a": 8, "node-b": 8}, 8)
    lines = log(ranks=16).split("\n")
    cut = one("\n".join(line for line in lines if "Rank" not in line or "Rank 15" in line))
    assert (cut.ranks, cut.hosts, cut.doubts) == (16, {}, ())
    assert "the device lines of rank 0 to rank 14 are missing" in " ".join(cut.notes)
    few = one("\n".join(line for line in lines if "on     node-b" not in line))
    assert few.ranks == 16
    assert "ranks that the device lines name: 8, but busbw / algbw of the rows fits 16" in few.doubts
    same = one(re.sub("node-b", "node-a", log(ranks=16)))
    assert (same.ranks, same.hosts) == (16, {})
    assert "2 ranks are on device 0 of node-a: they share it, or two hosts go by one name" in same.doubts


def test_every_rank_printed_as_0():
    rows, _ = table(ranks=1)
    apart = [re.sub("Rank  [0-9]", "Rank  0", line) for line in devices(4)]
    run = one("\n".join([*apart, TITLE, *rows]))
    assert run.ranks == 1
    assert "all 4 device lines are of rank 0" in run.doubts
    assert any("built without MPI" in doubt for doubt in run.doubts)


def test_several_runs_in_a_file():
    first, second, third = read_nccl_tests(log("all_gather") + "noise\n" + log("all_reduce", 4) + log("broadcast", 2))
    assert (first.collective, second.collective, third.collective) == ("all_gather", "all_reduce", "broadcast")
    assert (first.ranks, second.ranks, third.ranks) == (8, 4, 2)
    assert first.doubts == second.doubts == third.doubts == ()
    labelled = "".join(f"{label}: {line}\n" for line in log().split("\n") for label in "01")
    assert read_nccl_tests(labelled) == [one(log())] * 2


def test_columns_of_other_versions():
    line = "  1048576  262144  float  sum  -1  {0}  36.71  64.24  0{1}  28.37  36.96  64.68  0{1}{2}"
    title = "# size count type redop root time algbw busbw #wrong{0} time algbw busbw #wrong{0}{1}"
    per = one(f"{title.format(' i_min i_max i_p99 i_cv%', '')}\n{line.format(28.56, ' 20.0 40.0 39.5 3.1', '')}")
    at = one(f"{title.format('', ' timestamp')}\n{line.format(28.56, '', '  2026-01-02 03:04:05')}")
    assert per.rows == at.rows == one(f"{TITLE}\n{line.format(28.56, '', '')}").rows
    cpu = one(f"{TITLE.replace('time', 'cputime')}\n{line.format(3.21, '', '')}")
    assert "the times are CPU times (-C), not those of the operations" in cpu.doubts
    only = "     1048576        262144     float     sum      -1"
    times = "    28.37   36.96   64.68      0"
    replay = one(f"{TITLE}\n{only}{' ' * 32}{times}").rows[0]
    assert (replay.out_of_place, replay.in_place) == (None, Timing(28.37, 36.96, 64.68, 0))
    alone = one(f"{TITLE}\n{only}{times}").rows[0]
    assert (alone.out_of_place, alone.in_place) == (Timing(28.37, 36.96, 64.68, 0), None)


@pytest.mark.parametrize(
    ("old", "new", "doubt"),
    [
        ("   51.18", "   60.94", "line 16: out-of-place algbw is 60.94 GB/s, but 1048576 bytes in 20.49 us are 51.18"),
        ("   89.56", "   80.00", "line 16: out-of-place busbw is 80 GB/s, but all_reduce of 8 ranks has 89.56 GB/s"),
        ("bandwidth    : ", "bandwidth    : 1", "is 198.315 GB/s, the mean of the rows 98.315; rows may be missing"),
        ("      262144 ", "      131072 ", "line 16: 131072 elements do not make 1048576 bytes as in the other rows"),
        ("values : 0 OK", "values : 7 FAILED", "wrong elements in the results: 7"),
        ("all_reduce_perf", "broadcast_perf", "the test is named broadcast, but its rows look like all_reduce"),
        (TITLE, "", "no header line above the rows from line 15 on; the usual columns are taken"),
    ],
)
def test_what_does_not_fit(old, new, doubt):
    text = log()
    assert old in text
    run = one(text.replace(old, new, 1))
    assert any(doubt in said for said in run.doubts), run.doubts


@pytest.mark.parametrize(
    ("cut", "rows", "doubt"),
    [
        (8, 3, "line 17: the row of 67108864 bytes is cut: its in-place numbers are left out"),
        (60, 2, "line 17: a row of 67108864 bytes that cannot be read"),
    ],
)
def test_a_last_line_that_is_cut(cut, rows, doubt):
    text = log()
    text = text[: text.index("# Out of bounds") - 1 - cut]
    run = one(text)
    assert len(run.rows) == rows
    assert any(said.startswith(doubt) for said in run.doubts)
    assert any("no average" in note for note in run.notes)
    assert (run.rows[-1].in_place is None) == (rows == 3)


def test_lines_that_only_look_like_rows():
    run = one(log().replace("# Out of", "  1024  256  float  and other words\n# Out of"))
    assert run.doubts == ("line 18: a row of 1024 bytes that cannot be read: 0 numbers and 'other' follows",)
    assert len(run.rows) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "log: 1 lines without a row of an nccl-tests table"),
        ("a\nb\n", "give the whole output of a test such as all_reduce_perf"),
        (f"\n{TITLE}\n", "log: line 2: no row follows this header"),
        (f"{TITLE}   ratio   null  algorithm", "line 1: this is the table of bench; give the file that --json writes"),
    ],
)
def test_no_log(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_nccl_tests(text)


def test_read_runs_of_a_file(tmp_path):
    (tmp_path / "all_gather.log").write_text(log("all_gather", test=False, wrong="N/A"))
    (run,) = read_runs(tmp_path / "all_gather.log")
    assert (run.collective, run.ranks) == ("all_gather", 8)
    assert "the rows may be all_gather or all_to_all; what stands around them says all_gather" in run.notes
    (tmp_path / "wide.log").write_text(log(), encoding="utf-16")  # as PowerShell's > writes it
    assert read_runs(str(tmp_path / "wide.log")) == [one(log())] == read_runs(log())


JUNK = st.one_of(
    st.text(max_size=12), st.sampled_from(["\n", "  8  2  float", "9" * 40, "1e999", "N/A", "-1", "#", "0: "])
)
DAMAGES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 60), JUNK), min_size=1, max_size=4)
WHOLE = [log(), log("all_gather", 2, test=False)]


@settings(max_examples=400)
@given(st.sampled_from(WHOLE), DAMAGES)
def test_damaged_text_is_refused_or_read(text, damages):
    for at, length, junk in damages:
        start = at % (len(text) + 1)
        text = text[:start] + junk + text[start + length :]
    try:
        runs = read_runs(text + "\n")
    except ValueError:
        return
    assert runs
    assert all(run.rows and all(row.timings for row in run.rows) for run in runs)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind(data):
    with pytest.raises(ValueError, match="without a row of an nccl-tests table"):
        read_nccl_tests(data.decode("latin-1"))
