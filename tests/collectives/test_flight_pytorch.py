"""What PyTorch's own flight recorder dumps, read and explained: real dumps of gloo, made-up ones of NCCL."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectives import launch
from collectives.__main__ import DOOR
from collectives.flight.explanation import explain
from collectives.flight.pytorch import dumps_in, read_dumps
from collectives.flight.words import Finding

FLOAT = ["Float"]


def entry(name, seq, state="completed", given=((4,),), taken=None, dtype="Float", group=("0", "default_pg"), **more):
    """One operation as NCCL's recorder writes it; ``more`` replaces fields."""
    message = name.startswith(("send", "recv")) or more.pop("message", False)
    created = 1_700_000_000_000_000_000 + seq * 1_000_000_000
    taken = given if taken is None else taken
    return {
        "record_id": seq - 1,
        "pg_id": int(group[0]),
        "process_group": group,
        "collective_seq_id": 0 if message else seq,
        "p2p_seq_id": seq if message else 0,
        "op_id": seq,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": created,
        "input_sizes": [list(size) for size in given],
        "input_dtypes": [dtype] * len(given),
        "output_sizes": [list(size) for size in taken],
        "output_dtypes": [dtype] * len(taken),
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": state == "completed",
        "timeout_ms": 600000,
        "is_p2p": message,
        "frames": [
            {"name": "all_reduce", "filename": "/x/torch/distributed/distributed_c10d.py", "line": 1},
            {"name": "step", "filename": "/home/me/train.py", "line": 40 + seq},
        ],
        **more,
    }


def timed(one, started, completed):
    second = 1_000_000_000
    begin = one["time_created_ns"]
    return {
        **one,
        "time_discovered_started_ns": begin + int(started * second),
        "time_discovered_completed_ns": begin + int(completed * second),
    }


def dump(folder: Path, ranks, form="pickle", groups=None, version="2.10", name="nccl_trace_rank_") -> Path:
    """The files of all ranks; None leaves a rank's out."""
    folder.mkdir(exist_ok=True)
    for rank, entries in enumerate(ranks):
        if entries is None:
            continue
        config = groups[rank] if groups else {"0": ("default_pg", list(range(len(ranks))))}
        said = {
            "version": version,
            "pg_config": {key: {"name": key, "desc": desc, "ranks": str(own)} for key, (desc, own) in config.items()},
            "pg_status": {},
            "comm_lib_version": "2.27.5",
            "entries": entries,
        }
        path = folder / f"{name}{rank}"
        path.write_bytes(pickle.dumps(said, protocol=2) if form == "pickle" else json.dumps(said).encode())
    return folder


def findings(folder: Path) -> list[Finding]:
    return explain(read_dumps(dumps_in(sorted(folder.iterdir()))))


def only(folder: Path) -> Finding:
    found = findings(folder)
    assert len(found) == 1, found
    return found[0]


