"""A recorded program, replayed as if nothing were buffered: its deadlocks and its rounds."""

import sys

import pytest
import torch
import torch.distributed as dist

from collectives.explanation import explain
from collectives.launch import RankTimeout
from collectives.log import Operation, as_line, read_log
from collectives.recorder import record
from collectives.rendezvous import replay
from collectives.sentence import Sentence

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform != "linux", reason="local functions need fork"),
]


def ring() -> tuple[int, int, int, int]:
    rank, size = dist.get_rank(), dist.get_world_size()
    return rank, size, (rank + 1) % size, (rank - 1) % size


def all_send_first() -> None:
    _, _, right, left = ring()
    dist.send(torch.zeros(1), right)
    dist.recv(torch.zeros(1), left)


def even_ranks_send_first() -> None:
    rank, _, right, left = ring()
    turns = [lambda: dist.send(torch.zeros(1), right), lambda: dist.recv(torch.zeros(1), left)]
    for turn in turns if rank % 2 == 0 else reversed(turns):
        turn()


def everybody_posts_then_receives() -> None:
    _, _, right, left = ring()
    work = dist.isend(torch.zeros(1), right)
    dist.recv(torch.zeros(1), left)
    work.wait()


def ring_all_reduce() -> list[float]:
    rank, size, right, left = ring()
    chunks = [torch.tensor([float(rank + 10 * chunk)]) for chunk in range(size)]
    for step in range(2 * (size - 1)):
        arrived = torch.zeros(1)
        work = dist.isend(chunks[(rank - step) % size], right)
        dist.recv(arrived, left)
        work.wait()
        into = (rank - step - 1) % size
        chunks[into] = chunks[into] + arrived if step < size - 1 else arrived
    return [float(chunk) for chunk in chunks]


def gather(source_known: bool) -> None:
    rank, size, _, _ = ring()
    if rank > 0:
        dist.send(torch.zeros(1), 0)
    for peer in range(1, size) if rank == 0 else []:
        dist.recv(torch.zeros(1), peer if source_known else None)


def scatter() -> None:
    rank, size, _, _ = ring()
    if rank > 0:
        dist.recv(torch.zeros(1), 0)
    for work in [dist.isend(torch.zeros(1), peer) for peer in range(1, size)] if rank == 0 else []:
        work.wait()


def one_pair_after_the_other(meet: bool) -> None:
    rank = ring()[0]
    if rank < 2:
        dist.send(torch.zeros(1), 1) if rank == 0 else dist.recv(torch.zeros(1), 0)
    if meet:
        dist.barrier()
    if rank >= 2:
        dist.send(torch.zeros(1), 3) if rank == 2 else dist.recv(torch.zeros(1), 2)


def pairs_meet_by_themselves() -> None:
    """Ranks 0 and 1 meet without rank 2, which has a message with rank 0 later."""
    rank = ring()[0]
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.barrier(group=pair)
    if rank != 1:
        dist.send(torch.zeros(1), 2) if rank == 0 else dist.recv(torch.zeros(1), 0)


def meets_too_early() -> None:
    """Rank 0 is at the second barrier, rank 2 wants a message first; rank 1 waits for rank 3, which has ended."""
    rank = ring()[0]
    dist.barrier()
    if rank == 0:
        dist.barrier()
        dist.send(torch.zeros(1), 2)
    elif rank < 3:
        dist.recv(torch.zeros(1), 0 if rank == 2 else 3)
        dist.barrier()


def raises() -> None:
    rank = ring()[0]
    if rank == 2:
        raise KeyError("lost")
    dist.recv(torch.zeros(1), rank + 1)


def buffered(directory, *programs):
    """The log that a backend with room for every message would have left: nobody ever waits for long."""
    for rank, program in enumerate(programs):
        lines = []
        for seq, (op, peer) in enumerate(program, 1):
            for state in ("posted", "waiting", "done"):
                lines.append(as_line(Operation(rank, seq, op, state, peer, bytes=4, where=f"x.py:{seq}")))
        lines.append(as_line(Operation(rank, len(program) + 1, "end", "returned")))
        (directory / f"rank{rank}.jsonl").write_text("".join(lines))
    return read_log(directory)


