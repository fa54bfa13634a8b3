"""Pipeline schedules on a clock, against closed forms, published numbers and an evaluator of another kind."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from fractions import Fraction

import networkx
import pytest

from collectives.errors import ScheduleError
from collectives.span import chrome_trace
from parallel.pipeline import (
    Backward,
    BackwardInput,
    BackwardWeight,
    Forward,
    PipelineSchedule,
    Stages,
    find,
    schedules,
)
from sim.draw.chart import chart
from sim.draw.html import pack
from sim.draw.rows import rows_of
from sim.draw.shapes import Text
from sim.pipeline import Times, play, simulate
from sim.pipeline_replay import replay

NAMES = [schedule.name for schedule in schedules()]
SIZES = [(p, m) for p in range(1, 7) for m in range(1, 14)]
FOUR = [(4, 12), (8, 24), (8, 64), (16, 64)]
UNEQUAL = [(1, 2, 1), (2, 3, 1), (3, 7, 2), (5, 4, 2), (2, 6, 4), (1, 8, 5)]  # forward, backward, weight


def near(value):
    return pytest.approx(float(value), rel=1e-9)


# closed forms


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_gpipe_and_1f1b(p, m):
    for forward, backward, _ in UNEQUAL:
        for name in ("gpipe", "1f1b"):
            run = simulate(name, p, m, times=Times(forward, backward))
            assert run.makespan == run.stage_span == near((m + p - 1) * (forward + backward))
            assert run.stage_span - m * (forward + backward) == near((p - 1) * (forward + backward))
            assert run.bubble_fraction == pytest.approx((p - 1) / (m + p - 1), abs=1e-12)
            assert run.bubble_over_ideal == pytest.approx((p - 1) / m, abs=1e-12)
            assert run.messages == 2 * m * (p - 1)
    assert simulate("gpipe", p, m).peak_activations == [m] * p
    assert simulate("1f1b", p, m).peak_activations == [min(m, p - rank) for rank in range(p)]


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_naive(p, m):
    run = simulate("naive", p, m)
    assert run.makespan == m * p * 3
    assert run.bubble_fraction == near(1 - Fraction(1, p)) if p > 1 else run.bubble_fraction == 0
    assert run.peak_activations == [1] * p


@pytest.mark.parametrize("v", [1, 2, 3, 4])
@pytest.mark.parametrize("p", range(1, 7))
def test_interleaved_and_looped(p, v):
    for m in range(p, 5 * p, p):
        for name in ("interleaved", "looped"):
            run = simulate(name, p, m, v)
            assert run.stage_span == near(3 * m + Fraction(3 * (p - 1), v))
            assert run.bubble_fraction == pytest.approx((p - 1) / (v * m + p - 1), abs=1e-12)
            assert run.bubble_over_ideal == pytest.approx((p - 1) / (v * m), abs=1e-12)
            assert run.messages == 2 * m * (p * v - 1) if p > 1 else run.messages == 0
        held = simulate("interleaved", p, m, v).peak_activations
        if m >= 2 * p:
            assert held[0] == near(p * (1 + Fraction(p - 1, p * v)))
        assert held == [near(min(Fraction(2 * (p - rank - 1) + (v - 1) * p + 1, v), m)) for rank in range(p)]
        assert simulate("looped", p, m, v).peak_activations == [near(m)] * p


def test_interleaved_with_a_last_round_that_is_not_full():
    """No worse than to fill it up."""
    for p in range(1, 7):
        for m in range(1, 14):
            for v in (1, 2, 3):
                full = simulate("interleaved", p, -(-m // p) * p, v)
                assert simulate("interleaved", p, m, v).makespan <= full.makespan + 1e-9
    with_one_chunk = simulate("interleaved", 4, 12, 1)
    assert with_one_chunk.makespan == simulate("1f1b", 4, 12).makespan


@pytest.mark.parametrize("p", range(1, 7))
def test_zero_bubble_1_and_2(p):
    """(p-1)(F+I-W) and (p-1)(F+I-2W), and what cannot be less: the wait for the first gradient."""
    for m in range(2 * p, 14):
        for forward, backward, weight in UNEQUAL:
            times, inputs = Times(forward, backward, weight), backward - weight
            ideal = m * (forward + backward)
            one, two = simulate("zb-h1", p, m, times=times), simulate("zb-h2", p, m, times=times)
            assert one.stage_span - ideal == near((p - 1) * max(inputs, forward + inputs - weight))
            assert two.stage_span - ideal == near((p - 1) * max(0, inputs - forward, forward + inputs - 2 * weight))
            if weight <= forward:  # the papers' formulas, also in the other notation, where B is the whole backward
                assert one.stage_span - ideal == near((p - 1) * (forward + backward - 2 * weight))


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_what_zero_bubble_schedules_hold(p, m):
    assert simulate("zb-h1", p, m).peak_activations == [min(m, p)] * p
    assert simulate("zb-h2", p, m).peak_activations == [min(m, 2 * p - 1)] * p
    assert max(simulate("zbv", p, m).peak_activations) <= min(m, p)
    assert max(simulate("dualpipev", p, m).peak_activations) <= min(m, p + 0.5)
    assert max(simulate("v-half", p, m).peak_activations) <= min(m, p / 2 + 1.5)
    assert max(simulate("v-min", p, m).peak_activations) <= min(m, p / 3 + 4 / 3)


@pytest.mark.parametrize(("p", "m"), FOUR)
def test_zero_bubble_as_measured_with_their_own_scheduler(p, m):
    times = Times(1000, 2000, 1000)
    published = {(4, 12): 39000, (8, 24): 79000, (8, 64): 199000, (16, 64): 207000}
    assert simulate("zb-h1", p, m, times=times).stage_span == published[p, m]
    assert simulate("zb-h2", p, m, times=times).stage_span == 3000 * m
    assert simulate("zbv", p, m, times=times).stage_span == 3000 * m
    assert simulate("zbv", p, m, times=times).bubble_fraction == 0
    assert simulate("zb-h2", p, m, times=times).makespan == 1000 * (3 * m + p - 1)


@pytest.mark.parametrize(
    ("p", "m", "plain", "zero"), [(4, 16, 57, 51), (8, 64, 213, 199), (16, 64, 237, 207), (64, 512, 1725, 1599)]
)
def test_makespans_of_another_tool(p, m, plain, zero):
    """Its times are makespans. For ZB-H1 with F = I = W the stage span is the same number."""
    assert simulate("1f1b", p, m).makespan == plain == 3 * (m + p - 1)
    assert simulate("zb-h1", p, m).makespan == zero == 3 * m + p - 1
    assert simulate("zb-h1", p, m).stage_span == zero


def test_thirds_halves_and_two_thirds_of_the_bubble_are_approximations():
    for p in (8, 16, 32):
        bubbles = {name: simulate(name, p, 3 * p).stage_span - 9 * p for name in ("1f1b", "zb-h1", "v-half", "v-min")}
        assert bubbles["zb-h1"] == near(bubbles["1f1b"] / 3)
        assert 0.5 <= bubbles["v-half"] / bubbles["1f1b"] < 0.6
        assert 0.6 < bubbles["v-min"] / bubbles["1f1b"] < 0.7
        assert max(simulate("v-half", p, 3 * p).peak_activations) == near(p / 2 + 1.5)


@pytest.mark.parametrize("p", range(1, 7))
def test_dualpipev(p):
    """(p-1)(F&B + B - 3W) in times of a chunk, if F = W and overlap is worth nothing; less if it is worth something."""
    for m in (2 * p, 2 * p + 3):
        run = simulate("dualpipev", p, m)
        assert run.stage_span - 3 * m == near((p - 1) * (1.5 + 1 - 1.5))
        assert run.peak_activations == [near(p + 0.5)] * p
        assert simulate("dualpipev", p, m, times=Times(overlap="max")).stage_span < run.stage_span


# an evaluator of another kind


def longest_paths(schedule, p, m, v, times):
    """Every step a node, every wait an edge, a link's messages in a chain: ends are longest paths."""
    stages, graph, ends_of = Stages(schedule, p, v), networkx.DiGraph(), {}
    programs = [schedule.steps(rank, p, m, v) for rank in range(p)]
    one = {
        Forward: times.forward,
        Backward: times.backward,
        BackwardInput: times.backward - times.weight,
        BackwardWeight: times.weight,
    }
    made = {}
    for rank, program in enumerate(programs):
        last_on_link = {}
        for number, step in enumerate(program):
            parts = [one[type(action)] for action in step]
            cost = (sum(parts) if times.overlap == "sum" else max(parts)) * times.straggler.get(rank, 1) / stages.chunks
            graph.add_node((rank, number), cost=cost)
            if number:
                graph.add_edge((rank, number - 1), (rank, number))
            for action in step:
                stage = stages.stage[rank][action.chunk]
                target = stage + 1 if isinstance(action, Forward) else stage - 1
                if isinstance(action, BackwardWeight) or not 0 <= target < stages.count:
                    continue
                to = stages.home[target][0]
                key = isinstance(action, Forward), action.microbatch, target
                made[key] = (rank, number)
                if to != rank:
                    made[key] = key
                    graph.add_node(key, cost=times.p2p)
                    graph.add_edge((rank, number), key)
                    if to in last_on_link:
                        graph.add_edge(last_on_link[to], key)
                    last_on_link[to] = key
    for rank, program in enumerate(programs):
        for number, step in enumerate(program):
            for action in step:
                key = isinstance(action, Forward), action.microbatch, stages.stage[rank][action.chunk]
                if key in made and not isinstance(action, BackwardWeight):
                    graph.add_edge(made[key], (rank, number))
    for node in networkx.topological_sort(graph):
        before = max((ends_of[other] for other in graph.predecessors(node)), default=0.0)
        ends_of[node] = before + graph.nodes[node]["cost"]
    return [[ends_of[rank, number] for number in range(len(program))] for rank, program in enumerate(programs)]


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_agrees_with_longest_paths(name):
    draw = random.Random(name)
    schedule = find(name)
    for _ in range(40):
        p, m = draw.randint(1, 6), draw.randint(1, 13)
        v = draw.randint(1, 3) if schedule.flexible else schedule.chunks
        backward = draw.uniform(0.5, 4)
        times = Times(
            draw.uniform(0.5, 2),
            backward,
            draw.uniform(0, backward),
            draw.choice([0, draw.uniform(0, 1)]),
            draw.choice(["sum", "max"]),
            straggler={draw.randrange(p): draw.uniform(1, 3)},
        )
        run = simulate(schedule, p, m, v, times)
        for ours, theirs in zip(run.ends, longest_paths(schedule, p, m, v, times), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-9)