# Made up, as NCCL's.


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_all_is_well(tmp_path, form, capsys):
    entries = [
        entry("all_reduce", 1),
        entry("_all_gather_base", 2, taken=((8,),)),
        entry("scatter", 3, given=(), dtype="Half"),
        entry("reduce_scatter_tensor_coalesced", 4, given=((8,),), taken=((4,),)),
    ]
    assert findings(dump(tmp_path, [entries, entries], form)) == []
    assert DOOR.main(["explain", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "2 of 2 ranks left a record, of 8 operations in all" in out
    assert "nothing is wrong" in out


def test_records_are_not_of_one_moment(tmp_path):
    """Rank 0's was written when it was in an operation that the others have left since."""
    ahead = [entry("all_reduce", 1), entry("all_reduce", 2, "started")]
    found = only(dump(tmp_path, [[entry("all_reduce", 1, "started"), entry("all_reduce", 2)], ahead, ahead[:1]]))
    assert (found.kind, found.ranks) == ("missing", (2,))
    assert "(number 2)" in found.sentence


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_one_rank_skips_a_call(tmp_path, form, capsys):
    waits = [entry("all_reduce", 1), entry("all_reduce", 2, "scheduled", dtype="BFloat16")]
    dump(tmp_path, [waits, waits[:1], waits], form)
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("missing", (1,))
    assert found.sentence == (
        "rank 1 did not enter all_reduce of 4 bfloat16 (number 2) at train.py:42 so far, in which ranks 0, 2 waited; "
        "its last operation was all_reduce of 4 float32 (number 1) at train.py:41"
    )
    assert DOOR.main(["explain", str(tmp_path)]) == 1
    assert "rank 0: all_reduce of 4 bfloat16 (number 2) at train.py:42, under way" in capsys.readouterr().out


def test_a_timeout_is_a_failure(tmp_path):
    waits = [entry("all_reduce", 1), entry("all_reduce", 2, "started", retired=True)]
    found = only(dump(tmp_path, [waits, waits[:1]]))
    assert (found.kind, found.ranks, found.sentence.id) == ("missing", (1,), "flight.missing")
    found = only(dump(tmp_path, [waits, waits]))
    assert (found.kind, found.ranks, found.sentence.id) == ("failed", (0, 1), "flight.stuck")


@pytest.mark.parametrize(
    ("ours", "theirs", "kind", "words"),
    [
        (entry("all_reduce", 1, "started"), entry("all_reduce", 1, "started", ((5,),)), "shape", ["of 4 ", "of 5 "]),
        (
            entry("all_reduce", 1, "started"),
            entry("all_reduce", 1, "started", dtype="Long"),
            "dtype",
            ["4 float32", "4 int64"],
        ),
        (
            entry("all_reduce", 1, "started"),
            entry("broadcast", 1, "started"),
            "operation",
            ["all_reduce of", "broadcast of", "in another order"],
        ),
        (  # completed, and yet wrong: garbage, and a later operation may hang
            entry("all_reduce", 1),
            entry("all_reduce", 1, given=((5,),)),
            "shape",
            ["of 4 ", "of 5 "],
        ),
        (
            entry("_all_gather_base", 1, "started", taken=((12,),)),
            entry("_all_gather_base", 1, "started", taken=((16,),)),
            "arguments",
            ["4 → 12", "4 → 16"],
        ),
    ],
)
def test_ranks_that_disagree(tmp_path, ours, theirs, kind, words):
    found = only(dump(tmp_path, [[ours], [theirs], [ours]]))
    assert (found.kind, found.ranks) == (kind, (1,))
    assert "on operation 1 of group 0 (default_pg): ranks 0, 2: " in found.sentence
    for word in words:
        assert word in found.sentence


def test_two_calls_in_different_order(tmp_path):
    one = [entry("all_reduce", 1, "started"), entry("broadcast", 2, "scheduled")]
    other = [entry("broadcast", 1, "started"), entry("all_reduce", 2, "scheduled")]
    found = only(dump(tmp_path, [one, other, one]))
    assert found.kind == "order"
    assert found.sentence == (
        "the order of calls differs at number 1 of group 0 (default_pg): rank 1 called broadcast of 4 float32 and then "
        "all_reduce of 4 float32, ranks 0, 2 the other way round; make the calls in one order on every rank"
    )


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("all_to_all_single", (((3,),), ((5,),)), (((2,),), ((6,),))),
        ("gather", (((4,),), ((4,),)), (((4,), (4,)), ())),
        ("scatter", (((4,), (4,)), ()), (((4,),), ((4,),))),
        ("all_gather_v", (((3,),), ((5,),)), (((8,),), ((8,),))),
    ],
)
def test_sizes_that_may_differ(tmp_path, name, given, taken):
    ranks = [[entry(name, 1, "started", given[rank], taken[rank])] for rank in range(2)]
    assert findings(dump(tmp_path, ranks)) == []


def test_a_dump_that_is_missing(tmp_path):
    waits = [entry("all_reduce", 1), entry("all_reduce", 2, "started")]
    found = only(dump(tmp_path, [waits, waits, None, waits]))
    assert (found.kind, found.ranks) == ("absent", (2,))
    assert found.sentence.startswith("rank 2 left no record, and ranks 0, 1, 3 waited in all_reduce of 4 float32")


def test_a_slow_rank(tmp_path):
    def rank(late):
        return [timed(entry("all_reduce", seq), 0.5 if late else 0.01, 0.51) for seq in (1, 2, 3)]

    found = only(dump(tmp_path, [rank(False), rank(True), rank(False)]))
    assert (found.kind, found.ranks, found.wrong) == ("slow", (1,), False)
    assert "rank 1 is slow: the others waited 0.98 s for it in 2 of 2 operations, 0.49 s of that in" in found.sentence


