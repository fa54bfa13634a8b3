"""Who sits where, and the groups along the axes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import collectives
from parallel import Mesh

PICTURE = """\
pp 4 × dp 2 × tp 4 = 32 ranks, 8 a machine
machine 0   pp 0 dp 0 tp 0-3:  0  1  2  3     pp 0 dp 1 tp 0-3:  4  5  6  7
machine 1   pp 1 dp 0 tp 0-3:  8  9 10 11     pp 1 dp 1 tp 0-3: 12 13 14 15
machine 2   pp 2 dp 0 tp 0-3: 16 17 18 19     pp 2 dp 1 tp 0-3: 20 21 22 23
machine 3   pp 3 dp 0 tp 0-3: 24 25 26 27     pp 3 dp 1 tp 0-3: 28 29 30 31"""


def test_thirty_two_gpus():
    """Four stages, machines of eight GPUs, tensor parallel 4, data parallel 2: a machine is a stage."""
    mesh = Mesh(dp=2, pp=4, tp=4)
    assert str(mesh) == PICTURE
    for rank in range(32):
        place = mesh.coordinates(rank)
        assert place == {"pp": rank // 8, "dp": rank % 8 // 4, "tp": rank % 4}
        assert mesh.rank_at(**place) == rank
    assert [mesh.ranks(axis, 13) for axis in ("tp", "dp", "pp")] == [[12, 13, 14, 15], [9, 13], [5, 13, 21, 29]]
    assert mesh.all_ranks("pp") == [[i, i + 8, i + 16, i + 24] for i in range(8)]
    for group in mesh.all_ranks("tp") + mesh.all_ranks("dp"):  # no wire between machines but for the pipeline
        assert len({rank // 8 for rank in group}) == 1


def test_hybrid_sharding_has_dp_as_both_halves():
    mesh = Mesh(dp_replicate=2, dp_shard=3, tp=2)
    assert mesh.all_ranks("dp_shard") == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]
    assert mesh.all_ranks("dp_replicate") == [[i, i + 6] for i in range(6)]
    assert mesh.all_ranks("dp") == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Mesh(dp=0), "dp=0"),
        (lambda: Mesh(pp=2.0), "pp=2.0"),
        (lambda: Mesh(dp=4, dp_shard=2), "leave dp out"),
        (lambda: Mesh(dp=2).ranks("ep", 0), "axis 'ep': this mesh has pp, dp, tp"),
        (lambda: Mesh(dp=2).coordinates(2), "rank=2: the mesh has ranks 0 to 1"),
        (lambda: Mesh(dp=2).coordinates(), "a drawing"),
        (lambda: Mesh(dp=2).group("dp"), "a drawing"),
        (lambda: Mesh(dp=2).rank_at(dp=2), "dp=2: the mesh has dp 0 to 1"),
    ],
)
def test_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def sums(axes):
    """Along every axis the sum of 10**rank: its digits say who took part."""
    mesh = Mesh(**axes)
    out = {}
    for axis in [*mesh.axes, "dp"]:
        total = torch.tensor(10 ** dist.get_rank())
        collectives.all_reduce(total, group=mesh.group(axis))
        out[axis] = [rank for rank in range(mesh.size) if str(total.item())[::-1][rank : rank + 1] == "1"]
        assert out[axis] == mesh.ranks(axis)
        assert mesh.rank == dist.get_rank()
    return out


@pytest.mark.parametrize("axes", [{"dp": 2, "tp": 2}, {"pp": 4}, {"dp_replicate": 2, "dp_shard": 2}])
def test_groups_join_those_along_the_axis(ranks, axes):
    everyone = ranks(4, sums, axes)
    for axis in everyone[0]:
        assert all(rank in said[axis] for rank, said in enumerate(everyone))


def against_torch():
    ours = Mesh(dp=2, tp=2)
    there = ours.to_device_mesh()
    theirs = init_device_mesh("cpu", (1, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    back = Mesh.from_device_mesh(theirs)
    hybrid = Mesh.from_device_mesh(init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard")))
    total = torch.tensor(1 + dist.get_rank())
    collectives.all_reduce(total, group=hybrid.group("dp"))
    refused = []
    for shape, names in [((4,), ("data",)), ((4,), None)]:
        try:
            Mesh.from_device_mesh(init_device_mesh("cpu", shape, mesh_dim_names=names))
        except ValueError as error:
            refused.append("name them" in str(error))
    return (
        there.mesh_dim_names == theirs.mesh_dim_names and torch.equal(there.mesh, theirs.mesh),
        [dist.get_process_group_ranks(there.get_group(axis)) == ours.ranks(axis) for axis in ours.axes],
        there.get_group("tp") is ours.group("tp"),
        [dist.get_process_group_ranks(back.group(axis)) == ours.ranks(axis) for axis in ours.axes],
        back.axes == ours.axes and back.rank == dist.get_rank(),
        total.item(),
        refused,
    )


def test_device_mesh_there_and_back(ranks):
    assert ranks(4, against_torch) == [(True, [True] * 3, True, [True] * 3, True, 10, [True] * 2)] * 4


def another_world():
    try:
        Mesh(dp=3)
    except ValueError as error:
        return str(error)
    return "accepted"


def test_a_mesh_of_another_world(ranks):
    assert all("has 3 ranks, but there are 2" in said for said in ranks(2, another_world))


def test_drawn_without_torch():
    code = "import sys; from parallel.mesh import Mesh; from parallel import formulas, buckets; print(Mesh(pp=2)); "
    subprocess.run([sys.executable, "-c", code + "assert 'torch' not in sys.modules"], check=True, capture_output=True)
