"""What is wrong with data: which ranks' contributions came, which did not, and where they ended up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from collectives.explanation import explain

from ..checks.bare import equal
from ..checks.marks import Origin, origin
from ..diagnosis import Rule, Wrong
from ..picture import log_lines, value_lines
from ..said import Finding, Said, Speech

if TYPE_CHECKING:
    from torch import Tensor


def _no_tensor(evidence: Wrong) -> Finding | None:
    ranks = [rank for rank, came in enumerate(evidence.came) if came.result is None]
    if not ranks:
        return None
    kind = evidence.came[ranks[0]].kind
    said = Said("values.none" if kind == "NoneType" else "values.kind", {"ranks": ranks, "kind": kind})
    if kind == "NoneType" and len(ranks) < evidence.size:
        said = Said("values.none_on_some", {"ranks": ranks})
    return Finding(said, evidence.function, evidence.size)


def _shape(evidence: Wrong) -> Finding | None:
    for rank, came in enumerate(evidence.came):
        wanted = evidence.expected(rank)
        assert came.result is not None
        got, right = came.result, wanted
        shown = {"rank": rank, "got": str(tuple(got.shape)), "right": str(tuple(right.shape))}
        if got.shape != right.shape:
            return _finding(evidence, Said("values.shape", shown), False)
        if got.dtype != right.dtype:
            shown |= {"got": str(got.dtype), "right": str(right.dtype)}
            return _finding(evidence, Said("values.dtype", shown), False)
    return None


def _hazard(evidence: Wrong) -> Finding | None:
    """The record shows the reason: nobody waited, or memory was used too early."""
    hazard = explain(evidence.log)
    picture = tuple(log_lines(evidence.log, evidence.say))
    return Finding(hazard, evidence.function, evidence.size, picture, _elsewhere(evidence)) if hazard else None


def _input_changed(evidence: Wrong) -> Finding | None:
    if evidence.case.keeps and all(_same(evidence, rank) for rank in range(evidence.size)):
        rank = next(rank for rank, came in enumerate(evidence.came) if not came.kept)
        return _finding(evidence, Said("values.input_changed", {"rank": rank}), False)
    return None


def _unchanged(evidence: Wrong) -> Finding | None:
    """Nobody's data changed where they should have."""
    if not evidence.case.in_place or not all(came.kept for came in evidence.came):
        return None
    returned = any(came.returned is not None for came in evidence.came)
    return _finding(evidence, Said("values.not_in_place" if returned else "values.unchanged"))


def _returned_only(evidence: Wrong) -> Finding | None:
    """The right result is returned, where the tensor that was passed should hold it."""
    if not evidence.case.in_place:
        return None
    for rank, came in enumerate(evidence.came):
        wanted = evidence.expected(rank)
        if came.returned is None or came.returned.shape != wanted.shape or came.returned.dtype != wanted.dtype:
            return None
        if not bool(equal(evidence, came.returned, wanted).all()):
            return None
    return _finding(evidence, Said("values.returned_only"))


def _factor(evidence: Wrong) -> Finding | None:
    """Every value is the same multiple of the right one: on all ranks, or on each rank another one."""
    factors: list[float] = []
    for rank in range(evidence.size):
        result, wanted = _result(evidence, rank), evidence.expected(rank)
        if not bool((wanted != 0).all()):
            return None
        found = {round(float(one), 9) for one in (result / wanted).flatten()}
        if len(found) != 1 or not math.isfinite(sum(found)) or 0.0 in found:
            return None
        factors += found
    factor, size, mean = factors[0], evidence.size, evidence.case.mean
    if len(set(factors)) > 1:
        shown = [f"{one:.4g}" for one in factors]
        return _finding(evidence, Said("values.factors", {"factors": shown}), False) if mean else None
    if factor == size:
        said = Said("values.not_divided" if mean else "values.too_large", {"factor": size})
    elif abs(factor * size - 1) < 1e-6:
        said = Said("values.divided_twice" if mean else "values.divided", {"factor": size})
    else:
        said = Said("values.factor", {"factor": f"{factor:.6g}"})
    return _finding(evidence, said, False)


def _divided_by_some(evidence: Wrong) -> Finding | None:
    """The mean on some ranks, the sum on others."""
    if not evidence.case.mean:
        return None
    sums = [rank for rank in range(evidence.size) if _is(evidence, rank, evidence.expected(rank) * evidence.size)]
    if (
        not sums
        or len(sums) == evidence.size
        or not all(rank in sums or _same(evidence, rank) for rank in range(evidence.size))
    ):
        return None
    return _finding(evidence, Said("values.divided_by_some", {"ranks": sums}))