def test_a_deadlock_of_bare_sends(tmp_path):
    ranks = [
        [entry(f"send {me}->{1 - me}", 1, "started"), entry(f"recv {me}<-{1 - me}", 2, "scheduled")] for me in (0, 1)
    ]
    found = only(dump(tmp_path, ranks))
    assert (found.kind, found.ranks, found.sentence.id) == ("cycle", (0, 1), "waits.cycle")
    assert "both send first" in found.sentence
    assert "[rank 0 at train.py:41, rank 1 at train.py:41]" in found.sentence


def test_a_batch_of_messages_is_no_deadlock(tmp_path):
    def rank(me, state):
        batch = [entry(f"send {me}->{1 - me}", 1, "scheduled"), entry(f"recv {me}<-{1 - me}", 1, "scheduled")]
        return [*batch, entry("coalesced", 1, state, given=(), message=True)]

    for state in ("started", "completed"):
        assert findings(dump(tmp_path, [rank(0, state), rank(1, state)])) == []
    # what is issued as one counts as done with its last entry, and only so
    lonely = only(dump(tmp_path, [rank(0, "started"), []]))
    assert (lonely.kind, lonely.ranks, lonely.sentence.id) == ("missing", (1,), "flight.lonely")
    assert findings(dump(tmp_path, [rank(0, "completed"), []])) == []


def test_messages_in_groups_of_few(tmp_path):
    """Ranks in names are those of the group: rank 1 of (1, 3) is 3."""
    groups = [{"1": ("pair", [1, 3])}] * 4
    pair = ("1", "pair")
    ranks = [[], [entry("send 0->1", 1, "started", group=pair)], [], [entry("all_reduce", 1, group=pair)]]
    found = only(dump(tmp_path, ranks, groups=groups))
    assert (found.kind, found.ranks) == ("missing", (3,))
    assert "rank 1 waits in send of 4 float32 to rank 3 (number 1) at train.py:41, whose other end rank 3" in (
        found.sentence
    )


def test_both_ends_of_a_message_differ(tmp_path):
    ranks = [[entry("send 0->1", 1, "started")], [entry("recv 1<-0", 1, "started", given=((5,),))]]
    found = only(dump(tmp_path, ranks))
    assert (found.kind, found.ranks) == ("shape", (0, 1))
    assert "rank 0 stands in send of 4 float32 to rank 1, but rank 1 in recv of 5 float32 from rank 0" in found.sentence


def test_a_collective_and_a_message_that_wait_for_each_other(tmp_path):
    ranks = [[entry("all_reduce", 1, "started")], [entry("recv 1<-0", 1, "started")]]
    found = only(dump(tmp_path, ranks))
    assert (found.kind, found.ranks, found.sentence.id) == ("cycle", (0, 1), "flight.cycle")
    assert "rank 1 stands in recv of 4 float32 from rank 0 (number 1) at train.py:41 and waits for rank 0" in (
        found.sentence
    )


def test_coalesced_collectives_are_compared_one_by_one(tmp_path):
    def rank(second):
        parts = [entry("broadcast", 1, "scheduled"), entry("broadcast", 1, "scheduled", given=((second,),))]
        return [*parts, entry("coalesced", 1, "started", given=())]

    assert findings(dump(tmp_path, [rank(5), rank(5)])) == []
    found = only(dump(tmp_path, [rank(5), rank(6)]))
    assert found.kind == "shape"


def test_different_groups_of_one_name(tmp_path):
    groups = [{"1": ("split", [0, 1])}] * 2 + [{"1": ("split", [2, 3])}] * 2
    here, there = ([entry("all_reduce", 1, given=((n,),), group=("1", "split"))] for n in (3, 4))
    assert findings(dump(tmp_path, [here, here, there, there], groups=groups)) == []


def test_what_has_been_forgotten_blames_nobody(tmp_path):
    """Rank 1's buffer begins after what rank 0 is still in."""
    groups = [{"0": ("default_pg", [0, 1]), "1": ("pair", [0, 1])}] * 2
    pair = entry("all_reduce", 1, "started", group=("1", "pair"))
    later = [entry("all_reduce", seq) for seq in (5, 6)]
    assert findings(dump(tmp_path, [[pair, *later], later], groups=groups)) == []
    for ahead in (later, [{**one, "time_created_ns": 1} for one in later]):  # hosts' clocks differ
        found = only(dump(tmp_path, [[entry("all_reduce", 4, "started", retired=True)], ahead]))
        assert (found.kind, found.ranks) == ("failed", (0,))


