"""Benchmark runs from JSON: bench's own and that of nccl-tests, and how read_runs tells them apart."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.readers.measured_run import Row, Timing
from collectives.readers.nccl_log import read_bench_json, read_nccl_json, read_runs

BENCH_ROW = {"collective": "all_gather", "algorithm": "ring", "bytes": 4096, "dtype": "float32", "redop": "sum"}
BENCH_ROW |= {"ranks": 4, "time_us": 10.0, "algbw": 0.4096, "busbw": 0.3072, "wrong": 0}
BENCH_ROW |= {"native_time_us": 8.0, "native_busbw": 0.384}
ENVIRONMENT = {"backend": "nccl", "devices": {"H100": 4}, "hosts": {"a": 2, "b": 2}, "nccl": "2.27.3"}


def bench(*changes):
    return json.dumps({"environment": ENVIRONMENT, "rows": [{**BENCH_ROW, **change} for change in changes]})


def test_bench_json():
    ring, native, bruck, reduced, again = read_bench_json(
        bench({}, {"algorithm": "bruck"}, {"bytes": 8192}, {"collective": "all_reduce", "wrong": 3})
    )
    assert (ring.algorithm, native.algorithm, bruck.algorithm) == ("ring", "native", "bruck")
    assert ring.rows[0] == Row(4096, 256, "float32", None, None, Timing(10.0, 0.4096, 0.3072, 0), None)
    assert native.rows[0].out_of_place == Timing(8.0, 0.512, 0.384, None)
    assert [row.size for row in ring.rows] == [row.size for row in native.rows] == [4096, 8192]
    assert (ring.ranks, ring.hosts, ring.gpu, ring.nccl_version) == (4, {"a": 2, "b": 2}, "H100", "2.27.3")
    assert ring.notes == ("the backend is nccl",)
    assert reduced.rows[0].in_place == Timing(10.0, 0.4096, 0.3072, 3)
    assert reduced.doubts == ("wrong elements in the results: 3",)
    assert (again.collective, again.algorithm) == ("all_reduce", "native")


def nccl_json(**changes):
    result = {"size": 4096, "count": 256, "type": "float", "redop": "none", "root": "    -1"}
    group = {"time": 10.0, "alg_bw": 0.4096, "bus_bw": 0.3072, "nwrong": 0.0}
    devices = [{"rank": 2 * i, "pid": i, "hostname": f"h{i}", "device": 0, "device_info": "GB200"} for i in range(2)]
    data = {
        "version": 2,
        "args": ["/opt/all_gather_perf", "-g", "2"],
        "nccl_version": 22809,
        "config": {"nthreads": 1, "ngpus": 2, "devices": devices},
        "results": [{**result, "out_of_place": group, "in_place": {**group, "nwrong": None}}],
        "average_bus_bandwidth": {"bandwidth": 0.3072, "okay": "unchecked"},
    }
    return json.dumps({**data, **changes})


def test_nccl_tests_json():
    (run,) = read_nccl_json(nccl_json())
    assert (run.collective, run.ranks, run.hosts) == ("all_gather", 4, {"h0": 2, "h1": 2})
    assert (run.gpu, run.nccl_version, run.average_busbw) == ("GB200", "2.28.9", 0.3072)
    expected = Timing(10.0, 0.4096, 0.3072, 0), Timing(10.0, 0.4096, 0.3072, None)
    assert run.rows == (Row(4096, 256, "float", None, None, *expected),)
    assert (run.notes, run.doubts) == ((), ())
    (broken,) = read_nccl_json(nccl_json(results=[*json.loads(nccl_json())["results"], {"size": "nan"}]))
    assert "results[1] cannot be read; it is left out" in broken.doubts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "text: line 1: Expecting property name"),
        ("{}", 'text: neither the JSON of bench ("environment", "rows") nor that of nccl-tests'),
        ('{"environment": {}, "rows": []}', "text: there are no rows"),
        ('{"environment": {}, "rows": 1}', 'text: no "environment" and "rows"; give the file'),
        (bench({"time_us": None}), "text: rows[0]: time_us is None, not a number from 0 on; give the file"),
        (bench({"algorithm": 3}), "text: rows[0]: algorithm is 3, not a name"),
        (bench({"collective": "sum"}), "collective 'sum' is unknown"),
        (nccl_json(results=[{}]), "text: none of its 1 results can be read"),
        ('{"a": ' + "[" * 100_000, "text: no JSON that can be read"),
        ("just\ntext", "text: 2 lines without a row of an nccl-tests table"),
        ("no/such/file", "file 'no/such/file' cannot be read (No such file or directory): name a text file"),
    ],
)
def test_what_read_runs_refuses(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_runs(text)


def test_read_runs_knows_the_kinds(tmp_path):
    for name, text, algorithm in [("a.json", bench({}), "ring"), ("b.json", nccl_json(), None)]:
        (tmp_path / name).write_text(text)
        assert read_runs(tmp_path / name) == read_runs(str(tmp_path / name)) == read_runs(text)
        assert (read_runs(text)[0].collective, read_runs(text)[0].algorithm) == ("all_gather", algorithm)


JUNK = st.one_of(st.text(max_size=12), st.sampled_from(["null", "1e999", "9" * 400, "-1", "[", '"x"', "true", "NaN"]))
DAMAGES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 30), JUNK), min_size=1, max_size=3)


@settings(max_examples=400)
@given(st.sampled_from([bench({}, {"bytes": 8192}), nccl_json()]), DAMAGES)
def test_damaged_json_is_refused_or_read(text, damages):
    for at, length, junk in damages:
        start = at % (len(text) + 1)
        text = text[:start] + junk + text[start + length :]
    try:
        runs = read_runs(text + "\n")
    except ValueError:
        return
    assert runs
    assert all(run.rows and all(row.timings for row in run.rows) for run in runs)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=4,
)


@settings(max_examples=300)
@given(st.data())
def test_values_of_any_type(data):
    text = data.draw(st.sampled_from([bench({}), nccl_json()]))
    parts = [json.loads(text)]
    while isinstance(parts[-1], dict | list) and parts[-1] and (len(parts) < 2 or data.draw(st.booleans())):
        keys = list(parts[-1]) if isinstance(parts[-1], dict) else list(range(len(parts[-1])))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()):
            parts[-1][key] = data.draw(VALUES)
        parts.append(parts[-1][key])
    with contextlib.suppress(ValueError):
        assert read_runs(json.dumps(parts[0]))
