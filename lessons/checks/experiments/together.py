"""What the functions of lesson 25 do on real ranks, and what their mistakes do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from parallel.mesh import Mesh

from ..experiment import Experiment


@dataclass(frozen=True)
class Grid:
    """An example: the axes of a mesh, and the norm to which gradients are clipped."""

    pp: int
    dp: int
    tp: int
    max_norm: float = 1.0

    def mesh(self) -> Mesh:
        """In a rank; the same for all examples with these axes, for groups take time to make."""
        return _mesh(self.pp, self.dp, self.tp)

    def places(self) -> list[dict[str, int]]:
        """The coordinates of each rank, whatever process asks."""
        drawing = (self.dp * self.tp, self.tp)
        return [
            {"pp": rank // drawing[0], "dp": rank // self.tp % self.dp, "tp": rank % self.tp}
            for rank in range(self.pp * self.dp * self.tp)
        ]

    def __str__(self) -> str:
        return f"pp {self.pp}, dp {self.dp}, tp {self.tp}"


@cache
def _mesh(pp: int, dp: int, tp: int) -> Mesh:
    return Mesh(pp=pp, dp=dp, tp=tp)


def _lines(ranks: int) -> list[tuple[int, int, int]]:
    """Meshes of one axis, and where there are enough ranks, of two."""
    lines = [(ranks, 1, 1), (1, 1, ranks), (1, ranks, 1)]
    return lines + [(2, 1, 2), (2, 2, 1), (1, 2, 2)] * (ranks == 4) + [(2, 2, 2)] * (ranks == 8)


# Clipping.

SPLITS = (
    ("pp", "tp"),
    ("pp",),
    ("tp",),
)  # a matrix; a bias or a norm; the tied embedding, on the first stage and the last


def _pieces(grid: Grid, place: Mapping[str, int]) -> list[tuple[tuple[str, ...], Tensor]]:
    """What a rank has of the gradient, each piece with the axes along which ranks have others."""
    found = []
    for number, axes in enumerate(SPLITS):
        if "pp" in axes or place["pp"] in (0, grid.pp - 1):
            seed = 100 * number + sum(10 * place[axis] if axis == "pp" else place[axis] for axis in axes)
            values = torch.randn(3, number + 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            found.append((axes, values))
    return found


def _clip_arguments(grid: Grid, rank: int, ranks: int) -> tuple[Any, ...]:
    pieces = _pieces(grid, grid.places()[rank])
    return [piece for _, piece in pieces], [axes for axes, _ in pieces], grid.max_norm, grid.mesh()


def _is_first(place: Mapping[str, int], axes: Sequence[str]) -> bool:
    return all(place[axis] == 0 for axis in ("pp", "tp") if axis not in axes)


Counts = Callable[[Mapping[str, int], Sequence[str]], bool]


def _squares(grid: Grid, counts: Counts = _is_first) -> list[float]:
    """Of each rank, those that it counts."""
    return [
        sum(float(piece.square().sum()) for axes, piece in _pieces(grid, place) if counts(place, axes))
        for place in grid.places()
    ]


def _along(grid: Grid, axes: Sequence[str], values: Sequence[float]) -> list[float]:
    """Added up over the ranks that differ along these axes only."""
    places = grid.places()
    return [
        sum(
            value
            for value, other in zip(values, places, strict=True)
            if all(other[axis] == place[axis] for axis in place if axis not in axes)
        )
        for place in places
    ]


def _norms(grid: Grid, counts: Counts = _is_first, axes: Sequence[str] = ("pp", "tp")) -> list[float]:
    return [total**0.5 for total in _along(grid, axes, _squares(grid, counts))]


def _clipped(
    norms: Callable[[Grid], list[float]],
    factor: Callable[[float, float], float] = lambda most, norm: min(1.0, most / norm),
    scaled: Counts = lambda place, axes: True,
    told: Callable[[float, float], float] = lambda most, norm: norm,
) -> Callable[[Grid, int], list[Any]]:
    """What each rank ends with, by the norms that it found."""

    def outcomes(grid: Grid, ranks: int) -> list[Any]:
        return [
            (
                [
                    piece * (factor(grid.max_norm, norm) if scaled(place, axes) else 1.0)
                    for axes, piece in _pieces(grid, place)
                ],
                told(grid.max_norm, norm),
            )
            for place, norm in zip(grid.places(), norms(grid), strict=True)
        ]

    return outcomes


def _everything(place: Mapping[str, int], axes: Sequence[str]) -> bool:
    return True


def _sum_of_norms(grid: Grid) -> list[float]:
    return _along(grid, ("pp", "tp"), [square**0.5 for square in _squares(grid)])


def _added_lengths(grid: Grid) -> list[float]:
    """Every piece's own norm, added."""
    own = [
        sum(float(piece.norm()) for axes, piece in _pieces(grid, place) if _is_first(place, axes))
        for place in grid.places()
    ]
    return _along(grid, ("pp", "tp"), own)


