"""Checkpoints: what was cut comes back whole, on any mesh; what is damaged or foreign is refused by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

from parallel.checkpoints import Folder, Place
from parallel.checkpoints.folder import checkpoints, find
from parallel.checkpoints.index import NAME, Index
from parallel.tensor import Split
from parallel.training.recipe import Recipe
from parallel.training.text import Text
from parallel.training.training import Training

SMALL = Recipe(model="tiny", batch=7, sequence=19, seed=5, lr=0.01)


def state_of(training: Training) -> dict[str, Any]:
    """All that a step depends on, whole, on every rank: weights and optimizer states by name, and counters."""
    mine = [
        (held.name, held.place, {key: value.flatten() for key, value in held.tensors().items()}, held.numbers())
        for held in training.holdings()
        if held.first
    ]
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    found: dict[str, Any] = {}
    for name, place, tensors, numbers in (entry for entries in everyone for entry in entries):
        found |= {f"{name}/{key}": value for key, value in numbers.items()}
        for key, value in tensors.items():
            whole = found.setdefault(f"{name}/{key}", torch.full(place.shape, torch.nan, dtype=value.dtype))
            place.fill(whole, value)
    return found


def steps(training: Training, count: int) -> None:
    text, recipe = Text(__file__), training.recipe
    for _ in range(count):
        training.step(text.rows(training.steps, recipe.batch, recipe.sequence, recipe.seed))


def run(recipe: Recipe, count: int, save: str | None = None, resume: str | None = None) -> tuple[int, dict[str, Any]]:
    training = Training(recipe)
    if resume is not None:
        training.load(find(resume))
    steps(training, count)
    if save is not None:
        folder = Folder(save)
        if dist.get_rank() == 0:
            folder.prepare()
        training.save(folder)
    return training.steps, state_of(training)


def assert_equal(found: dict[str, Any], wanted: dict[str, Any], tolerance: float = 0.0) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=tolerance, msg=name)


FROM_TO = [
    ({"dp": 2}, {"dp": 1}),
    ({"dp": 1}, {"dp": 3}),
    ({"dp": 3, "zero": 3}, {"dp": 2, "zero": 1}),
    ({"dp": 2, "zero": 2}, {"dp": 4, "zero": 3}),
    ({"dp": 4, "zero": 1}, {"dp": 1}),
    ({"dp": 1}, {"dp": 5, "zero": 3}),
    ({"tp": 2, "dp": 2, "zero": 3}, {"dp": 1}),
    ({"pp": 2, "dp": 2}, {"tp": 2}),
    ({"dp": 3}, {"pp": 2, "tp": 2, "sp": True}),
    ({"pp": 2, "tp": 2, "dp": 2, "zero": 1}, {"tp": 4}),
]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(("before", "after"), FROM_TO, ids=str)
def test_what_one_mesh_saves_another_has_bitwise(
    ranks: Any, before: dict[str, Any], after: dict[str, Any], precision: str, tmp_path: Path
) -> None:
    recipe = replace(SMALL, precision=precision)
    first, second = replace(recipe, **before), replace(recipe, **after)
    saved = ranks(first.ranks, run, first, 3, str(tmp_path))[0]
    for done, state in ranks(second.ranks, run, second, 0, None, str(tmp_path)):
        assert done == 3
        assert_equal(state, saved[1])


@pytest.mark.parametrize(
    "way", [{}, {"zero": 1}, {"zero": 3}, {"precision": "fp16"}, {"zero": 2, "precision": "fp16"}], ids=str
)
def test_three_steps_and_two_are_five_bitwise(ranks: Any, way: dict[str, Any], tmp_path: Path) -> None:
    recipe = replace(SMALL, dp=2, **way)
    ranks(2, run, recipe, 3, str(tmp_path))
    gone_on = ranks(2, run, recipe, 2, None, str(tmp_path))
    straight = ranks(2, run, recipe, 5)
    for (_, found), (_, wanted) in zip(gone_on, straight, strict=True):
        assert_equal(found, wanted)


@pytest.mark.parametrize("other", [{}, {"dp": 3, "zero": 2}, {"dp": 2, "zero": 3}, {"tp": 2}, {"pp": 2}], ids=str)
def test_one_more_step_on_another_mesh_is_the_same_but_for_rounding(
    ranks: Any, other: dict[str, Any], tmp_path: Path
) -> None:
    ranks(2, run, replace(SMALL, dp=2), 3, str(tmp_path))
    wanted = ranks(2, run, replace(SMALL, dp=2), 1, None, str(tmp_path))[0][1]
    recipe = replace(SMALL, **other)
    for _, found in ranks(recipe.ranks, run, recipe, 1, None, str(tmp_path)):
        weights = {name for name in wanted if name.endswith("/weight")}
        assert_equal({name: found[name] for name in weights}, {name: wanted[name] for name in weights}, 1e-6)


# Places.


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("ranks_", [1, 2, 3])
def test_places_cut_fill_and_count(dim: int, ranks_: int) -> None:
    """Parts that the ranks do not divide, cut by dimension and then in two runs: each element once, padding nowhere."""
    whole = torch.randn(6, 5, 7, generator=torch.Generator().manual_seed(1))
    size = whole.shape[dim]
    split = Split(dim, (2, size - 2), padded=True)
    rebuilt, seen = torch.zeros_like(whole), torch.zeros(whole.shape, dtype=torch.uint8)
    for rank in range(ranks_):
        share = split.share(whole, rank, ranks_).flatten()
        half = share.numel() // 2 + 1
        for run in ((0, half), (half, share.numel())):
            place = Place.of(whole.shape, run, split, rank, ranks_)
            assert torch.equal(place.cut(whole), share[slice(*run)])
            assert Place.from_json(whole.shape, json.loads(json.dumps(place.to_json()))) == place
            place.fill(rebuilt, place.cut(whole))
            place.count(seen)
    assert torch.equal(rebuilt, whole)
    assert bool((seen == 1).all())


# Damage.


def refused(path: str, recipe: Recipe = SMALL) -> str:
    """What loading says, and that nothing was changed."""
    training = Training(replace(recipe, dp=dist.get_world_size()))
    before = {name: value.clone() for name, value in training.module.state_dict().items()}
    try:
        training.load(find(path))
    except ValueError as error:
        assert all(torch.equal(value, before[name]) for name, value in training.module.state_dict().items())
        return str(error)
    return ""


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def other_content(path: Path) -> None:
    save_file({name: value + 1 for name, value in load_file(path).items()}, path)


@pytest.mark.parametrize("damage", [flip, cut_off, other_content, Path.unlink], ids=lambda f: f.__name__)
def test_a_damaged_file_is_refused_by_name_on_all_ranks(ranks: Any, damage: Any, tmp_path: Path) -> None:
    ranks(2, run, replace(SMALL, dp=2, zero=1), 1, str(tmp_path))
    damage(find(tmp_path) / "rank-00001.safetensors")
    said = ranks(2, refused, str(tmp_path))
    assert all("rank-00001.safetensors" in text and "use an earlier checkpoint" in text for text in said), said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda index: index.update(format="another"), "not an index of a checkpoint"),
        (lambda index: index.update(version=2), "version 2 is not the 1"),
        (lambda index: index.pop("tensors"), "damaged"),
        (lambda index: index["files"].clear(), "none of the files"),
        (lambda index: index["tensors"]["norm.bias"].update(shape=[5]), "damaged"),
        (
            lambda index: index["tensors"]["norm.bias"]["parts"][0].__setitem__(0, "../../etc/passwd"),
            "none of the files",
        ),
        (lambda index: index["tensors"].pop("norm.bias"), "it has no norm.bias"),
        (lambda index: index["tensors"]["norm.bias"]["keys"].update(weight="load"), "damaged"),
    ],
)
def test_a_damaged_index_is_refused_by_name(ranks: Any, change: Any, words: str, tmp_path: Path) -> None:
    ranks(2, run, replace(SMALL, dp=2), 1, str(tmp_path))
    path = find(tmp_path) / NAME
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    for text in ranks(2, refused, str(tmp_path)):
        assert words in text


def test_an_index_that_is_no_json(ranks: Any, tmp_path: Path) -> None:
    ranks(1, run, SMALL, 1, str(tmp_path))
    (find(tmp_path) / NAME).write_bytes(b"\x80\x04\x95pickle")
    assert NAME in ranks(1, refused, str(tmp_path))[0]


def test_another_model_is_refused(ranks: Any, tmp_path: Path) -> None:
    ranks(1, run, SMALL, 1, str(tmp_path))
    for text in ranks(2, refused, str(tmp_path), replace(SMALL, model="small")):
        assert "of another model" in text


# The folder.


def test_the_newest_whole_one_is_found_and_the_oldest_go(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a" / "b", keep=2)
    folder.prepare()
    index = Index({"step": 0}, {}, {}).to_json()
    for step in (1, 2, 100):
        folder.begin(step)
        folder.finish(step, index)
    assert [path.name for path in checkpoints(folder.path)] == ["step-00000002", "step-00000100"]
    folder.begin(101)
    assert find(folder.path).name == "step-00000100"  # the partial one is not read
    folder.begin(102)
    assert not folder.partial(101).exists()


def test_a_save_of_the_same_step_that_was_killed_between_two_names(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.begin(5)
    whole = folder.finish(5, Index({"step": 5}, {}, {}).to_json())
    whole.rename(tmp_path / ".step-00000005.old")
    assert find(tmp_path) == whole


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="no folder for checkpoints"):
        Folder(tmp_path / "file" / "runs").prepare()
    with pytest.raises(ValueError, match="no checkpoint here"):
        find(tmp_path)


def save_to_a_full_disk(path: str) -> str:
    training = Training(replace(SMALL, dp=dist.get_world_size(), zero=3))
    folder = Folder(path)
    steps(training, 1)
    training.save(folder)
    steps(training, 1)
    filler = Path(path) / "filler"
    if dist.get_rank() == 0:
        space = shutil.disk_usage(path).free
        filler.write_bytes(bytes(max(0, space - 40_000)))
    dist.barrier()
    try:
        training.save(folder)
    except OSError as error:
        return str(error)
    return ""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a small disk needs root")
def test_a_full_disk_leaves_what_was_saved_before(ranks: Any, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        for said in ranks(2, save_to_a_full_disk, str(disk)):
            assert "step 2 was not saved" in said
            assert "space" in said
        assert [path.name for path in checkpoints(disk)] == ["step-00000001"]
        assert not list(disk.glob(".step*"))
        assert refused_none(ranks, disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def refused_none(ranks: Any, path: Path) -> bool:
    return all(text == "" for text in ranks(2, refused, str(path)))


def test_no_pickle_is_ever_read(tmp_path: Path) -> None:
    """The readers load neither torch's pickled format nor pickle itself from a file."""
    source = "".join(path.read_text() for path in (Path(__file__).parents[2] / "parallel" / "checkpoints").glob("*.py"))
    assert "torch.load" not in source
    assert "import pickle" not in source
    assert sys.version_info >= (3, 11)
