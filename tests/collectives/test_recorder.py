"""Bare sends and receives, recorded on real ranks, and the sentence that says what is wrong with them."""

import json
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectives.explanation import explain
from collectives.launch import RankFailed, RankTimeout
from collectives.log import Operation, as_line, read_log
from collectives.recorder import record
from collectives.sentence import Sentence

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform != "linux", reason="local functions need fork"),
]


def me() -> int:
    return dist.get_rank()


def both_receive() -> None:
    dist.recv(torch.zeros(4), src=1 - me())
    dist.send(torch.zeros(4), dst=1 - me())


def both_send() -> None:
    dist.send(torch.zeros(4), dst=1 - me())
    dist.recv(torch.zeros(4), src=1 - me())


def ring_of_senders() -> None:
    dist.isend(torch.zeros(4), dst=(me() + 1) % 3).wait()
    dist.recv(torch.zeros(4), src=(me() - 1) % 3)


def one_too_few() -> None:
    for _ in range(2 - me()):
        dist.recv(torch.zeros(4), src=1) if me() == 0 else dist.send(torch.zeros(4), dst=0)


def nobody_receives() -> None:
    if me() == 0:
        dist.send(torch.zeros(4), dst=1)


def chain() -> None:
    if me() < 2:
        dist.recv(torch.zeros(4), src=me() + 1)


def other_tag() -> None:
    if me() == 0:
        dist.isend(torch.zeros(4), dst=1, tag=5)
    else:
        dist.recv(torch.zeros(4), src=0)


def sizes(*pairs: tuple[int, int]) -> None:
    for sent, received in pairs:
        if me() == 0:
            dist.send(torch.zeros(sent), dst=1)
        else:
            dist.recv(torch.zeros(received), src=0)


def never_waits() -> None:
    if me() == 0:
        dist.send(torch.zeros(4), dst=1)
    else:
        dist.irecv(torch.zeros(4), src=0)


def waits_twice() -> None:
    if me() == 0:
        dist.send(torch.zeros(4), dst=1)
    else:
        work = dist.irecv(torch.zeros(4), src=0)
        work.wait()
        work.wait()


def asks_on() -> None:
    if me() == 0:
        dist.send(torch.zeros(4), dst=1)
        return
    work = dist.irecv(torch.zeros(4), src=0)
    while not work.is_completed():
        time.sleep(0.001)


def asks_for_a_barrier() -> None:
    work = dist.barrier(async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    assert me() == 0 or work.wait()  # once more does no harm


def sends_to(rank: int) -> None:
    if me() == 1:
        dist.isend(torch.zeros(4), rank)
    else:
        dist.recv(torch.zeros(4), src=1)


def raises() -> None:
    if me() == 1:
        raise KeyError("lost")
    dist.recv(torch.zeros(4), src=1)


def half_a_barrier() -> None:
    if me() == 0:
        dist.barrier()


def half_a_barrier_of_some() -> None:
    some = dist.new_group([0, 2])
    if me() == 0:
        dist.barrier(group=some)


def sum_that_some_leave_out() -> None:
    """Those who leave it out go on to make a group with those who wait."""
    if me() % 2 == 0:
        dist.all_reduce(torch.zeros(4))
    dist.new_group([0, 1])


def group_before_the_sum() -> None:
    if me() % 2:
        dist.all_reduce(torch.zeros(4))
    dist.new_group([0, 1])


def barriers_in_a_circle() -> None:
    pairs = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 2])]
    dist.barrier(group=pairs[me()])


def groups_of_their_own() -> None:
    """Each rank makes the group that it is in, and no other."""
    pair = dist.new_group([0, 1] if me() < 2 else [2, 3])
    dist.barrier(group=pair)


def a_group_left_out() -> None:
    if me() != 1:
        dist.new_group([0, 2])
    dist.new_group([0, 1])
    dist.barrier()


def message_against_barrier() -> None:
    if me() == 0:
        dist.recv(torch.zeros(4), src=1)
    dist.barrier()