def _not_rooted(grid: Grid) -> list[float]:
    return _along(grid, ("pp", "tp"), _squares(grid))


_CLIP = Experiment(
    examples=lambda ranks: [Grid(*line, most) for line in _lines(ranks) for most in (1.0, 1e4)],
    arguments=_clip_arguments,
    expected=_clipped(_norms),
    outcome=lambda arguments, value: (arguments[0], value),
    tolerance=1e-5,  # torch divides by norm + 1e-6
    mistakes={
        "together.clip.twice": _clipped(lambda grid: _norms(grid, _everything)),
        "together.clip.tied_twice": _clipped(
            lambda grid: _norms(grid, lambda place, axes: "tp" in axes or place["tp"] == 0)
        ),
        "together.clip.replicated_twice": _clipped(
            lambda grid: _norms(grid, lambda place, axes: "pp" in axes or place["pp"] == 0)
        ),
        "together.clip.only_split": _clipped(lambda grid: _norms(grid, lambda place, axes: len(axes) == 2)),
        "together.clip.only_first": _clipped(lambda grid: _norms(grid, lambda place, axes: _is_first(place, ()))),
        "together.clip.local": _clipped(lambda grid: _norms(grid, _everything, ())),
        "together.clip.local_counted": _clipped(lambda grid: _norms(grid, axes=())),
        "together.clip.tp_only": _clipped(lambda grid: _norms(grid, axes=("tp",))),
        "together.clip.tp_only_twice": _clipped(lambda grid: _norms(grid, _everything, ("tp",))),
        "together.clip.pp_only": _clipped(lambda grid: _norms(grid, axes=("pp",))),
        "together.clip.dp_too": _clipped(lambda grid: _norms(grid, axes=("pp", "dp", "tp"))),
        "together.clip.world_twice": _clipped(lambda grid: _norms(grid, _everything, ("pp", "dp", "tp"))),
        "together.clip.sum_of_norms": _clipped(_sum_of_norms),
        "together.clip.added_lengths": _clipped(_added_lengths),
        "together.clip.not_rooted": _clipped(_not_rooted),
        "together.clip.always": _clipped(_norms, lambda most, norm: most / norm),
        "together.clip.other_way": _clipped(_norms, lambda most, norm: max(1.0, most / norm)),
        "together.clip.upside_down": _clipped(_norms, lambda most, norm: min(1.0, norm / most)),
        "together.clip.not_scaled": _clipped(_norms, lambda most, norm: 1.0),
        "together.clip.scales_what_it_counts": _clipped(_norms, scaled=_is_first),
        "together.clip.after": _clipped(_norms, told=min),
    },
)


# The tied embedding.

_ROWS, _WIDE = 6, 5


