"""Lessons 17, 18 and 28: what ranks are held against, and what is said of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lessons.catalogue import Catalogue
from lessons.checks.experiments.checkpoints import CHECKPOINTS
from lessons.checks.experiments.witness import Witness
from lessons.checks.experiments.zero import ZERO
from lessons.figures import Gathered, Reshard, Shards

SAY = Catalogue()
EVERY = {**ZERO, **CHECKPOINTS}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_no_mistake_is_right_and_no_two_are_alike(name: str, size: int) -> None:
    experiment = EVERY[name]
    examples = experiment.examples(size)

    def alike(one: object, other: object) -> bool:
        assert callable(one)
        assert callable(other)
        return all(experiment.same(list(one(each, size)), list(other(each, size))) for each in examples)

    formulas = {"right": experiment.expected, **experiment.mistakes}
    names = list(formulas)
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    assert [pair for pair in pairs if alike(formulas[pair[0]], formulas[pair[1]])] == []
    assert all(SAY(mistake) for mistake in experiment.mistakes)


def write(path: Path, flush: bool = True, sync: str = "before", rename: bool = True) -> str:
    """What a witness says of a file that is written so."""
    Witness()
    partial = path.with_suffix(".partial") if rename else path
    with partial.open("wb") as file:
        file.write(b"some bytes")
        if flush:
            file.flush()
        if sync == "before":
            os.fsync(file.fileno())
    if rename:
        os.replace(partial, path)
    if sync == "after":
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return Witness.leave().verdict(path)


def test_a_witness_tells_how_a_file_came_to_its_name(tmp_path: Path) -> None:
    before = os.fsync, os.rename, os.replace
    path = tmp_path / "index.json"
    assert write(path) == "safe"
    assert write(path, rename=False) == "partial_name"
    assert write(path, sync="never") == "not_synced"
    assert write(path, sync="after") == "synced_late"
    assert write(path, flush=False) == "not_flushed"
    assert (os.fsync, os.rename, os.replace) == before


def test_every_element_is_in_one_file_and_on_one_rank() -> None:
    for elements, saved, loaded in ((11, 4, 3), (5, 2, 4), (1, 1, 3)):
        rows = Reshard(elements, saved, loaded)._rows(SAY)
        for part in (rows[:saved], rows[saved:]):
            assert sorted(one for _, span in part for one in span) == list(range(elements))


def test_stages_hold_what_the_formula_says() -> None:
    titles = [frame.title for frame in Shards(4)._frames(SAY)]
    assert [title.split(": ")[1].split()[0] for title in titles] == ["16", "7", "5.5", "4"]


def test_one_layer_is_whole_at_a_time_and_with_prefetch_two() -> None:
    def whole(figure: Gathered) -> list[int]:
        return [sum(cell is not None and cell.sign == "=" for cell in frame.rows[0]) for frame in figure._frames(SAY)]

    assert whole(Gathered()) == [0, 1, 1, 1, 1, 1, 1, 0]
    assert max(whole(Gathered(layers=4, prefetch=1))) == 2