# what the options do


def test_a_slow_rank_slows_all():
    run, slow = simulate("1f1b", 4, 32), simulate("1f1b", 4, 32, times=Times(straggler={2: 2}))
    assert slow.makespan > 1.8 * run.makespan
    assert slow.busy == run.busy + 32 * 3


def test_the_optimizer_and_the_synchronisation_before_it():
    """ZB-H2 gains by ranks that end one after the other; a synchronisation takes that away."""
    p, m = 4, 12
    free = simulate("zb-h2", p, m, times=Times(optimizer=2))
    assert free.optimizers == [(36.0 + rank, 38.0 + rank) for rank in range(p)]
    assert (free.makespan, free.stage_span, free.step_time, free.sync_wait) == (41, 36, 38, 0)
    synced = simulate("zb-h2", p, m, times=Times(optimizer=2, sync=True))
    assert synced.optimizers == [(39.0, 41.0)] * p
    assert (synced.makespan, synced.stage_span, synced.step_time, synced.sync_wait) == (41, 36, 41, 3 + 2 + 1)
    assert simulate("zb-h2", p, m).optimizers == []


def test_transfers_take_turns_on_a_link():
    run = simulate("gpipe", 2, 3, times=Times(forward=1, backward=2, p2p=5))
    forwards = [(start, end) for transfer, start, end in run.transfers if transfer.kind == "activation"]
    assert forwards == [(1, 6), (6, 11), (11, 16)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"forward": -1}, r"forward=-1: a time is a number of seconds from 0 to 1e\+09"),
        ({"optimizer": 1e308}, r"optimizer=1e\+308: a time is"),
        ({"weight": float("inf")}, "weight=inf: a time is"),
        ({"p2p": float("nan")}, "p2p=nan: a time is"),
        ({"backward": 2, "weight": 3}, "weight=3: it is a part of backward=2; use at most that"),
        ({"forward": 0, "backward": 0}, "forward=0 and backward=0: nothing takes time"),
        ({"overlap": "none"}, "overlap='none': use sum or max"),
        ({"straggler": {1: 0.5}}, "straggler of rank 1=0.5: give how many times slower it is, from 1 on"),
        ({"straggler": {1: float("nan")}}, "straggler of rank 1=nan: give how many times slower"),
    ],
)
def test_times_that_make_no_sense(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Times(**arguments)


def test_a_wrong_schedule_is_refused():
    def program(rank, ranks, microbatches, chunks):
        return [Forward(i) for i in range(microbatches)]

    with pytest.raises(ScheduleError, match=r"rank 0: Backward\(microbatch=0, chunk=0\) is missing"):
        simulate(PipelineSchedule("mine", program), 2, 2)
    with pytest.raises(ValueError, match="straggler of rank 7: there are ranks 0 to 3"):
        simulate("1f1b", 4, 8, times=Times(straggler={7: 2}))


# what is drawn


def test_the_record_of_a_run():
    drawn = replay(simulate("1f1b", 2, 2, times=Times(p2p=0.5, optimizer=1)))
    boxes = [(span.name, span.start, span.end) for span in drawn.spans if span.rank == 1 and span.stream == "compute"]
    assert boxes == [
        ("F 0", 1.5, 2.5),
        ("B 0", 2.5, 4.5),
        ("F 1", 4.5, 5.5),
        ("B 1", 5.5, 7.5),
        ("optimizer", 7.5, 8.5),
    ]
    send, recv = (next(span for span in drawn.spans if span.stream == stream) for stream in ("send", "recv"))
    assert (send.rank, recv.rank, send.link, send.message) == (0, 1, "0->1", recv.message)
    assert drawn.names == ["stage 0", "stage 1"]
    assert [(curve.times, curve.values) for curve in drawn.memory][1] == ([0, 1.5, 4.5, 7.5], [0, 1, 1, 0])
    assert drawn.facts["makespan"] == simulate("1f1b", 2, 2, times=Times(p2p=0.5, optimizer=1)).makespan


def test_the_wait_before_the_optimizer_is_drawn():
    for optimizer in (0, 2):
        drawn = replay(simulate("zb-h2", 4, 12, times=Times(optimizer=optimizer, sync=True)))
        waits = [(span.rank, span.stream, span.start, span.end) for span in drawn.spans if span.name == "sync"]
        assert waits == [(0, "compute", 36, 39), (1, "compute", 37, 39), (2, "compute", 38, 39)]
        assert max(span.end for span in drawn.spans) == 39 + optimizer
        assert {"S  sync wait", "sync"} <= {shape.text for shape in chart(drawn).shapes if isinstance(shape, Text)}
        assert {"S", "O"} >= {style[0] for style in pack(drawn)["styles"]} - {"F", "I", "W"} >= {"S"}
    assert not any(span.name == "sync" for span in replay(simulate("zb-h2", 4, 12, times=Times(optimizer=2))).spans)


def test_a_trace_has_arrows_also_if_transfers_take_no_time(tmp_path):
    run = simulate("1f1b", 3, 2)
    drawn = replay(run)
    boxes = [span for span in drawn.spans if span.stream == "compute"]
    messages = {}
    for span in drawn.spans:
        if span.stream != "compute":
            assert span.start == span.end
            messages.setdefault(span.message, {})[span.stream] = span
    assert len(messages) == run.messages == 8
    for ends in messages.values():
        send, recv = ends["send"], ends["recv"]
        letter = "F" if send.name.startswith("activation") else "B"
        name = f"{letter} {send.name.split()[1]}"
        assert any((box.rank, box.name, box.end) == (send.rank, name, send.end) for box in boxes)
        assert any((box.rank, box.name, box.start) == (recv.rank, name, recv.start) for box in boxes)
        assert abs(send.rank - recv.rank) == 1
    events = chrome_trace(drawn.spans)["traceEvents"]
    assert sum(event["ph"] == "s" for event in events) == sum(event["ph"] == "f" for event in events) == 8
    assert {row.stream for row in rows_of(drawn)} == {"compute"}


def test_what_ranks_hold_is_told_in_short():
    assert replay(simulate("1f1b", 4, 8)).facts["peak_activations"] == "4, 3, 2, 1"
    assert replay(simulate("1f1b", 9, 9)).facts["peak_activations"] == "at most 9"


@pytest.mark.parametrize(("overlap", "lengths"), [("sum", (0.5, 1.0)), ("max", (1.0, 1.0))])
def test_overlapped_pairs_are_drawn(overlap, lengths):
    spans = replay(simulate("dualpipev", 2, 6, times=Times(overlap=overlap))).spans
    pair = [span for span in spans if span.rank == 0 and span.name in ("F 3 c0", "B 1 c1")]
    assert tuple(span.end - span.start for span in pair) == lengths


# the command


def command(*args, status=0):
    ran = subprocess.run([sys.executable, "-m", "sim", "pipeline", *args], capture_output=True, text=True, timeout=100)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout if status == 0 else ran.stderr


def test_the_json_of_the_command(tmp_path):
    told = json.loads(
        command("--schedule", "interleaved", "--chunks", "2", "--stages", "4", "--microbatches", "8", "--json")
    )
    assert told["makespan"] == told["stage_span"] == 28.5
    assert told["bubble_fraction"] == pytest.approx(3 / 19)
    assert told["bubble_over_ideal"] == pytest.approx(3 / 16)
    assert told["peak_activations"] == [5.5, 4.5, 3.5, 2.5]
    assert (told["schedule"], told["stages"], told["microbatches"], told["chunks"]) == ("interleaved", 4, 8, 2)
    assert told["simulated_s"] > 0
    target = tmp_path / "told.json"
    out = command("--stages", "4", "--microbatches", "12", "--schedule", "zbv", "--weight", "1", "--json", str(target))
    assert "F forward" in out
    assert json.loads(target.read_text())["bubble_fraction"] == 0


def test_the_chart_and_the_numbers():
    out = command("--schedule", "1f1b", "--stages", "4", "--microbatches", "8")
    assert "27.27%" in out
    assert "stage 3" in out
    assert "at most 4, 3, 2, 1 microbatches" in out
    assert "sync wait" not in out
    out = command("--schedule", "naive", "--microbatches", "1", "--sync")
    assert "4 stages, 1 microbatch:" in out
    assert "at most 1 microbatch on each rank" in out
    assert "S sync wait" in out
    assert "sync wait     12 s of all ranks together" in out
    assert "F0B0──sync────────" in out
    assert "stage 3" in out


def test_comparing_at_equal_memory():
    told = json.loads(command("--compare", "all", "--stages", "8", "--microbatches", "24", "--json", "-"))
    assert told["memory"] == 8
    rows = told["rows"]
    assert {row["schedule"] for row in rows} == set(NAMES)
    fitting = [row for row in rows if row["fits"]]
    assert rows[: len(fitting)] == fitting
    assert [row["step_time"] for row in fitting] == sorted(row["step_time"] for row in fitting)
    assert fitting[0]["schedule"] == "zbv"
    assert [row["chunks"] for row in rows if row["schedule"] == "interleaved"] == [8, 4, 2]
    out = command("--compare", "1f1b,zb-h2", "--memory", "16", "--stages", "8", "--microbatches", "24", "--sync")
    assert "the fastest that fits: zb-h2, 79 s a step" in out


def test_every_schedule_takes_every_option():
    words = "--chunks 2 --forward 1 --backward 2 --weight 1 --p2p 0 --overlap sum --json"
    for name in NAMES:
        said = subprocess.run(
            [sys.executable, "-m", "sim", "pipeline", "--schedule", name, *words.split()],
            capture_output=True,
            text=True,
            check=True,
        )
        chunks = json.loads(said.stdout)["chunks"]
        assert (chunks == 2) != ("--chunks 2 is left out" in said.stderr)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--schedule", "zb-h3"], "schedule 'zb-h3' is unknown: use zb-h2, zb-h1"),
        (["--stages", "0"], "--stages 0: use a number from 1 on"),
        (["--microbatches", "0"], "--microbatches 0: use a number from 1 on"),
        (["--forward", "-1"], "--forward '-1': write a time like"),
        (["--weight", "3"], "weight=3: it is a part of backward=2; use at most that"),
        (["--straggler", "2"], "--straggler '2': write RANK=FACTOR, like 2=1.5"),
        (["--compare", ","], "--compare ',': write all, or names like 1f1b,zbv"),
        (["--memory", "8"], "--memory 8: it goes with --compare"),
        (["--compare", "all", "--svg", "a.svg"], "draw one schedule"),
        (["--overlap", "none"], "invalid choice: 'none'"),
        (["--json", "/nowhere/a.json"], "does not exist; make it first"),
        (["--forward", "1e308"], "forward"),
        (["--forward", "inf"], "--forward 'inf': write a time like"),
        (["--straggler", "1=0.5"], "straggler of rank 1=0.5: give how many times slower"),
        (["--svg", "x.jpg"], "--svg x.jpg: use a name that ends in .svg or .png"),
        (["--schedule", "/nowhere/mine.py:program"], "error: schedule file '/nowhere/mine.py' does not exist"),
    ],
)
def test_wrong_arguments_are_one_line(args, sentence):
    error = command(*args, status=2)
    assert sentence in error
    assert error.count("\n") == 1