def test_a_deadlock_that_buffers_have_hidden(tmp_path):
    log = buffered(tmp_path, [("send", 1), ("recv", 1)], [("send", 0), ("recv", 0)])
    assert explain(log) is None
    outcome = replay(log)
    assert isinstance(outcome.deadlock, Sentence)
    assert outcome.deadlock == (
        "rank 0 waits for rank 1, which waits for rank 0: both send first (rank 0 sends to rank 1, rank 1 sends to "
        "rank 0); begin the send and the receive together, with isend and irecv, or let one rank do the opposite first "
        "[rank 0 at x.py:1, rank 1 at x.py:1]"
    )
    assert (outcome.rounds, outcome.round_of) == (0, {})


def test_a_hidden_deadlock_after_some_rounds(tmp_path):
    ring_of_three = [[("send", (rank + 1) % 3), ("recv", (rank - 1) % 3)] for rank in range(3)]
    log = buffered(tmp_path, [("recv", 1), *ring_of_three[0]], [("send", 0), *ring_of_three[1]], ring_of_three[2])
    outcome = replay(log)
    assert explain(log) is None
    assert "all 3 send first" in outcome.deadlock
    assert outcome.deadlock.fields["ranks"] == (0, 1, 2)
    assert outcome.round_of == {(0, 1): 1, (1, 1): 1}


@pytest.mark.parametrize("ranks", [2, 3])
def test_on_real_ranks_gloo_buffers_nothing(ranks, tmp_path):
    recording = record(all_send_first, ranks, tmp_path, timeout=30)
    assert isinstance(recording.failure, RankTimeout)
    outcome = replay(recording.log)
    assert "send first" in outcome.deadlock
    assert outcome.deadlock == explain(recording.log)
    assert outcome.rounds == 0


@pytest.mark.parametrize(
    ("program", "args", "ranks", "rounds"),
    [
        *((even_ranks_send_first, (), ranks, 2 + ranks % 2) for ranks in (2, 3, 4, 5)),
        *((everybody_posts_then_receives, (), ranks, 1) for ranks in (2, 5)),
        *((ring_all_reduce, (), ranks, 2 * (ranks - 1)) for ranks in (2, 3, 4, 5)),
        *((gather, (known,), ranks, ranks - 1) for ranks in (2, 4) for known in (True, False)),
        *((scatter, (), ranks, 1) for ranks in (2, 5)),
        (one_pair_after_the_other, (False,), 4, 1),
        (one_pair_after_the_other, (True,), 4, 2),
        (pairs_meet_by_themselves, (), 3, 1),
    ],
)
def test_rounds_of_a_right_program(program, args, ranks, rounds, tmp_path):
    recording = record(program, ranks, tmp_path, *args, timeout=40)
    assert recording.failure is None
    outcome = replay(recording.log)
    assert outcome.deadlock is None
    assert outcome.rounds == rounds
    assert outcome.round_of.keys() == {(o.rank, o.seq) for o in recording.log.messages()}
    if program is ring_all_reduce:
        assert recording.results == [[ranks * (ranks - 1) / 2 + 10 * ranks * c for c in range(ranks)]] * ranks
        assert {outcome.round_of[0, seq] for seq in (1, 2)} == {1}
    if program is gather:
        assert [outcome.round_of[0, seq] for seq in range(1, ranks)] == list(range(1, ranks))


def test_a_barrier_and_a_message_that_wait_for_each_other(tmp_path):
    recording = record(meets_too_early, 4, tmp_path, timeout=10)
    deadlock = replay(recording.log).deadlock
    assert deadlock.startswith("rank 0 waits for rank 2, which waits for rank 0: each end waits for an earlier one")
    assert "(rank 0 stands in barrier without rank 2, rank 2 receives from rank 0)" in deadlock


def test_a_log_that_ends_early_is_no_deadlock(tmp_path):
    recording = record(raises, 3, tmp_path, grace=0.3)
    assert recording.failure is not None
    outcome = replay(recording.log)
    assert (outcome.deadlock, outcome.rounds) == (None, 0)
    log = buffered(tmp_path, [("recv", 1), ("send", 1)], [("send", 0)])  # rank 1's last line was cut
    assert replay(log).deadlock is None
    assert replay(log).round_of == {(0, 1): 1, (1, 1): 1}