def _divided_before_by_some(evidence: Wrong) -> Finding | None:
    """A sum of data some of which were divided before."""
    size, data = evidence.size, evidence.data
    if not evidence.case.mean:
        return None
    for count in range(1, size):
        for divided in combinations(range(size), count):
            total = sum((one / size if rank in divided else one for rank, one in enumerate(data)), 0 * data[0])
            if all(_is(evidence, rank, total) for rank in range(size)):
                whole = [rank for rank in range(size) if rank not in divided]
                said = Said("values.divided_before_by_some", {"ranks": list(divided), "whole": whole})
                return _finding(evidence, said, False)
    return None


def _operation(evidence: Wrong) -> Finding | None:
    """Another operation than the one that was asked."""
    if evidence.case.name not in ("all_reduce", "all_reduce_op", "average"):
        return None
    asked = evidence.variant.op or ("mean" if evidence.case.mean else "sum")
    for name, combine in _combinations().items():
        if name != asked and all(_is(evidence, rank, combine(list(evidence.data))) for rank in range(evidence.size)):
            said = "values.operation" if evidence.variant.op else "values.other_operation"
            return _finding(evidence, Said(said, {"asked": asked, "found": name}), False)
    return None


def _combinations() -> dict[str, Callable[[list[Tensor]], Tensor]]:
    """What people write where another operation was asked for."""
    import torch

    return {
        "sum": lambda data: torch.stack(data).sum(0),
        "max": lambda data: torch.stack(data).amax(0),
        "min": lambda data: torch.stack(data).amin(0),
        "product": lambda data: torch.stack(data).prod(0),
        "difference": lambda data: data[0] - sum(data[1:], torch.zeros_like(data[0])),
    }


def _rounded(evidence: Wrong) -> Finding | None:
    """Nearly right: in another type on the way, or whole numbers."""
    import torch

    pairs = [(_result(evidence, rank), evidence.expected(rank)) for rank in range(evidence.size)]
    if all(bool(torch.isclose(result, wanted, rtol=1e-5, atol=0.0).all()) for result, wanted in pairs):
        return _finding(evidence, Said("values.rounded"), False)
    values = torch.cat([result.flatten() for result, _ in pairs])
    whole = bool((values == values.round()).all()) and bool(values.any())
    near = all(bool(((result - wanted).abs() <= 1).all()) for result, wanted in pairs)
    return _finding(evidence, Said("values.whole"), False) if whole and near else None


def _tail(evidence: Wrong) -> Finding | None:
    """Only what is left over when the length is divided by the ranks."""
    numel, size = evidence.variant.numel, evidence.size
    whole = numel - numel % size
    if evidence.case.chunks or whole in (0, numel):
        return None
    for rank in range(size):
        right = _result(evidence, rank).flatten() == evidence.expected(rank).flatten()
        if not bool(right[:whole].all()) or bool(right[whole:].all()):
            return None
    return _finding(evidence, Said("values.tail", {"length": numel, "left": numel % size}))


def _shifted(evidence: Wrong) -> Finding | None:
    """Every rank has what another one should have."""
    size = evidence.size
    if evidence.case.name == "rotate" and all(_is(evidence, rank, evidence.data[rank]) for rank in range(size)):
        return _finding(evidence, Said("values.own_returned"))
    for by in range(1, size):
        if all(_is(evidence, rank, evidence.expected((rank + by) % size)) for rank in range(size)):
            off = by if by <= size // 2 else by - size
            fields = {"rank": 0, "other": by, "by": f"{off:+d}".replace("-", "−")}
            if evidence.case.name == "rotate":
                return _finding(
                    evidence, Said("values.neighbour", {"rank": 0, "got": (by - 1) % size, "right": size - 1})
                )
            return _finding(evidence, Said("values.shifted", fields))
    return None


def _complete_elsewhere(evidence: Wrong) -> Finding | None:
    """Every rank has completed a chunk, but not the one that it returns."""
    size = evidence.size
    if not evidence.case.chunks:
        return None
    if all(_completed(evidence, rank, rank) for rank in range(size)):
        return _finding(evidence, Said("values.returns_another"))
    if all(came.kept for came in evidence.came):
        return _finding(evidence, Said("values.list_unchanged"))
    for by in range(1, size):
        if all(_completed(evidence, rank, (rank + by) % size) for rank in range(size)):
            off = by if by <= size // 2 else by - size
            fields = {"rank": 0, "other": by, "by": f"{off:+d}".replace("-", "−")}
            return _finding(evidence, Said("values.complete_elsewhere", fields))
    return None


def _completed(evidence: Wrong, rank: int, chunk: int) -> bool:
    """Whether ``rank`` holds the whole sum of ``chunk`` after the call."""
    return bool((evidence.came[rank].after[chunk] == evidence.expected(chunk)).all())


