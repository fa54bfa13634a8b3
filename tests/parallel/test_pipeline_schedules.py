"""Pipeline schedules without a clock: are they right, do their messages get through, are faults named?"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import defaultdict
from itertools import groupby

import pytest

from collectives.errors import ScheduleError
from parallel.pipeline import (
    Backward,
    BackwardInput,
    BackwardWeight,
    Exchange,
    Forward,
    PipelineSchedule,
    Stages,
    find,
    loop,
    schedules,
    validate,
    vee,
    with_transfers,
)
from parallel.pipeline.schedule import LETTERS
from parallel.pipeline.validation import check_exchanges

NAMES = ["naive", "gpipe", "1f1b", "interleaved", "looped", "zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipev"]
SIZES = [(p, m) for p in range(1, 7) for m in range(1, 14)]


def chunk_counts(schedule):
    return (1, 2, 3) if schedule.flexible else (schedule.chunks,)


def all_sizes(name):
    schedule = find(name)
    for p, m in [*SIZES, (8, 5), (8, 24)]:
        for v in chunk_counts(schedule):
            yield schedule, p, m, v


def test_the_names():
    assert [schedule.name for schedule in schedules()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_is_right(name):
    for schedule, p, m, v in all_sizes(name):
        validate(schedule, p, m, v)


@pytest.mark.parametrize("name", NAMES)
def test_every_microbatch_is_computed_once_and_in_order(name):
    """The same as ``validate`` says, counted in another way."""
    for schedule, p, m, v in all_sizes(name):
        for rank in range(p):
            actions = [action for step in schedule.steps(rank, p, m, v) for action in step]
            place = {action: number for number, action in enumerate(actions)}
            assert len(place) == len(actions)
            assert sum(type(a) is Forward for a in actions) == m * v
            for i in range(m):
                for c in range(v):
                    if Backward(i, c) in place:
                        assert place[Forward(i, c)] < place[Backward(i, c)]
                        assert BackwardInput(i, c) not in place
                        assert BackwardWeight(i, c) not in place
                    else:
                        assert place[Forward(i, c)] < place[BackwardInput(i, c)] < place[BackwardWeight(i, c)]


@pytest.mark.parametrize("name", NAMES)
def test_the_drawing_is_what_the_program_does(name):
    schedule = find(name)
    text = schedule.program.__doc__
    sizes = {key: int(value) for key, value in re.findall(r"\b([pmv])=(\d+)", text[: text.index("rank 0")])}
    rows = re.findall(r"rank (\d)  (.*)", text)
    assert len(rows) == sizes["p"]
    for rank, row in rows:
        drawn = [token for token, _ in groupby(re.findall(r"[FBIW]\d+:?", row))]
        steps = schedule.steps(int(rank), sizes["p"], sizes["m"], sizes.get("v"))
        done = [f"{LETTERS[type(a)]}{a.microbatch}{':' if a.chunk else ''}" for step in steps for a in step]
        assert drawn == done


def test_placements():
    assert [[loop(rank, c, 4) for c in range(2)] for rank in range(4)] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert [[vee(rank, c, 4) for c in range(2)] for rank in range(4)] == [[0, 7], [1, 6], [2, 5], [3, 4]]


def test_naive_lets_one_rank_work_at_a_time():
    assert find("naive").steps(1, 3, 2) == [(Forward(0),), (Backward(0),), (Forward(1),), (Backward(1),)]


def test_interleaved_runs_twice_as_far_ahead_as_1f1b():
    """Megatron's count: 2(p-r-1) + (v-1)p forwards before the first turn of forward and backward."""
    for p, v in [(2, 2), (4, 2), (4, 3)]:
        for rank in range(p):
            steps = find("interleaved").steps(rank, p, 4 * p, v)
            first = next(number for number, (action,) in enumerate(steps) if isinstance(action, Backward))
            assert first == 2 * (p - rank - 1) + (v - 1) * p + 1


# messages