def _tied(grid: Grid, place: Mapping[str, int]) -> Tensor | None:
    """A rank's gradient of the matrix that the first stage and the last hold."""
    if place["pp"] not in (0, grid.pp - 1):
        return None
    seed = 100 * place["pp"] + 10 * place["dp"] + place["tp"]
    return torch.randn(_ROWS, _WIDE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _tied_lines(ranks: int) -> list[Grid]:
    """The first one is priced."""
    return {
        4: [Grid(2, 2, 1), Grid(4, 1, 1), Grid(2, 1, 2)],
        8: [Grid(2, 2, 2), Grid(4, 2, 1), Grid(4, 1, 2)],
    }.get(ranks, [Grid(ranks, 1, 1)])


def _ends(
    combine: Callable[[Callable[..., Tensor], Grid, Mapping[str, int]], Tensor],
) -> Callable[[Grid, int], list[Tensor | None]]:
    """What the ranks of the two ends have afterwards; combine: from ``at(pp, dp, tp)``, a rank's gradient before."""

    def outcomes(grid: Grid, ranks: int) -> list[Tensor | None]:
        def at(pp: int, dp: int, tp: int) -> Tensor:
            found = _tied(grid, {"pp": pp, "dp": dp, "tp": tp})
            assert found is not None
            return found

        return [None if _tied(grid, place) is None else combine(at, grid, place) for place in grid.places()]

    return outcomes


def _mean(at: Callable[..., Tensor], grid: Grid, pp: int, tp: int) -> Tensor:
    return torch.stack([at(pp, dp, tp) for dp in range(grid.dp)]).mean(0)


def _both(at: Callable[..., Tensor], grid: Grid, place: Mapping[str, int]) -> Tensor:
    return _mean(at, grid, 0, place["tp"]) + _mean(at, grid, grid.pp - 1, place["tp"])


def _own(at: Callable[..., Tensor], grid: Grid, place: Mapping[str, int]) -> Tensor:
    return _mean(at, grid, place["pp"], place["tp"])


def _other(at: Callable[..., Tensor], grid: Grid, place: Mapping[str, int]) -> Tensor:
    return _mean(at, grid, grid.pp - 1 - place["pp"], place["tp"])


def _of_replica(at: Callable[..., Tensor], grid: Grid, place: Mapping[str, int]) -> Tensor:
    return at(0, place["dp"], place["tp"]) + at(grid.pp - 1, place["dp"], place["tp"])


_TIED = Experiment(
    examples=_tied_lines,
    arguments=lambda grid, rank, ranks: (_tied(grid, grid.places()[rank]), grid.mesh()),
    expected=_ends(_both),
    outcome=lambda arguments, value: arguments[0],
    sent=lambda grid, ranks: 8 * _ROWS * _WIDE * (2 * (grid.dp - 1) / grid.dp + 1),
    mistakes={
        "together.reduce_tied.nothing": _ends(lambda at, grid, place: at(place["pp"], place["dp"], place["tp"])),
        "together.reduce_tied.replicas_only": _ends(_own),
        "together.reduce_tied.last_only": _ends(
            lambda at, grid, place: _both(at, grid, place) if place["pp"] else _own(at, grid, place)
        ),
        "together.reduce_tied.first_only": _ends(
            lambda at, grid, place: _own(at, grid, place) if place["pp"] else _both(at, grid, place)
        ),
        "together.reduce_tied.ends_only": _ends(_of_replica),
        "together.reduce_tied.mean_of_ends": _ends(lambda at, grid, place: _both(at, grid, place) / 2),
        "together.reduce_tied.sum_of_replicas": _ends(lambda at, grid, place: _both(at, grid, place) * grid.dp),
        "together.reduce_tied.mean_of_stages": _ends(lambda at, grid, place: _both(at, grid, place) / grid.pp),
        "together.reduce_tied.first_copied": _ends(lambda at, grid, place: _mean(at, grid, 0, place["tp"])),
        "together.reduce_tied.last_copied": _ends(lambda at, grid, place: _mean(at, grid, grid.pp - 1, place["tp"])),
        "together.reduce_tied.exchanged": _ends(_other),
        "together.reduce_tied.own_twice": _ends(lambda at, grid, place: 2 * _own(at, grid, place)),
        "together.reduce_tied.over_tp": _ends(
            lambda at, grid, place: torch.stack(
                [_both(at, grid, {**place, "tp": tp}) for tp in range(grid.tp)]
            ).sum(0)
        ),
    },
)  # fmt: skip

TOGETHER: Mapping[str, Experiment] = {"clip": _CLIP, "reduce_tied": _TIED}