def _too_few(evidence: Wrong) -> Finding | None:
    """Fewer messages than a right answer needs, and contributions that never came."""
    least = evidence.limit.messages
    sent = [sum(o.op == "send" for o in operations) for operations in evidence.log.operations.values()]
    if least is None or not evidence.is_main or max(sent) >= least(evidence.size):
        return None
    if not (evidence.case.chunks or evidence.case.ops) or max(sent) <= _one_walk_long(evidence):
        return None
    fields = {"got": max(sent), "least": least(evidence.size), "ranks": evidence.size}
    return _finding(evidence, Said("values.too_few", fields))


def _one_walk_long(evidence: Wrong) -> int:
    """Messages of an all-reduce of which half is missing, which has a sentence of its own; none of others."""
    return evidence.size - 1 if evidence.case.ops else -1


def _one_walk(evidence: Wrong) -> Finding | None:
    """Every rank has one chunk complete, another one each: they were never handed round."""
    size, numel = evidence.size, evidence.variant.numel
    if not evidence.case.ops or numel % size or evidence.variant.op != "sum":
        return None
    chunks = []
    for rank in range(size):
        right = (_result(evidence, rank).flatten() == evidence.expected(rank).flatten()).reshape(size, -1)
        whole = [chunk for chunk in range(size) if bool(right[chunk].all())]
        if len(whole) != 1:
            return None
        values = _result(evidence, rank).flatten().tolist()
        if any(one is None or one.repeated for one in (origin(value, size) for value in values)):
            return None
        chunks += whole
    if sorted(chunks) != list(range(size)):
        return None
    sent = max(sum(o.op == "send" for o in operations) for operations in evidence.log.operations.values())
    there = evidence.is_main and sent > size - 1
    said = "values.second_walk" if there else "values.one_walk"
    return _finding(evidence, Said(said, {"rank": 0, "chunk": chunks[0]}))


def _only_some_ranks(evidence: Wrong) -> Finding | None:
    """Some ranks are right, and the others still have what they began with."""
    right = [rank for rank in range(evidence.size) if _same(evidence, rank)]
    wrong = [rank for rank in range(evidence.size) if rank not in right]
    if not right or not evidence.case.in_place or not all(evidence.came[rank].kept for rank in wrong):
        return None
    return _finding(evidence, Said("values.only_ranks", {"right": right, "wrong": wrong}))


def _own_unwritten(evidence: Wrong) -> Finding | None:
    """Others have the result of what this rank computed, but its own tensor has not changed."""
    wrong = [rank for rank in range(evidence.size) if not _same(evidence, rank)]
    if not evidence.case.in_place or len(wrong) != 1 or not evidence.came[wrong[0]].kept or len(wrong) == evidence.size:
        return None
    sent = [o for o in evidence.log.operations.get(wrong[0], []) if o.op == "send"]
    if len(sent) < evidence.size - 1:
        return None
    return _finding(evidence, Said("values.own_unwritten", {"rank": wrong[0]}))


def _passed_on_too_early(evidence: Wrong) -> Finding | None:
    """Every rank has what its neighbour began with: it was sent before anything had been received."""
    size = evidence.size
    if evidence.case.name != "broadcast" or size < 3:
        return None
    if not all(_is(evidence, rank, evidence.data[rank - 1]) for rank in range(1, size)):
        return None
    return _finding(evidence, Said("values.passed_on_too_early", {"rank": 2, "other": 1}))


def _only_last_left(evidence: Wrong) -> Finding | None:
    """One rank's data, twice: it was received over the own data, and added to itself."""
    rank, place, found, _ = _first_wrong(evidence)
    if found is None or len(found.ranks) != 1 or found.ranks == (rank,) or found.counts[found.ranks[0]] < 2:
        return None
    fields = {"rank": rank, "place": place, "other": found.ranks[0], "times": found.counts[found.ranks[0]]}
    return _finding(evidence, Said("values.added_to_itself", fields))


def _only_some_sizes(evidence: Wrong) -> Finding | None:
    """Right for some numbers of ranks, beyond the luck of two."""
    right = [size for size, well in evidence.sizes.items() if well]
    wrong = [size for size, well in evidence.sizes.items() if not well]
    if evidence.size not in wrong or not right or max(right) < min(wrong):  # small numbers hide much
        return None
    powers = all(size & (size - 1) for size in wrong)
    said = Said("values.powers" if powers else "values.only_sizes", {"right": right, "wrong": wrong})
    return _finding(evidence, said)