def test_the_messages_of_two_ranks():
    """1F1B, p=2, m=2, as drawn in ``transfers``."""
    turns = with_transfers(find("1f1b"), 2, 2)

    def told(turn):
        if not isinstance(turn, Exchange):
            return "".join(f"{LETTERS[type(action)]}{action.microbatch}" for action in turn)
        return [[f"{t.kind[0]}{t.microbatch}" for t in transfers] for transfers in (turn.sends, turn.receives)]

    assert [told(turn) for turn in turns[0]] == ["F0", [["a0"], []], "F1", [["a1"], ["g0"]], "B0", [[], ["g1"]], "B1"]
    assert [told(turn) for turn in turns[1]] == [
        [[], ["a0"]],
        "F0",
        [[], ["a1"]],
        "B0",
        [["g0"], []],
        "F1",
        "B1",
        [["g1"], []],
    ]


@pytest.mark.parametrize("name", NAMES)
def test_messages_match_and_nothing_is_sent_to_oneself(name):
    for schedule, p, m, v in all_sizes(name):
        stages = Stages(schedule, p, v)
        crossings = sum(stages.home[s][0] != stages.home[s + 1][0] for s in range(stages.count - 1))
        sent, received = defaultdict(list), defaultdict(list)
        for rank, program in enumerate(with_transfers(schedule, p, m, v)):
            for turn in program:
                if isinstance(turn, Exchange):
                    for transfer in turn.sends:
                        assert transfer.source == rank != transfer.to
                        sent[rank, transfer.to].append(transfer)
                    for transfer in turn.receives:
                        assert transfer.to == rank != transfer.source
                        received[transfer.source, rank].append(transfer)
        assert sent == received
        assert sum(map(len, sent.values())) == 2 * m * crossings


@pytest.mark.parametrize("name", NAMES)
def test_exchanges_one_after_the_other_never_deadlock(name):
    """An engine of its own: a rank blocks in each exchange until every message of it has met its other end.

    Ranks are resumed in random order; a message is moved when both of its ends are open.
    """
    shuffled = random.Random(name)
    for schedule, p, m, v in [(find(name), p, m, None) for p, m in [(2, 3), (3, 7), (4, 4), (5, 12), (6, 13)]]:
        turns = [list(program) for program in with_transfers(schedule, p, m, v)]
        stages, held = Stages(schedule, p, v), [set() for _ in range(p)]
        left = [None] * p
        while any(turns):
            moved = False
            for rank in shuffled.sample(range(p), p):
                if not turns[rank]:
                    continue
                turn = turns[rank][0]
                if not isinstance(turn, Exchange):
                    for action in turn:
                        needed = stages.takes(rank, action)
                        assert needed is None or needed.source == rank or needed in held[rank]
                    turns[rank].pop(0)
                    moved = True
                    continue
                if left[rank] is None:
                    left[rank] = {*turn.sends, *turn.receives}
                for transfer in sorted(left[rank]):
                    peer = transfer.to if transfer.source == rank else transfer.source
                    if left[peer] and transfer in left[peer]:
                        left[rank].remove(transfer)
                        left[peer].remove(transfer)
                        held[transfer.to].add(transfer)
                        moved = True
                for end in range(p):
                    if left[end] is not None and not left[end]:
                        left[end] = None
                        turns[end].pop(0)
                        moved = True
            assert moved, f"{name} p={p} m={m} is stuck"


def test_receiving_only_what_the_next_step_needs_would_deadlock():
    """Why an exchange takes what is sent now: looped BFS with more microbatches than ranks, received when needed."""
    schedule, p, m = find("looped"), 2, 4
    stages = Stages(schedule, p)
    turns = []
    for rank in range(p):
        steps = schedule.steps(rank, p, m)
        gives = [[t for a in step if (t := stages.gives(rank, a)) and t.to != rank] for step in steps]
        needs = [[t for a in step if (t := stages.takes(rank, a)) and t.source != rank] for step in steps]
        turns.append([])
        for number in range(len(steps) + 1):
            sends = tuple(gives[number - 1]) if number else ()
            receives = tuple(needs[number]) if number < len(steps) else ()
            turns[rank] += [Exchange(sends, receives)] if sends or receives else []
            turns[rank] += steps[number : number + 1]
    with pytest.raises(
        ScheduleError, match="deadlock of messages: rank 0 waits for rank 1, which waits for rank 0"
    ) as caught:
        check_exchanges(turns, stages)
    assert caught.value.kind == "deadlock"


