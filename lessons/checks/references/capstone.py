"""The formulas of lesson 32: what a run on a mesh holds, sends and takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from parallel.formulas import FULL, elements_sent, tensor_elements_sent

from ...planning import Pieces, Run
from ..reference import Example, Reference, near

Elements = Callable[[Run, int], float]


def _block(run: Run) -> float:
    """Elements of a block on a tp rank: matrices and biases of columns are split, norms and biases of rows are not."""
    h = run.hidden
    return (12 * h * h + 7 * h) / run.tp + 6 * h


def _table(run: Run) -> float:
    return run.vocabulary * run.hidden / run.tp


def parameters(run: Run, stage: int) -> float:
    """Elements on a rank of that stage."""
    first, last = stage == 0, stage == run.pp - 1
    found = run.layers / run.pp * _block(run) + first * (_table(run) + run.positions * run.hidden)
    return found + last * ((not first) * _table(run) + 2 * run.hidden)


def _with(
    block: Callable[[Run], float] = _block,
    layers: Callable[[Run], float] = lambda run: run.layers / run.pp,
    table: Callable[[Run], float] = _table,
    positions: Callable[[Run], float] = lambda run: run.positions * run.hidden,
    norm: int = 2,
    tied: bool = False,
) -> Elements:
    """tied: the last stage has no copy of the embedding."""

    def elements(run: Run, stage: int) -> float:
        first, last = stage == 0, stage == run.pp - 1
        found = layers(run) * block(run) + first * (table(run) + positions(run))
        return found + last * ((not first) * (not tied) * table(run) + norm * run.hidden)

    return elements


TRAINED = Run(4, 128, 256, 128, 2, 2, 2, 4, 16, 64)
_RUNS = (
    TRAINED,
    Run(4, 128, 256, 128, 2, 4, 1, 4, 16, 64),
    Run(12, 768, 50257, 1024, 4, 1, 1, 2, 32, 1024),
    Run(24, 2048, 50304, 2048, 8, 4, 4, 8, 512, 2048),
    Run(8, 512, 256, 256, 1, 2, 4, 2, 8, 128),
    Run(4, 128, 256, 128, 2, 1, 4, 4, 16, 64),
)


def _whole_block(run: Run) -> float:
    return 12 * run.hidden**2 + 13 * run.hidden


_PARAMETERS = Reference(
    examples=tuple((run, stage) for run in _RUNS for stage in range(run.pp)),
    answer=parameters,
    mistakes={
        "capstone.parameters.no_tp": _with(_whole_block, table=lambda run: run.vocabulary * run.hidden),
        "capstone.parameters.all_split": _with(lambda run: _whole_block(run) / run.tp),
        "capstone.parameters.matrices_only": _with(lambda run: 12 * run.hidden**2 / run.tp),
        "capstone.parameters.biases_not_split": _with(lambda run: 12 * run.hidden**2 / run.tp + 13 * run.hidden),
        "capstone.parameters.no_whole": _with(lambda run: _block(run) - 6 * run.hidden),
        "capstone.parameters.no_split_biases": _with(lambda run: 12 * run.hidden**2 / run.tp + 6 * run.hidden),
        "capstone.parameters.no_norms": _with(lambda run: _block(run) - 4 * run.hidden),
        "capstone.parameters.all_layers": _with(layers=lambda run: run.layers),
        "capstone.parameters.head_free": _with(tied=True),
        "capstone.parameters.table_whole": _with(table=lambda run: run.vocabulary * run.hidden),
        "capstone.parameters.positions_split": _with(positions=lambda run: run.positions * run.hidden / run.tp),
        "capstone.parameters.no_positions": _with(positions=lambda run: 0),
        "capstone.parameters.no_last_norm": _with(norm=0),
        "capstone.parameters.last_norm_half": _with(norm=1),
        "capstone.parameters.no_ends": lambda run, stage: run.layers / run.pp * _block(run),
        "capstone.parameters.ends_everywhere": lambda run, stage: parameters(
            replace(run, pp=1, layers=run.layers // run.pp), 0
        ),
        "capstone.parameters.twice_on_one": lambda run, stage: parameters(run, stage) + (run.pp == 1) * _table(run),
    },
)  # fmt: skip


# What is held.


def state_bytes(run: Run, each: float = FULL.total, elements: Elements = parameters) -> float:
    return each * max(elements(run, stage) for stage in range(run.pp))


_STATE_BYTES = Reference(
    examples=tuple((run,) for run in _RUNS),
    answer=state_bytes,
    mistakes={
        "capstone.state_bytes.parameters_only": lambda run: state_bytes(run, 4),
        "capstone.state_bytes.no_gradients": lambda run: state_bytes(run, 12),
        "capstone.state_bytes.master": lambda run: state_bytes(run, 20),
        "capstone.state_bytes.last": lambda run: 16 * parameters(run, run.pp - 1),
        "capstone.state_bytes.mean": lambda run: 16 * sum(parameters(run, s) for s in range(run.pp)) / run.pp,
        "capstone.state_bytes.all_stages": lambda run: 16 * sum(parameters(run, s) for s in range(run.pp)),
        "capstone.state_bytes.zero": lambda run: state_bytes(run, 8 + 8 / run.dp),
        "capstone.state_bytes.over_dp": lambda run: state_bytes(run) / run.dp,
        "capstone.state_bytes.elements": lambda run: state_bytes(run, 4) / 4,
    },
)  # fmt: skip


# What is sent.

BYTES = 4  # of an element


def _tokens(run: Run) -> float:
    """Of a microbatch of one replica."""
    return run.batch / run.dp / run.microbatches * run.sequence


def along_dp(run: Run) -> float:
    return BYTES * elements_sent(1, run.dp).total * max(parameters(run, stage) for stage in range(run.pp))


def along_pp(run: Run, ends: int = 1, middle: int = 2, tied: bool = True) -> float:
    """Of the rank that sends most: activations on, gradients back, and at the ends the tied gradient."""
    if run.pp == 1:
        return 0.0
    message = _tokens(run) * run.hidden * run.microbatches
    return BYTES * max(ends * message + tied * _table(run), middle * message * (run.pp > 2))


def along_tp(run: Run, ends: bool = True, loss: bool = True, both: bool = True) -> float:
    """Of the rank that sends most: the last stage, which has the head and the loss."""
    tokens, whole = _tokens(run), tensor_elements_sent
    layers = run.layers // run.pp
    most = whole(round(tokens), run.hidden, run.tp, layers)
    if ends:
        once = 2 * tokens * run.hidden * (1 + both * (run.pp == 1)) + loss * 6 * tokens
        most += once * (run.tp - 1) / run.tp
    return BYTES * run.microbatches * most


def sent(
    run: Run,
    dp: Callable[[Run], float] = along_dp,
    pp: Callable[[Run], float] = along_pp,
    tp: Callable[[Run], float] = along_tp,
) -> tuple[float, float, float]:
    return dp(run), pp(run), tp(run)


def _all_near(value: object, other: object, example: Example) -> bool:
    try:
        pair = list(zip(value, other, strict=True))  # type: ignore[call-overload]
    except (TypeError, ValueError, RuntimeError):
        return False
    return not isinstance(value, (str, dict)) and all(_close(one, wanted) for one, wanted in pair)


def _close(one: object, wanted: float) -> bool:
    """Within a thousandth: what the loss sends beside its sums is left to the learner."""
    return near(one, wanted, 2e-3) if wanted else near(one, 0)


def _changed(**parts: Callable[[Run], float]) -> Callable[[Run], tuple[float, ...]]:
    return lambda run: sent(run, **parts)


def _once(run: Run) -> Run:
    """As if all rows were one microbatch of as many tokens as one of several."""
    return replace(run, microbatches=1, batch=run.batch // run.microbatches)


_SENT = Reference(
    examples=tuple((run,) for run in _RUNS),
    answer=sent,
    kind="list",
    same=_all_near,
    mistakes={
        "capstone.sent.backwards": lambda run: sent(run)[::-1],
        "capstone.sent.pp_first": lambda run: (along_pp(run), along_dp(run), along_tp(run)),
        "capstone.sent.elements": lambda run: tuple(one / BYTES for one in sent(run)),
        "capstone.sent.one_pass": _changed(dp=lambda run: along_dp(run) / 2),
        "capstone.sent.dp_whole_share": _changed(dp=lambda run: along_dp(run) * run.dp / max(1, run.dp - 1)),
        "capstone.sent.dp_every_microbatch": _changed(dp=lambda run: along_dp(run) * run.microbatches),
        "capstone.sent.dp_last_stage": _changed(
            dp=lambda run: BYTES * elements_sent(1, run.dp).total * parameters(run, run.pp - 1)
        ),
        "capstone.sent.no_tied": _changed(pp=lambda run: along_pp(run, tied=False)),
        "capstone.sent.pp_two_ways": _changed(pp=lambda run: along_pp(run, ends=2)),
        "capstone.sent.pp_one_way": _changed(pp=lambda run: along_pp(run, middle=1)),
        "capstone.sent.pp_once": _changed(pp=lambda run: along_pp(_once(run))),
        "capstone.sent.pp_whole_batch": _changed(
            pp=lambda run: along_pp(replace(run, batch=run.batch * run.dp))
        ),
        "capstone.sent.tp_no_ends": _changed(tp=lambda run: along_tp(run, ends=False)),
        "capstone.sent.tp_no_loss": _changed(tp=lambda run: along_tp(run, loss=False)),
        "capstone.sent.tp_one_end": _changed(tp=lambda run: along_tp(run, both=False)),
        "capstone.sent.tp_once": _changed(tp=lambda run: along_tp(_once(run))),
        "capstone.sent.tp_half": _changed(tp=lambda run: along_tp(run) / 2),
        "capstone.sent.tp_all_layers": _changed(tp=lambda run: along_tp(replace(run, layers=run.layers * run.pp))),
        "capstone.sent.tp_whole_batch": _changed(tp=lambda run: along_tp(replace(run, batch=run.batch * run.dp))),
    },
)  # fmt: skip


# How long it takes.


def messages(run: Run) -> float:
    """That a rank sends in a step along dp, a ring, and along pp, one a microbatch."""
    return 2 * (run.dp - 1) + run.microbatches * (run.pp > 1)


def _along_both(run: Run) -> float:
    """Bytes that a rank sends along dp and pp; those along tp are in the replica's seconds."""
    return along_dp(run) + along_pp(run)