def test_a_users_own_schedule(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from parallel.pipeline import Backward, Forward\n"
        "def eager(rank, ranks, microbatches, chunks):\n"
        "    for i in range(microbatches):\n"
        "        yield Forward(i)\n"
        "    for i in reversed(range(microbatches)):\n"
        "        yield Backward(i)\n"
        "def wrong(rank, ranks, microbatches, chunks):\n"
        "    for i in range(microbatches):\n"
        "        yield Forward(i)\n"
    )
    mine.write_text(
        mine.read_text() + "def fails(rank, ranks, microbatches, chunks):\n"
        "    yield Forward(0)\n"
        "    raise RuntimeError('no more')\n"
        "def short(rank, ranks):\n"
        "    return []\n"
    )
    error = command("--schedule", f"{mine}:fails", status=2)
    assert error == "error: the program of fails raised RuntimeError: no more, on rank 0 of 4 after 1 step\n"
    error = command("--schedule", f"{mine}:short", status=2)
    assert error.startswith("error: the program of short raised TypeError: ")
    assert error.count("\n") == 1
    assert "there is no 'eagre' in it; did you mean eager?" in command("--schedule", f"{mine}:eagre", status=2)
    told = json.loads(command("--schedule", f"{mine}:eager", "--json"))
    assert told["makespan"] == 33
    assert "eager" in command("--compare", f"1f1b,{mine}:eager")
    assert "is wrong (missing)" in command("--schedule", f"{mine}:wrong", status=1)