def everything() -> list[float]:
    size, mine = dist.get_world_size(), torch.arange(4.0) + 1000 * me()
    left, right = (me() - 1) % size, (me() + 1) % size
    got = torch.zeros(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, left), dist.P2POp(dist.isend, mine, right)]):
        work.wait()
    assert got[1] == 1000 * left + 1
    if me() == 0:
        sources = {dist.recv(got, src=None, tag=3) for _ in range(size - 1)}
        assert sources == set(range(1, size))
    else:
        dist.send(mine, 0, tag=3)
    pending = dist.irecv(got, left) if me() % 2 else dist.isend(mine, right)
    (dist.send if me() % 2 else dist.recv)(*((mine, right) if me() % 2 else (got, left)))
    pending.wait()
    pair = dist.new_group([1, size - 1])
    if me() == 1:
        dist.send(mine, size - 1, group=pair)
    if me() == size - 1:
        dist.recv(got, 1, group=pair)
        assert got[0] == 1000
    dist.barrier()
    gathered = [torch.zeros(4) for _ in range(size)]
    dist.all_gather(gathered, mine)
    everyone: list[object] = [None] * size
    dist.all_gather_object(everyone, me())
    assert everyone == list(range(size))
    dist.all_reduce(mine)
    return [float(tensor[2]) for tensor in gathered] + mine.tolist()


def test_a_right_program_runs_as_on_gloo_and_has_nothing_to_explain(tmp_path):
    recording = record(everything, 4, tmp_path, timeout=30)
    assert recording.failure is None
    assert recording.results == [[2, 1002, 2002, 3002, 6000, 6004, 6008, 6012]] * 4
    assert explain(recording.log) is None
    assert {o.state for operations in recording.log.operations.values() for o in operations} == {"done"}
    assert {end.state for end in recording.log.ends.values()} == {"returned"}


def test_what_a_line_holds(tmp_path):
    record(sizes, 2, tmp_path, (4, 4))
    lines = [json.loads(line) for line in (tmp_path / "rank1.jsonl").read_text().splitlines()]
    assert [line["state"] for line in lines] == ["posted", "waiting", "done", "returned"]
    wanted = {"rank": 1, "op": "recv", "peer": 0, "bytes": 16, "tag": 0, "call": "recv", "blocking": True}
    assert wanted.items() <= lines[0].items()
    assert lines[0]["where"].startswith("test_recorder.py:")
    assert lines[0]["time"] <= lines[2]["time"]


@pytest.mark.parametrize(
    ("program", "ranks", "start", "ending"),
    [
        (both_receive, 2, "rank 0 waits for rank 1, which waits for rank 0: both receive first", "[rank 0 at "),
        (both_send, 2, "rank 0 waits for rank 1, which waits for rank 0: both send first", "[rank 0 at "),
        (
            ring_of_senders,
            3,
            "rank 0 waits for rank 1, which waits for rank 2, which waits for rank 0: all 3 send",
            "rank 2",
        ),
    ],
)
def test_a_deadlock_is_explained_although_the_ranks_were_killed(program, ranks, start, ending, tmp_path):
    recording = record(program, ranks, tmp_path, timeout=20)
    assert isinstance(recording.failure, RankTimeout)
    sentence = explain(recording.log)
    assert sentence is not None
    assert sentence.startswith(start)
    assert ending in sentence
    assert "test_recorder.py:" in sentence


@pytest.mark.parametrize(
    ("program", "ranks", "sentence"),
    [
        (
            one_too_few,
            2,
            "rank 0 waits to receive from rank 1 (…), which never sends it: it has ended, with 1 send to rank 0",
        ),
        (
            nobody_receives,
            2,
            "rank 0 waits to send to rank 1 (…), which never receives it: it has ended, with no receives",
        ),
        (
            chain,
            3,
            "rank 1 waits to receive from rank 2 (…), which never sends it: it has ended, with no sends to rank 1",
        ),
        (other_tag, 2, "rank 1 waits to receive from rank 0 (…), but rank 0 sends with tag 5 (…), not 0"),
        (half_a_barrier, 2, "rank 0 waits in barrier (…), which rank 1 never enters"),
        (half_a_barrier_of_some, 3, "rank 0 waits in barrier (…), which rank 2 never enters"),
        (raises, 2, "rank 1 failed by itself: KeyError: 'lost'; it had not sent or received anything"),
        (
            waits_twice,
            2,
            "rank 1 failed by itself: RuntimeError: wait() was called a second time on receive from rank 0",
        ),
        (
            asks_on,
            2,
            "rank 1 failed by itself: RuntimeError: is_completed() is asked again and again of receive from rank 0",
        ),
    ],
)
def test_a_failure_is_explained(program, ranks, sentence, tmp_path):
    recording = record(program, ranks, tmp_path, timeout=20, grace=0.3)
    assert isinstance(recording.failure, RankFailed)
    assert plain(explain(recording.log)).startswith(sentence)