def step_seconds(run: Run, pieces: Pieces) -> float:
    return _step(run, pieces)


def _step(
    run: Run,
    pieces: Pieces,
    moved: Callable[[Run, Pieces], float] = lambda run, pieces: (
        messages(run) * pieces.alpha + _along_both(run) * pieces.beta
    ),
    workers: Callable[[int, int], int] = min,
    bubble: Callable[[bool], bool] = lambda alone: alone,
    all_send: bool = True,
    replicas: bool = True,
) -> float:
    ranks = run.dp * run.pp * run.tp
    work = (run.dp if replicas else 1) * pieces.replica + (ranks if all_send else 1) * moved(run, pieces)
    stretch = 1 + (run.pp - 1) / run.microbatches if bubble(ranks <= pieces.cores) else 1.0
    return work / workers(ranks, pieces.cores) * stretch


_PIECES = (
    Pieces(0.2, 2e-5, 4e-10, 2),
    Pieces(3.0, 1e-5, 1e-10, 64),
    Pieces(0.5, 5e-5, 1e-9, 8),
    Pieces(40.0, 0.0, 2e-10, 1000),
)
_STEP = Reference(
    examples=tuple((run, pieces) for run in _RUNS[:4] for pieces in _PIECES),
    answer=step_seconds,
    same=lambda value, other, example: near(value, other, 2e-3),
    mistakes={
        "capstone.step_seconds.ranks_for_cores": lambda run, pieces: _step(
            run, pieces, workers=lambda ranks, cores: ranks
        ),
        "capstone.step_seconds.cores_for_ranks": lambda run, pieces: _step(
            run, pieces, workers=lambda ranks, cores: cores
        ),
        "capstone.step_seconds.alone": lambda run, pieces: _step(run, pieces, workers=lambda ranks, cores: 1),
        "capstone.step_seconds.no_bubble": lambda run, pieces: _step(run, pieces, bubble=lambda alone: False),
        "capstone.step_seconds.always_bubble": lambda run, pieces: _step(run, pieces, bubble=lambda alone: True),
        "capstone.step_seconds.bubble_other_way": lambda run, pieces: _step(
            run, pieces, bubble=lambda alone: not alone
        ),
        "capstone.step_seconds.nothing_sent": lambda run, pieces: _step(run, pieces, lambda run, pieces: 0.0),
        "capstone.step_seconds.one_rank_sends": lambda run, pieces: _step(run, pieces, all_send=False),
        "capstone.step_seconds.one_replica": lambda run, pieces: _step(run, pieces, replicas=False),
        "capstone.step_seconds.tp_again": lambda run, pieces: _step(
            run, pieces, lambda run, pieces: messages(run) * pieces.alpha + sum(sent(run)) * pieces.beta
        ),
        "capstone.step_seconds.no_alpha": lambda run, pieces: _step(
            run, pieces, lambda run, pieces: _along_both(run) * pieces.beta
        ),
        "capstone.step_seconds.no_beta": lambda run, pieces: _step(
            run, pieces, lambda run, pieces: messages(run) * pieces.alpha
        ),
    },
)

CAPSTONE: Mapping[str, Reference] = {
    "parameters": _PARAMETERS,
    "state_bytes": _STATE_BYTES,
    "sent": _SENT,
    "step_seconds": _STEP,
}
