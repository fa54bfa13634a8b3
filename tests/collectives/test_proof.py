"""The prover: what is right passes with the right cost, what is wrong is refused in the right words."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from collectives import Buffer, Recv, Reduce, Schedule, ScheduleError, Send, find, place, prove, register, rings, split
from collectives.combinators import rooted
from collectives.ring import all_gather, all_reduce, reduce_scatter
from collectives.sentence import Sentence


def refused(program, size=4, collective="all_reduce", **options):
    with pytest.raises(ScheduleError) as caught:
        prove(Schedule(collective, program, **options), size)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value.sentence, Sentence)
    assert caught.value.sentence.fields["rank"] == caught.value.rank
    assert caught.value.sentence.fields["step"] == caught.value.step
    return caught.value


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 12])
def test_ring_costs_what_the_formula_says(size):
    proof = prove(all_reduce, size)
    assert proof.steps == 2 * (size - 1)
    assert proof.messages == 2 * (size - 1) * size
    assert proof.sent == {rank: Fraction(2 * (size - 1), size) for rank in range(size)}


def test_chunk_index_off_by_one():
    def program(rank, size):
        right, left = (rank + 1) % size, (rank - 1) % size
        for step in range(size - 1):
            yield Send((rank - step) % size, to=right), Reduce((rank - step - 2) % size, source=left)

    error = refused(program, collective="reduce_scatter")
    assert error.kind == "order"
    assert error.step == 0
    assert "carries chunk 0 but is received as chunk 3" in str(error)


def test_wrong_chunk_on_both_sides_ends_with_the_wrong_block():
    def program(rank, size):  # consistent, but rank r ends with chunk r + 1
        right, left = (rank + 1) % size, (rank - 1) % size
        for step in range(size - 1):
            yield Send((rank - step) % size, to=right), Reduce((rank - step - 1) % size, source=left)

    error = refused(program, collective="reduce_scatter")
    assert error.kind == "missing"
    assert error.rank == 0


def test_missing_last_step():
    error = refused(lambda rank, size: list(all_reduce(rank, size))[:-1])
    assert error.kind == "missing"
    assert "lacking the contribution" in str(error)


def test_missing_step_of_one_rank():
    error = refused(
        lambda rank, size: list(all_gather(rank, size))[: -1 if rank == 2 else None], collective="all_gather"
    )
    assert error.kind == "missing"
    assert "never" in str(error)


def test_doubled_reduce():
    def program(rank, size):
        yield from reduce_scatter(rank, size)
        yield from reduce_scatter(rank, size)
        yield from all_gather(rank, size)

    error = refused(program)
    assert error.kind == "duplicate"
    assert "twice" in str(error)


@pytest.mark.parametrize(
    ("program", "collective", "wanted"),
    [
        (
            lambda r, n: [Send(0, to=1) if r == 0 else Reduce(0, source=0)] if r < 2 else [],
            "all_reduce",
            {"id": "proof.lacking", "rank": 0, "step": 0, "place": "chunk 0", "missing": (1, 2), "ranks": "ranks 1, 2"},
        ),
        (
            lambda r, n: [Send(0, to=1) if r == 0 else Reduce(0, source=0)] * 2 if r < 2 else [],
            "all_reduce",
            {"id": "proof.twice", "rank": 1, "step": 1, "place": "chunk 0", "counted": (0,), "source": 0},
        ),
        (
            lambda r, n: [Send(0, to=1)] if r == 0 else [Recv(Buffer("scratch")[0], source=0)] if r == 1 else [],
            "broadcast",
            {"id": "proof.without", "rank": 1, "step": 0, "place": "chunk 0"},
        ),
        (
            lambda r, n: [
                (Send(Buffer("input")[0], to=r), Recv(Buffer("output")[0], source=r)),
                (Send(Buffer("input")[1], to=r), Reduce(Buffer("output")[0], source=r)),
            ],
            "all_to_all",
            {"id": "proof.different", "rank": 0, "step": 1, "place": "output[0]", "found": (0, 1, 0)},
        ),
    ],
)
def test_what_a_picture_of_the_fault_needs(program, collective, wanted):
    said = refused(program, 3, collective, chunks=3 if collective == "all_to_all" else 1).sentence
    assert {"id": said.id, **said.fields}.items() >= wanted.items()


def test_what_a_picture_of_wrong_data_needs():
    def program(rank, size):  # each takes the other's block for its own
        other = 1 - rank
        yield Send(Buffer("input")[rank], to=rank), Recv(Buffer("output")[other], source=rank)
        yield Send(Buffer("input")[other], to=other), Recv(Buffer("output")[rank], source=other)

    said = refused(program, 2, "all_to_all").sentence
    assert said.id == "proof.wrong_data"
    assert said.fields.items() >= {"place": "output[0]", "found": (1, 0, 0), "wanted": (0, 0, 0), "rank": 0}.items()
    assert "part 0 of rank 1's block for rank 0 where part 0 of rank 0's block for rank 0 belongs" in said


def test_swapped_order():
    def program(rank, size):
        steps = list(all_gather(rank, size))
        if rank == 1:
            steps[0], steps[1] = steps[1], steps[0]
        yield from steps

    error = refused(program, collective="all_gather")
    assert error.kind in ("order", "missing")
    assert error.rank in (0, 1, 2)


def test_different_packing_order_on_the_two_ends():
    def program(rank, size):
        if rank == 0:
            yield Send(0, to=1), Send(1, to=1)
        else:
            yield Recv(1, source=0), Recv(0, source=0)

    error = refused(program, 2, "broadcast", chunks=2)
    assert error.kind == "order"


def test_different_number_of_chunks_on_the_two_ends():
    def program(rank, size):
        if rank == 0:
            yield Send(0, to=1), Send(1, to=1)
        else:
            yield Recv(0, source=0)
            yield Recv(1, source=0)

    error = refused(program, 2, "broadcast", chunks=2)
    assert error.kind == "order"
    assert "as many chunks where it is sent (2) as where it is received (1)" in str(error)


def test_both_receive_first():
    def program(rank, size):
        other = 1 - rank
        yield Reduce(0, source=other)
        yield Send(0, to=other)

    error = refused(program, 2, chunks=1)
    assert error.kind == "deadlock"
    assert "rank 0 waits for rank 1, which waits for rank 0: both receive first" in str(error)
    assert (error.rank, error.step) == (0, 0)


def test_all_send_first_is_a_deadlock_without_buffers():
    def program(rank, size):
        yield Send(rank, to=(rank + 1) % size)
        yield Recv((rank - 1) % size, source=(rank - 1) % size)

    error = refused(program, 3, "all_gather")
    assert error.kind == "deadlock"
    assert "all 3 send first" in str(error)


@pytest.mark.parametrize(
    "step",
    [
        lambda other: (Send(0, to=other), Recv(0, source=other)),
        lambda other: (Send(0, to=other), Send(1, to=other), Recv(1, source=other), Reduce(1, source=other)),
        lambda other: (Send(0, to=other), Send(1, to=other), Recv(1, source=other), Recv(1, source=other)),
    ],
)
def test_races(step):
    error = refused(lambda rank, size: [step(1 - rank)], 2, chunks=2)
    assert error.kind == "race"
    assert "race" in str(error)


def test_send_and_reduce_of_one_chunk_in_one_step_is_no_race():
    assert (
        prove(Schedule("all_reduce", lambda r, n: [(Send(0, to=1 - r), Reduce(0, source=1 - r))], chunks=1), 2).steps
        == 1
    )


@pytest.mark.parametrize(
    ("step", "word"),
    [
        ((Send(0, to=4),), "ranks are 0 to 3"),
        ((Send(4, to=1),), "does not exist"),
        ((Send(-1, to=1),), "does not exist"),
        (("send",), "a step is a tuple of Send, Recv and Reduce"),
        (3, "rank 0 yields 3 at step 0: a step is a tuple of Send, Recv and Reduce"),
        (None, "rank 0 yields None at step 0"),
        (Recv, "write Recv(chunk, source=…)"),
        ((Send, Recv), "write Send(chunk, to=…)"),
    ],
)
def test_impossible_operations(step, word):
    error = refused(lambda rank, size: [step] if rank == 0 else [])
    assert error.kind == "missing"
    assert word in str(error)


def test_sending_what_is_not_held():
    error = refused(lambda r, n: [(Send((r + 1) % n, to=(r + 1) % n), Recv(r, source=(r - 1) % n))], 3, "all_gather")
    assert error.kind == "missing"
    assert "does not hold it yet" in str(error)


def test_all_to_all_names_its_buffers():
    error = refused(lambda r, n: [(Send(1 - r, to=1 - r), Recv(1 - r, source=1 - r))], 2, "all_to_all")
    assert 'Buffer("input")' in str(error)


def test_all_to_all_to_the_wrong_place():
    def program(rank, size):
        other = 1 - rank
        yield Send(Buffer("input")[rank], to=rank), Recv(Buffer("output")[other], source=rank)
        yield Send(Buffer("input")[other], to=other), Recv(Buffer("output")[rank], source=other)

    error = refused(program, 2, "all_to_all")
    assert error.kind == "order"
    assert "wrong data" in str(error)


def test_uneven_parts_of_all_to_all_blocks_stay_in_their_place():
    def program(rank, size):  # two chunks a block, which cross on the way
        other = 1 - rank
        for s in range(2):
            yield Send(Buffer("input")[2 * rank + s], to=rank), Recv(Buffer("output")[2 * rank + s], source=rank)
            yield (
                Send(Buffer("input")[2 * other + s], to=other),
                Recv(Buffer("output")[2 * other + 1 - s], source=other),
            )

    error = refused(program, 2, "all_to_all", chunks=lambda size: 2 * size)
    assert error.kind == "order"


@pytest.mark.parametrize(
    ("collective", "step"),
    [
        ("all_gather", lambda r, n: (Send(Buffer("input")[0], to=1 - r), Recv(1 - r, source=1 - r))),
        ("reduce_scatter", lambda r, n: (Send(1 - r, to=1 - r), Reduce(Buffer("output")[0], source=1 - r))),
    ],
)
def test_symmetric_schedules_may_name_their_own_block(collective, step):
    assert prove(Schedule(collective, lambda r, n: [step(r, n)], symmetric=True), 2).steps == 1


def test_a_message_to_oneself_has_both_ends():
    error = refused(lambda r, n: [(Send(0, to=r),)])
    assert error.kind == "missing"
    assert "does not send itself as many chunks (1) as it receives (0)" in str(error)


def test_whole_numbers_of_any_kind_will_do():
    numpy = pytest.importorskip("numpy")
    program = lambda r, n: [(Send(numpy.int64(0), to=numpy.int64(1 - r)), Reduce(0, source=numpy.int32(1 - r)))]  # noqa: E731
    assert prove(Schedule("all_reduce", program, 1), 2).steps == 1
    assert rings(numpy.array([[0, 1], [1, 0]])).channels == 2


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (lambda r, n: {}["lost"], "raised KeyError: 'lost', on rank 0 of 4 (steps before that: 0)"),
        (lambda r, n: None, "raised TypeError"),
        (lambda r, n, colour: [], "raised TypeError"),
    ],
)
def test_programs_that_break_are_named(program, words):
    with pytest.raises(ValueError, match="the program of mine") as caught:
        prove(Schedule("all_reduce", program, name="mine"), 4)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Schedule("allreduce", all_reduce), "unknown: use one of"),
        (lambda: Schedule("all_reduce", all_reduce, chunks=2.0), "chunks=2.0"),
        (lambda: Schedule("all_reduce", all_reduce, chunks=0), "chunks=0"),
        (lambda: Schedule("all_reduce", [3]), "program="),
        (lambda: prove("ring", 4), "is no Schedule"),
        (lambda: list(place([], [0, 0])), "each must be another rank"),
        (lambda: list(place([], [-1, 0])), "each must be another rank"),
        (lambda: find("all_reduce", 3), "give a name"),
        (lambda: find("broadcast", "chain:chunks=abc"), "chunks='abc'"),
        (lambda: find("reduce", "x"), "unknown"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


@pytest.mark.parametrize("name", ["ring", "auto", "all", "pairwise"])
def test_names_that_are_taken(name):
    with pytest.raises(ValueError, match="choose another"):
        register("all_to_all", name=name)(lambda rank, size: [])


def test_a_registered_schedule_is_found_and_can_be_called():
    @register("broadcast", name="straight", chunks=1)
    def straight(rank, size):
        """Rank 0 sends to all."""
        yield from ([Send(0, to=r) for r in range(1, size)] if rank == 0 else [Recv(0, source=0)])

    assert find("broadcast", "straight") is straight
    assert list(straight(1, 3)) == [(Recv(0, source=0),)]
    assert prove(straight, 5).messages == 4


def test_symmetric_must_be_so():
    error = refused(lambda r, n: all_reduce(r, n) if r != 2 else reversed(list(all_reduce(r, n))), symmetric=True)
    assert "leave symmetric=True away" in str(error)


def test_scratch_and_local_copies():
    def program(rank, size):  # one-shot through scratch: every copy has its own slot
        others = [r for r in range(size) if r != rank]
        yield (
            *(Send(0, to=r) for r in others),
            *(Recv(Buffer("scratch")[r], source=r) for r in others),
        )
        for r in others:
            yield Send(Buffer("scratch")[r], to=rank), Reduce(0, source=rank)

    proof = prove(Schedule("all_reduce", program, chunks=1), 4)
    assert (proof.messages, proof.steps) == (12, 1)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_place_gives_any_root(size):
    chain = Schedule(
        "broadcast", lambda r, n: [(Send(0, to=d),) for d in range(1, n)] if r == 0 else [(Recv(0, source=0),)], 1
    )
    for root in range(size):
        moved = rooted(chain, root, size)
        sent = prove(
            Schedule(
                "broadcast",
                lambda r, n, m=moved, root=root: place(m.steps((r + root) % n, n), [(i - root) % n for i in range(n)]),
                1,
            ),
            size,
        ).sent
        assert sent == prove(chain, size).sent


def test_place_moves_blocks_and_buffers():
    steps = place([(Send(0, to=1), Recv(Buffer("scratch")[5], source=1))], [4, 2], [range(2, 4)])
    assert list(steps) == [(Send(2, to=2), Send(3, to=2), Recv(Buffer("scratch")[5], source=2))]


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_rings_in_any_order(collective):
    schedule = rings([[0, 2, 4, 1, 3], [4, 3, 2, 1, 0]], collective)
    assert schedule.channels == 2
    assert prove(schedule, 5).sent[3] == Fraction(8 if collective == "all_reduce" else 4, 5)


@pytest.mark.parametrize("orders", [[], [[0, 1, 1]], [[0, 1, 2], [0, 1]]])
def test_rings_refuse_bad_orders(orders):
    with pytest.raises(ValueError, match="order"):
        rings(orders)


def test_split_is_the_same_program_on_shares():
    one, four = prove(all_reduce, 3), prove(split(all_reduce, 4), 3)
    assert four.sent == one.sent
    assert four.messages == 4 * one.messages
    assert four.steps == one.steps


@pytest.mark.parametrize("size", [0, -1])
def test_impossible_sizes(size):
    with pytest.raises(ValueError, match="size"):
        prove(all_reduce, size)


def test_chunks_must_suit_the_ranks():
    with pytest.raises(ValueError, match="multiple of 3"):
        prove(Schedule("all_gather", all_gather, chunks=4), 3)


def test_barrier_may_hear_twice():
    assert (
        prove(Schedule("barrier", lambda r, n: [(Send(0, to=1 - r), Reduce(0, source=1 - r))] * 2, chunks=1), 2).steps
        == 2
    )