@pytest.mark.parametrize(
    ("program", "ranks", "sentence"),
    [
        (
            sum_that_some_leave_out,
            2,
            "rank 0 waits in allreduce (…), which rank 1 never enters; its last operation was: new_group (…)",
        ),
        (
            group_before_the_sum,
            2,
            "rank 1 waits in allreduce (…), which rank 0 never enters; its last operation was: new_group (…)",
        ),
        (
            barriers_in_a_circle,
            3,
            "rank 0 waits in barrier (…), which rank 1 never enters; its last operation was: barrier (…)",
        ),
        (
            groups_of_their_own,
            4,
            "rank 0 makes a group of ranks 0, 1 (…) while rank 2 makes one of ranks 2, 3 (…): every rank must call",
        ),
        (
            a_group_left_out,
            3,
            "rank 0 makes a group of ranks 0, 2 (…) while rank 1 makes one of ranks 0, 1 (…): every rank must call",
        ),
        (
            message_against_barrier,
            2,
            "rank 0 waits to receive from rank 1 (…), but rank 1 stands in another operation: barrier (…)",
        ),
    ],
)
def test_ranks_that_wait_for_each_other_in_collectives_are_not_left_to_their_timeout(
    program, ranks, sentence, tmp_path
):
    recording = record(program, ranks, tmp_path, timeout=600)  # more than this test may take
    # where groups are made apart, gloo may connect the wrong ranks and see that they do not fit, or the right ones
    assert recording.failure is not None or program is groups_of_their_own
    assert plain(explain(recording.log)).startswith(sentence)


def test_what_is_completed_counts_as_waited_for(tmp_path):
    recording = record(asks_for_a_barrier, 2, tmp_path)
    assert (recording.failure, explain(recording.log)) == (None, None)


@pytest.mark.parametrize("rank", [1, 2, -1])
def test_a_rank_that_does_not_exist_is_an_error_not_a_crash(rank, tmp_path):
    recording = record(sends_to, 2, tmp_path, rank, grace=0.3)
    assert isinstance(recording.failure, RankFailed)
    assert recording.failure.rank == 1
    assert f"dst={rank}" in recording.failure.reason
    sentence = explain(recording.log)
    assert "failed by itself: ValueError: dist.isend" in plain(sentence)
    refusal = sentence.fields["error"].fields["message"].fields["reason"]  # has gone through the file
    assert (refusal.id, refusal.fields["peer"]) == ("recorder.itself" if rank == 1 else "recorder.no_such_rank", rank)


def test_a_receive_that_is_too_small_is_explained_after_the_abort(tmp_path):
    recording = record(sizes, 2, tmp_path, (50, 50), (100, 50))
    assert isinstance(recording.failure, RankFailed)
    assert (recording.failure.rank, recording.failure.reason) == (1, "killed by signal SIGABRT (6)")
    assert "in sizes" in recording.failure.traceback
    assert plain(explain(recording.log)).startswith(
        "rank 0's 2nd send to rank 1 carries 400 bytes (…), but rank 1 receives 200 (…)"
    )


def test_a_receive_that_is_too_large_is_found_although_gloo_says_nothing(tmp_path):
    recording = record(sizes, 2, tmp_path, (4, 8))
    assert recording.failure is None
    assert "1st send to rank 1 carries 16 bytes (…), but rank 1 receives 32" in plain(explain(recording.log))


def test_an_operation_that_nobody_waited_for(tmp_path):
    recording = record(never_waits, 2, tmp_path)
    assert recording.failure is None
    assert plain(explain(recording.log)).startswith("rank 1 never waited for its irecv from rank 0 (…): keep what")


def into_what_is_sent(n: int = 4) -> None:
    data = torch.zeros(n)
    work = dist.isend(data, dst=1 - me())
    dist.recv(data, src=1 - me())
    work.wait()


def two_receives(shift: int) -> None:
    """Two messages of 4 elements; ``shift`` elements lie between where the two begin."""
    data = torch.zeros(8)
    if me() == 0:
        dist.send(data[:4], dst=1)
        dist.send(data[4:], dst=1)
    else:
        for work in [dist.irecv(data[:4], src=0), dist.irecv(data[shift : shift + 4], src=0)]:
            work.wait()