def _contributions(evidence: Wrong) -> Finding | None:
    """Whose contributions are missing or repeated, at the first element that is wrong."""
    rank, place, found, wanted = _first_wrong(evidence)
    if found is None:
        value = _result(evidence, rank).flatten()[place].item()
        return _finding(
            evidence, Said("values.unknown" if value == value else "values.garbage", {"rank": rank, "place": place})
        )
    if not found.ranks:
        return _finding(evidence, Said("values.zeros", {"rank": rank, "place": place}))
    missing = [one for one in wanted.ranks if one not in found.ranks]
    extra = [one for one in found.ranks if one not in wanted.ranks]
    cut = evidence.case.chunks or evidence.case.ops  # the buffer is cut into chunks
    fields = {"rank": rank, "place": place, "missing": missing, "repeated": found.repeated, "extra": extra}
    if evidence.variant.op == "max":
        said = Said("values.max", {"rank": rank, "place": place, "found": found.ranks, "right": wanted.ranks})
    elif extra and not missing:
        said = Said("values.extra", fields)
    elif extra and len(wanted.ranks) == len(found.ranks) == 1:
        said = Said("values.of_another", {"rank": rank, "found": found.ranks[0], "right": wanted.ranks[0]})
    elif found.ranks == (rank,) and found.counts[rank] > 1:
        said = Said("values.own_again", {**fields, "times": found.counts[rank]})
    elif found.repeated and not missing:
        said = Said("values.twice", fields)
    elif missing and _loses_own(evidence):
        said = Said("values.overwritten", fields)
    elif found.ranks == (rank,) and wanted.ranks != (rank,):
        said = Said("values.index" if evidence.case.chunks else "values.untouched", fields)
    elif missing and not found.repeated:
        said = Said("values.lacking", {**fields, "found": found.ranks})
    elif missing:
        said = Said("values.chunk_lacking_and_twice" if cut else "values.lacking_and_twice", fields)
    elif found.position is not None:
        said = Said(
            "values.position", {"rank": rank, "place": place, "found": found.position, "right": wanted.position}
        )
    else:
        said = Said("values.mixed", {"rank": rank, "place": place})
    return _finding(evidence, said)


def _first_wrong(evidence: Wrong) -> tuple[int, int, Origin | None, Origin]:
    """Rank, position, what is there and what belongs there."""
    scale = evidence.size if evidence.case.mean else 1
    for rank in range(evidence.size):
        result, wanted = _result(evidence, rank).flatten(), evidence.expected(rank).flatten()
        for place, same in enumerate(equal(evidence, result, wanted).tolist()):
            if not same:
                there = origin(wanted[place].item() * scale, evidence.size)
                assert there is not None
                return rank, place, origin(result[place].item() * scale, evidence.size), there
    raise AssertionError("every element is right")  # _input_changed has spoken then


def _loses_own(evidence: Wrong) -> bool:
    """Whether on every rank that is wrong its own contribution is missing where something is wrong."""
    scale = evidence.size if evidence.case.mean else 1
    for rank in range(evidence.size):
        pairs = zip(_result(evidence, rank).flatten().tolist(), evidence.expected(rank).flatten().tolist(), strict=True)
        found = [origin(value * scale, evidence.size) for value, right in pairs if value != right]
        if any(one is None or one.counts[rank] for one in found):
            return False
    return True


def _result(evidence: Wrong, rank: int) -> Tensor:
    result = evidence.came[rank].result
    assert result is not None  # _no_tensor has spoken else
    return result


def _is(evidence: Wrong, rank: int, wanted: Tensor) -> bool:
    result = _result(evidence, rank)
    return result.shape == wanted.shape and bool(equal(evidence, result, wanted).all())


def _same(evidence: Wrong, rank: int) -> bool:
    return _is(evidence, rank, evidence.expected(rank))


def _elsewhere(evidence: Wrong) -> tuple[Speech, ...]:
    """With which call it went wrong, if others went well."""
    if evidence.variant == evidence.case.variants(evidence.size)[0]:
        return ()
    fields = {"shape": str(tuple(evidence.variant.shape)), "op": evidence.variant.op}
    return (Said("values.call_op" if evidence.variant.op else "values.call", fields),)


def _finding(evidence: Wrong, said: Said, picture: bool = True) -> Finding:
    lines = tuple(value_lines(evidence)) if picture else ()
    return Finding(said, evidence.function, evidence.size, lines, _elsewhere(evidence))


RULES: Sequence[Rule] = (
    _no_tensor,
    _shape,
    _hazard,
    _input_changed,
    _only_some_sizes,
    _unchanged,
    _divided_by_some,
    _divided_before_by_some,
    _factor,
    _returned_only,
    _operation,
    _rounded,
    _tail,
    _shifted,
    _passed_on_too_early,
    _complete_elsewhere,
    _too_few,
    _one_walk,
    _own_unwritten,
    _only_some_ranks,
    _only_last_left,
    _contributions,
)