def test_records_of_messages_are_not_of_one_moment(tmp_path):
    """Rank 0's was written while its second send was under way; rank 1 has received it since."""
    sends = [entry("send 0->1", 1), entry("send 0->1", 2, "started")]
    receives = [entry("recv 1<-0", 1), entry("recv 1<-0", 2)]
    assert findings(dump(tmp_path, [sends, receives])) == []
    found = only(dump(tmp_path, [sends, receives[:1]]))
    assert (found.kind, found.ranks, found.sentence.id) == ("missing", (1,), "flight.lonely")
    assert "(number 2)" in found.sentence
    sends[0]["record_id"] = receives[0]["record_id"] = 7  # of a buffer that has gone round nobody knows which is which
    assert only(dump(tmp_path, [sends, receives])).sentence.id == "flight.lonely"


def test_a_receive_from_anybody_blames_nobody(tmp_path):
    waits = entry("recvAnySource", 1, "started", message=True)
    assert findings(dump(tmp_path, [[waits], []])) == []


def test_a_rank_that_has_called_nothing(tmp_path):
    """PyTorch leaves an empty list of entries out of its JSON."""
    dump(tmp_path, [[entry("all_reduce", 1, "started")], []], "json")
    said = json.loads((tmp_path / "nccl_trace_rank_1").read_text())
    assert said.pop("entries") == []
    (tmp_path / "nccl_trace_rank_1").write_text(json.dumps(said))
    found = only(tmp_path)
    assert (found.kind, found.ranks) == ("missing", (1,))
    assert "it has called nothing" in found.sentence


@pytest.mark.parametrize(
    ("what", "judgement"),
    [
        (entry("all_reduce", 2), None),
        (None, "missing"),
        (entry("all_reduce", 2, given=((5,),)), "SIZE_OR_SYNTAX_MISMATCH"),
        (entry("all_reduce", 2, dtype="Long"), "COLLECTIVE_DTYPE_MISMATCH"),
        (entry("broadcast", 2), "COLLECTIVE_TYPE_MISMATCH"),
        (entry("all_reduce", 2, "started"), "COLLECTIVE_STATE_MISMATCH"),
    ],
)
def test_pytorchs_own_reader_judges_alike(tmp_path, what, judgement):
    """Of three ranks the middle one calls something else, or nothing."""
    state = "started" if what is None else "completed"
    others = [entry("all_reduce", 1), entry("all_reduce", 2, state)]
    dump(tmp_path, [others, others[:1] + ([] if what is None else [what]), others])
    assert pytorchs_judgement(tmp_path) == judgement
    kinds = {
        "missing": ["missing"],
        "SIZE_OR_SYNTAX_MISMATCH": ["shape"],
        "COLLECTIVE_DTYPE_MISMATCH": ["dtype"],
        "COLLECTIVE_TYPE_MISMATCH": ["operation"],
    }  # and what one rank has got through after all have come, the others are getting through as well
    found = findings(tmp_path)
    assert [finding.kind for finding in found] == kinds.get(judgement, [])
    assert all(finding.ranks == (1,) for finding in found)


def pytorchs_judgement(folder):
    """What is wrong with operation 2 of group 0, as ``torch.distributed.flight_recorder`` has it."""
    components = "torch.distributed.flight_recorder.components"
    builder = pytest.importorskip(f"{components}.builder", reason="an older torch")
    loader, manager = (importlib.import_module(f"{components}.{name}") for name in ("loader", "config_manager"))
    args = manager.JobConfig().parse_args([str(folder), "--prefix", "nccl_trace_rank_"])
    details, version = loader.read_dir(args)
    (second,) = (one for one in builder.build_db(details, args, version).collectives if one.collective_seq_id == 2)
    if second.missing_ranks:
        assert second.missing_ranks == {1}
        return "missing"
    if second.pass_check:
        return None
    assert second.mismatch_collectives.keys() == {1}
    return second.mismatch_collectives[1].type_of_mismatch.state.name


# Not to be trusted.


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class Persistent(pickle.Pickler):
    def persistent_id(self, value):
        return "outside" if value == "entries" else None