def passes_on_too_early() -> None:
    data = torch.zeros(4)
    if me() == 0:
        dist.send(data, dst=1)
    elif me() == 1:
        received = dist.irecv(data, src=0)
        sent = dist.isend(data, dst=2)
        received.wait()
        sent.wait()
    else:
        dist.recv(data, src=1)


def passes_on() -> None:
    data, other = torch.zeros(4), torch.zeros(4)
    work = dist.isend(data, dst=(me() + 1) % 3)
    dist.recv(other, src=(me() - 1) % 3)
    work.wait()
    if me() > 0:
        dist.recv(data, src=me() - 1)
    for work in [dist.isend(data, dst=me() + 1), dist.isend(data[1:], dst=me() + 1)] if me() < 2 else []:
        work.wait()
    if me() > 0:
        dist.recv(data[1:], src=me() - 1)


@pytest.mark.parametrize(
    ("program", "args", "ranks", "sentence"),
    [
        (
            into_what_is_sent,
            (),
            2,
            "rank 0's receive from rank 1 (…) writes into memory that its send to rank 1 (…) may still be reading: "
            "receive into a fresh buffer",
        ),
        (
            two_receives,
            (3,),
            2,
            "rank 1's receive from rank 0 (…) writes into memory that its receive from rank 0 (…) may still be writing",
        ),
        (
            passes_on_too_early,
            (),
            3,
            "rank 1's send to rank 2 (…) reads memory that its receive from rank 0 (…) may still be writing",
        ),
    ],
)
def test_memory_that_is_used_too_early(program, args, ranks, sentence, tmp_path):
    recording = record(program, ranks, tmp_path, *args)
    assert recording.failure is None
    assert plain(explain(recording.log)).startswith(sentence)


@pytest.mark.parametrize(("program", "args", "ranks"), [(passes_on, (), 3), (two_receives, (4,), 2)])
def test_memory_that_is_used_in_time(program, args, ranks, tmp_path):
    recording = record(program, ranks, tmp_path, *args)
    assert recording.failure is None
    assert explain(recording.log) is None


def test_what_the_log_holds_of_memory_and_order(tmp_path):
    log = record(into_what_is_sent, 2, tmp_path, 6).log
    sent, received = log.operations[1]
    first = received.memory[0]
    assert sent.memory == received.memory == (first, first + 24)
    assert log.events[1] == [(1, "posted"), (2, "posted"), (2, "waiting"), (2, "done"), (1, "waiting"), (1, "done")]


def test_an_older_record_is_replaced_and_a_cut_line_is_left_out(tmp_path):
    (tmp_path / "rank7.jsonl").write_text("old\n")
    record(sizes, 2, tmp_path, (4, 4))
    with (tmp_path / "rank1.jsonl").open("a") as file:
        file.write('{"rank": 1, "se')
    log = read_log(tmp_path)
    assert list(log.operations) == [0, 1]
    assert explain(log) is None
    with pytest.raises(FileNotFoundError, match=r"no rank\*"):
        read_log(tmp_path / "nowhere")


def test_ranks_that_were_busy_or_whose_record_just_ends(tmp_path):
    waiting = Operation(0, 1, "recv", "waiting", peer=1, bytes=4)
    (tmp_path / "rank0.jsonl").write_text(as_line(waiting))
    (tmp_path / "rank1.jsonl").write_text("")
    assert (
        explain(read_log(tmp_path)) == "rank 0 waits to receive from rank 1, but the record of rank 1 ends before that"
    )
    (tmp_path / "rank1.jsonl").write_text(as_line(Operation(1, 1, "end", "stopped", error="time was up")))
    assert "rank 1 was still busy" in plain(explain(read_log(tmp_path)))
    (tmp_path / "rank0.jsonl").write_text("")
    assert explain(read_log(tmp_path)) == "rank 1 did not end (time was up); it was busy before it sent or received"


def plain(sentence: str | None) -> str:
    """The sentence with every place in the code as ``(…)``."""
    assert isinstance(sentence, Sentence)
    name = Path(__file__).name
    parts = sentence.split(f"({name}:")
    return parts[0] + "".join("(…)" + part.partition(")")[2] for part in parts[1:])