def test_files_are_drawn(tmp_path):
    files = [tmp_path / name for name in ("run.json", "run.svg", "run.html")]
    command(
        "--schedule", "zbv", "--p2p", "0.1", "--trace", str(files[0]), "--svg", str(files[1]), "--html", str(files[2])
    )
    assert all(file.stat().st_size > 1000 for file in files)
    events = json.loads(files[0].read_text())["traceEvents"]
    assert {"F 0 c0", "I 7 c1", "W 7 c0"} <= {event["name"] for event in events}


def test_a_schedule_that_stands_still_is_played_as_far_as_it_gets():
    def program(rank, ranks, microbatches, chunks):
        yield Forward(0)
        if rank == 1:
            yield Forward(1)  # which rank 0 does after its backward
        yield Backward(0)
        if rank == 0:
            yield Forward(1)
        yield Backward(1)

    run = play(PipelineSchedule("stuck", program), 2, 2)
    assert run.steps == [[(Forward(0),)], [(Forward(0),)]]
    assert (run.starts, run.ends) == ([[0], [1]], [[1], [2]])
    whole = play(find("1f1b"), 3, 4)
    assert (whole.steps, whole.ends) == (simulate("1f1b", 3, 4).steps, simulate("1f1b", 3, 4).ends)


def test_the_simulator_needs_no_torch():
    code = (
        "import sys\n"
        "from sim.__main__ import DOOR\n"
        "assert DOOR.main(['pipeline', '--compare', '1f1b,zbv', '--json', '-']) == 0\n"
        "assert not {'torch', 'numpy', 'networkx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