def test_wrong_exchanges_are_refused():
    schedule = find("1f1b")
    stages = Stages(schedule, 2)

    def turns():
        return [list(program) for program in with_transfers(schedule, 2, 2)]

    missing = turns()
    missing[1][0] = Exchange((), ())
    with pytest.raises(ScheduleError, match="message 0 from rank 0 to rank 1: the activation of microbatch 0"):
        check_exchanges(missing, stages)
    late = turns()
    late[1][0], late[1][1] = late[1][1], late[1][0]
    with pytest.raises(ScheduleError, match=r"rank 1: Forward\(microbatch=0, chunk=0\) runs before the activation"):
        check_exchanges(late, stages)
    fewer = turns()
    fewer[1].pop()
    with pytest.raises(ScheduleError, match="rank 1 sends 1 messages to rank 0, which receives 2; add what is missing"):
        check_exchanges(fewer, stages)


# faults


def planted(change, base="1f1b", **options):
    """The schedule ``base`` with the steps of each rank changed."""
    schedule = find(base)

    def program(rank, ranks, microbatches, chunks):
        return change(rank, schedule.steps(rank, ranks, microbatches, chunks))

    return PipelineSchedule(
        "mine", program, options.get("placement", schedule.placement), schedule.chunks, schedule.flexible
    )


def without(rank, action):
    return lambda r, steps: [step for step in steps if r != rank or step != (action,)]


def swapped(rank, one, other):
    def change(r, steps):
        if r == rank:
            a, b = steps.index((one,)), steps.index((other,))
            steps[a], steps[b] = steps[b], steps[a]
        return steps

    return change


def replaced(rank, one, *others):
    return lambda r, steps: [s for step in steps for s in ([*others] if r == rank and step == (one,) else [step])]


@pytest.mark.parametrize(
    ("schedule", "kind", "sentence"),
    [
        (
            planted(without(1, Backward(2))),
            "missing",
            "mine: rank 1: Backward(microbatch=2, chunk=0) is missing; add it",
        ),
        (
            planted(without(2, Forward(1))),
            "missing",
            "mine: rank 2: Forward(microbatch=1, chunk=0) is missing; add it",
        ),
        (
            planted(without(0, BackwardWeight(3)), "zb-h1"),
            "missing",
            "rank 0: BackwardWeight(microbatch=3, chunk=0) is missing; add it after its BackwardInput",
        ),
        (
            planted(swapped(0, BackwardInput(0), BackwardWeight(0)), "zb-h1"),
            "order",
            "BackwardWeight(microbatch=0, chunk=0) comes before BackwardInput(microbatch=0, chunk=0)",
        ),
        (planted(replaced(1, Forward(0), Forward(0), Forward(0))), "duplicate", "rank 1, step 1: Forward(microbatch=0"),
        (
            planted(replaced(1, Backward(0), Backward(0), BackwardInput(0))),
            "duplicate",
            "BackwardInput(microbatch=0, chunk=0) is a second backward",
        ),
        (
            planted(replaced(1, Backward(0), Backward(0), BackwardWeight(0))),
            "duplicate",
            "BackwardWeight(microbatch=0, chunk=0) is a second backward",
        ),
        (
            planted(without(1, BackwardInput(2)), "zb-h1"),
            "missing",
            "rank 1: BackwardInput(microbatch=2, chunk=0) is missing",
        ),
        (planted(replaced(1, Forward(0), Forward(9))), "order", "Forward(microbatch=9, chunk=0) does not exist"),
        (planted(replaced(1, Forward(0), "forward")), "order", "step 0 of rank 1 is 'forward'; yield Forward"),
    ],
)
def test_a_planted_fault_is_named(schedule, kind, sentence):
    with pytest.raises(ScheduleError) as caught:
        validate(schedule, 3, 4)
    assert sentence in str(caught.value)
    assert caught.value.kind == kind


