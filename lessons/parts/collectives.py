"""Lessons 0 to 7: messages, the eight operators, the ring, what it costs, and what beats it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from ..checks.bare import Bare
from ..checks.formula import Formula
from ..checks.limit import Limit, PerRanks
from ..checks.measured import Measured
from ..checks.program import Program
from ..figures import Operators, Run, Steps, Sweep, Waits
from ..lesson import Lesson, Twin


def _log2(n: int) -> int:
    return (n - 1).bit_length()


def _one(n: int) -> int:
    """Neighbours to whom one sends in a ring."""
    return 1


def _share(n: int) -> Fraction:
    return Fraction(n - 1, n)


def _local(n: int) -> int:
    """Ranks a node of n ranks: more nodes than ranks in them, as many, and fewer."""
    return {3: 3, 4: 2, 6: 3, 8: 2, 9: 3, 12: 4}.get(n, 1)


def _levels(n: int) -> int:
    """Steps of rings inside nodes and between them."""
    return 2 * (_local(n) + n // _local(n) - 2)


def _across(n: int) -> Fraction:
    """Of the buffer, over the ring between the nodes: of one block in ``local``, twice all but the rank's own share."""
    nodes = n // _local(n)
    return 2 * _share(nodes) / _local(n)


# the eight operators, each before its dual, and what the busiest rank sends of the buffer in one step
_ONE_STEP: Mapping[str, PerRanks] = {
    "broadcast": lambda n: n - 1,
    "reduce": lambda n: 1,
    "scatter": _share,
    "gather": lambda n: Fraction(1, n),
    "all_gather": _share,
    "reduce_scatter": _share,
    "all_reduce": lambda n: n - 1,
    "all_to_all": _share,
}
_OTHER_OPERATORS = ("reduce", "gather", "all_reduce", "all_to_all")  # beside those that a ring is made of
_WHOLE = Fraction(1)
# one walk round the ring, and two; of doubling, with the steps there and back of ranks beyond a power of two
_WALK = Limit(lambda n: n - 1, lambda n: n - 1, _share, memory=lambda n: Fraction(2, n), peers=_one)
_WALKS = Limit(
    lambda n: 2 * (n - 1),
    lambda n: 2 * (n - 1),
    lambda n: 2 * _share(n),
    memory=lambda n: Fraction(2, n),
    peers=_one,
)
_FOLDED = Limit(lambda n: 2 * _log2(n) - (n.bit_length() - 1), messages=lambda n: n.bit_length())