def test_a_pickle_cannot_run_anything(tmp_path):
    ran = tmp_path / "ran"
    dump(tmp_path, [[entry("all_reduce", 1)]] * 2)
    for evil in (Evil(ran), {"version": "2.10", "pg_config": {}, "entries": [Evil(ran)]}, {"x": int}, {1: os.getcwd}):
        (tmp_path / "nccl_trace_rank_1").write_bytes(pickle.dumps(evil, protocol=2))
        found = findings(tmp_path)
        assert [finding.kind for finding in found] == ["unknown", "unreadable"]
        assert "which a dump never does" in found[1].sentence
    with (tmp_path / "nccl_trace_rank_1").open("wb") as file:
        Persistent(file, protocol=2).dump({"version": "2.10", "entries": []})
    assert "it refers to something outside" in findings(tmp_path)[1].sentence
    assert not ran.exists()


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_damaged_dumps(tmp_path, form, capsys):
    dump(tmp_path, [[entry("all_reduce", 1)]] * 2, form)
    path = tmp_path / "nccl_trace_rank_1"
    whole = path.read_bytes()
    for cut in range(1, len(whole), 7):
        path.write_bytes(whole[:cut])
        known = form == "pickle" or b'"pg_config"' in whole[:cut]  # else it may be any JSON, and is none of ours
        assert {finding.kind for finding in findings(tmp_path)} == {"unknown", *["unreadable"] * known}, cut
    for field in ("version", "entries", "pg_config"):
        said = pickle.loads(whole) if form == "pickle" else json.loads(whole)
        for value in (None, 7, "x", [7], {"x": 7}):
            path.write_bytes(
                pickle.dumps({**said, field: value}, 2)
                if form == "pickle"
                else json.dumps({**said, field: value}).encode()
            )
            kinds = {finding.kind for finding in findings(tmp_path)}
            assert "unreadable" in kinds, (field, value)
    path.write_bytes(b"[" * 100_000 if form == "pickle" else b'{"a":' * 100_000)
    findings(tmp_path)
    (tmp_path / "nccl_trace_rank_0").write_bytes(b"\x80\x02")
    path.unlink()
    assert DOOR.main(["explain", str(tmp_path)]) == 2
    assert "is no record that can be read" in capsys.readouterr().err


def test_older_formats_are_refused(tmp_path, capsys):
    dump(tmp_path, [[entry("all_reduce", 1)]], version="1.5")
    assert DOOR.main(["explain", str(tmp_path)]) == 2
    assert "format 1.5; this reads 2.x" in capsys.readouterr().err


def test_two_runs_in_one_folder(tmp_path, capsys):
    dump(tmp_path, [[], []])
    dump(tmp_path, [[], []], "json", name="again_")
    assert DOOR.main(["explain", str(tmp_path)]) == 2
    assert "are both of rank 0: keep the files of one run in a folder" in capsys.readouterr().err


# Real ones, of gloo.


@pytest.mark.skipif(sys.platform != "linux", reason="local functions need fork")
@pytest.mark.skipif(not hasattr(torch._C._distributed_c10d, "_dump_fr_trace_json"), reason="an older torch")
@pytest.mark.parametrize("form", ["pickle", "json"])
@pytest.mark.parametrize("what", ["well", "waits", "broken", "first"])
def test_real_dumps_of_gloo(tmp_path, form, what):
    """Rank 1 skips a call, the third or the first of all: the others dump while they wait for it, or when it has gone
    and gloo has given up."""
    with contextlib.suppress(launch.RankFailed):
        launch.run(dumps, 3, str(tmp_path), form, what, grace=30.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace_0", "trace_1", "trace_2"]
    found = findings(tmp_path)
    if what == "well":
        assert found == []
        return
    (finding,) = found
    assert (finding.kind, finding.ranks) == ("missing", (1,))
    assert f"all_reduce of 4×5 float32 (number {1 if what == 'first' else 3})" in finding.sentence
    assert ("it has called nothing" in finding.sentence) == (what == "first")
    assert "ranks 0, 2 waited" in finding.sentence
    if form == "pickle":  # JSON has no frames
        assert "at test_flight_pytorch.py:" in finding.sentence


def dumps(folder, form, what):
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

    rank = dist.get_rank()
    x = torch.ones(4)
    if what != "first":
        dist.all_reduce(x)
        dist.all_gather([torch.empty(4) for _ in range(3)], x)
    skips = rank == 1 and what != "well"
    if not skips:
        work = dist.all_reduce(torch.ones(4, 5), async_op=True)
        if what == "well":
            work.wait(timedelta(seconds=5))
        time.sleep(0.5)
    said = _dump_fr_trace() if form == "pickle" else _dump_fr_trace_json()
    (Path(folder) / f"trace_{rank}").write_bytes(said)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"dumped/{rank}", "")
    if skips and what in ("waits", "first"):
        store.wait(["dumped/0", "dumped/2"])
    if what != "well":
        os._exit(0)  # what is under way will never be over