def test_ranks_that_wait_for_each_other():
    """Rank 1 wants microbatch 1 forward before it gives the gradient of 0, which rank 0 wants first."""

    def program(rank, ranks, microbatches, chunks):
        if rank == 0:
            return [Forward(0), Backward(0), Forward(1), Backward(1)]
        return [Forward(0), Forward(1), Backward(0), Backward(1)]

    with pytest.raises(ScheduleError) as caught:
        validate(PipelineSchedule("mine", program), 2, 2)
    assert str(caught.value) == (
        "mine: deadlock: rank 0 at step 1, Backward(microbatch=0, chunk=0), waits for the gradient of microbatch 0 for "
        "stage 0 from rank 1; rank 1 at step 1, Forward(microbatch=1, chunk=0), waits for the activation of microbatch "
        "1 for stage 1 from rank 0; let one of them do first what the next waits for"
    )
    assert (caught.value.kind, caught.value.rank, caught.value.step) == ("deadlock", 0, 1)


def test_a_rank_that_waits_for_itself():
    def program(rank, ranks, microbatches, chunks):
        return [Forward(0, 1), Forward(0, 0), Backward(0, 1), Backward(0, 0)]

    with pytest.raises(ScheduleError, match=r"rank 0 at step 0, .* waits for the activation .* from itself; do first"):
        validate(PipelineSchedule("mine", program, vee, 2), 1, 1)


def test_an_overlapped_pair_cannot_feed_itself():
    def program(rank, ranks, microbatches, chunks):
        return [(Forward(0, 0), Forward(0, 1)), Backward(0, 1), Backward(0, 0)]

    with pytest.raises(ScheduleError, match="deadlock"):
        validate(PipelineSchedule("mine", program, vee, 2), 1, 1)


def test_something_that_never_comes():
    schedule = planted(lambda rank, steps: steps[:-1] if rank == 0 else steps, "naive")
    schedule = planted(without(0, Forward(3)), schedule)
    with pytest.raises(ScheduleError, match="stage 1 from rank 0, which never gives it; let rank 0 compute it"):
        with_transfers(schedule, 2, 4)


def test_a_wrong_placement():
    with pytest.raises(ScheduleError, match="chunk 0 of rank 1 is placed on virtual stage 0, so is chunk 0 of rank 0"):
        validate(planted(lambda rank, steps: steps, placement=lambda rank, chunk, ranks: 0), 2, 2)
    with pytest.raises(ScheduleError, match="chunk 0 of rank 1 is placed on virtual stage 2, no such"):
        validate(planted(lambda rank, steps: steps, placement=lambda rank, chunk, ranks: 2 * rank), 2, 2)
    # a placement that is possible, but not the one for which the program was written
    with pytest.raises(ScheduleError, match="deadlock"):
        validate(planted(lambda rank, steps: steps, "zbv", placement=loop), 4, 8)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("1f1b", 0, 4), "ranks=0: a pipeline has at least 1 stage"),
        (("1f1b", 4, 0), "microbatches=0: a step has at least 1 microbatch"),
        (("1f1b", 4, 4, 2), "chunks=2 of 1f1b: a rank holds 1 chunk; leave it away"),
        (("zbv", 4, 4, 3), "chunks=3 of zbv: a rank holds 2 chunks"),
        (("interleaved", 4, 4, 0), "chunks=0 of interleaved: use a number from 1 on"),
    ],
)
def test_impossible_numbers(arguments, sentence):
    name, *numbers = arguments
    with pytest.raises(ValueError, match=re.escape(sentence)):
        validate(find(name), *numbers)


def test_names_and_files(tmp_path):
    with pytest.raises(ValueError, match=r"schedule 'interleave' is unknown: use interleaved, or FILE.py:name"):
        find("interleave")
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from parallel.pipeline import Backward, Forward\n"
        "def program(rank, ranks, microbatches, chunks):\n"
        "    for i in range(microbatches):\n"
        "        yield Forward(i)\n"
        "    for i in range(microbatches):\n"
        "        yield Backward(i)\n"
        "number = 3\n"
    )
    assert find(f"{mine}:program").steps(0, 2, 3) == find("gpipe").steps(0, 2, 3)
    with pytest.raises(ValueError, match="there is no 'programme' in it; did you mean program"):
        find(f"{mine}:programme")
    with pytest.raises(ValueError, match="is of type int: use a PipelineSchedule or a function"):
        find(f"{mine}:number")
    assert find(find("1f1b")) is not None


def test_schedules_need_no_torch():
    code = (
        "import sys\n"
        "from parallel.pipeline import find, validate\n"
        "validate(find('zbv'), 4, 8)\n"
        "assert not {'torch', 'numpy', 'networkx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