COLLECTIVES: tuple[Lesson, ...] = (
    Lesson(0, "tour", minutes=5, figures={"ring": Steps("ring", ranks=4)}, stub=""),
    Lesson(
        1,
        "send_and_receive",
        minutes=30,
        further=20,
        needs=(0,),
        checks=(
            Bare("rotate", case="rotate", limit=Limit(steps=lambda n: 2 if n % 2 == 0 else 3, messages=lambda n: 1)),
            Program("relay", "broadcast", chunks=1, limit=Limit(steps=lambda n: n - 1, messages=lambda n: 1)),
            Bare("relay_bare", case="broadcast", limit=Limit(steps=lambda n: n - 1, messages=lambda n: 1)),
        ),
        extra=("relay_bare",),
        twin=Twin(("waits.cycle",), (Bare("rotate", case="rotate"),)),
        figures={
            "circle": Waits("lessons.course.01_send_and_receive.facts:receive_first", ranks=4),
            "relay": Run("chain:chunks=1", ranks=4, collective="broadcast", nbytes=64 << 20, machine="switch"),
        },
        questions=3,
    ),
    Lesson(
        2,
        "eight_operators",
        minutes=25,
        further=30,
        needs=(1,),
        checks=tuple(
            Program(name, name, limit=Limit(steps=lambda n: 1, sent=_ONE_STEP[name]))
            for name in sorted(_ONE_STEP, key=_OTHER_OPERATORS.__contains__)
        ),
        extra=_OTHER_OPERATORS,
        twin=Twin(("repair.owner.peer_as_is",), (Program("reduce_scatter", "reduce_scatter"),)),
        figures={"operators": Operators(tuple(_ONE_STEP))},
        questions=3,
    ),
    Lesson(
        3,
        "naive_all_reduce",
        minutes=25,
        further=20,
        needs=(1, 2),
        checks=(
            Bare("all_reduce_bare", case="all_reduce", limit=Limit(messages=lambda n: n - 1, memory=lambda n: _WHOLE)),
            Bare("average_bare", case="average", limit=Limit(messages=lambda n: n - 1)),
            Formula("root_bytes"),
            Program("all_reduce", "all_reduce", chunks=1, limit=Limit(messages=lambda n: n - 1)),
        ),
        extra=("all_reduce",),
        twin=Twin(("values.lacking",), (Bare("all_reduce_bare", case="all_reduce"),)),
        figures={"server": Run("naive", ranks=4, nbytes=4 * 124_439_808, machine="switch")},  # GPT-2's gradients
        questions=3,
    ),
    Lesson(
        4,
        "ring_reduce_scatter",
        minutes=30,
        further=15,
        needs=(2, 3),
        checks=(
            Bare("reduce_scatter_bare", case="reduce_scatter", limit=_WALK),
            Program("reduce_scatter", "reduce_scatter", limit=_WALK),
        ),
        twin=Twin(("values.index",), (Bare("reduce_scatter_bare", case="reduce_scatter", limit=_WALK),)),
        pieces={"reduce_scatter": ("reduce_scatter", "collectives.ring:reduce_scatter")},
        figures={"walk": Steps("ring", ranks=4, collective="reduce_scatter")},
        questions=3,
    ),
    Lesson(
        5,
        "ring_all_reduce",
        minutes=25,
        further=20,
        needs=(4,),
        checks=(
            Bare("all_reduce_bare", case="all_reduce_op", limit=_WALKS),
            Program("all_gather", "all_gather", limit=_WALK),
            Program("all_reduce", "all_reduce", limit=_WALKS),
        ),
        twin=Twin(
            ("values.own_again", "costs.whole"),
            (Bare("all_reduce_bare", case="all_reduce", limit=replace(_WALKS, memory=None)),),
        ),
        pieces={
            "all_gather": ("all_gather", "collectives.ring:all_gather"),
            "all_reduce": ("all_reduce", "collectives.ring:all_reduce"),
        },
        figures={"walk": Steps("ring", ranks=4), "clock": Run("ring", ranks=4)},
        questions=3,
    ),
    Lesson(
        6,
        "alpha_beta",
        minutes=20,
        further=5,
        needs=(5,),
        checks=(Formula("ring_time"), Formula("bus_bandwidth"), Formula("fit"), Measured()),
        figures={"bend": Sweep(("ring",), ranks=4, machine="laptop")},
        questions=3,
    ),
    Lesson(
        7,
        "trees_and_hierarchies",
        minutes=25,
        further=30,
        needs=(5, 6),
        checks=(
            Program("tree_broadcast", "broadcast", chunks=1, limit=Limit(_log2, messages=_log2)),
            Program(
                "hierarchical",
                "all_reduce",
                limit=Limit(_levels, _levels, lambda n: 2 * _share(n), across=_across),
                options=lambda n: {"local": _local(n)},
                proved=(4, 6, 8, 9, 12),
            ),
            Formula("ring_order"),
            Program("doubling", "all_reduce", chunks=1, limit=_FOLDED),
        ),
        extra=("doubling",),
        twin=Twin(("program.powers",), (Program("doubling", "all_reduce", chunks=1, limit=_FOLDED),)),
        figures={
            "sweep": Sweep(
                ("ring", "recursive_doubling", "halving_doubling", "hierarchical:local=8"), ranks=32, machine="dgx-h100"
            ),
            "tree": Steps("binomial", ranks=8, collective="broadcast"),
        },
        questions=3,
    ),
)
