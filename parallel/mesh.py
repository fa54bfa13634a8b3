"""Who sits where: ranks in a grid with named axes, and a process group along each.

The grid is numbered like ``arange(32).view(pp, dp, tp)``: who talks most sits closest. Ranks of a tensor-parallel group
are neighbours inside a machine, pipeline stages, which send least, are farthest apart. Four stages on machines of eight
GPUs, tensor parallel 4, data parallel 2:

    machine 0   pp 0 dp 0 tp 0-3:  0  1  2  3     pp 0 dp 1 tp 0-3:  4  5  6  7
    machine 1   pp 1 dp 0 tp 0-3:  8  9 10 11     pp 1 dp 1 tp 0-3: 12 13 14 15
    machine 2   pp 2 dp 0 tp 0-3: 16 17 18 19     pp 2 dp 1 tp 0-3: 20 21 22 23
    machine 3   pp 3 dp 0 tp 0-3: 24 25 26 27     pp 3 dp 1 tp 0-3: 28 29 30 31

    groups of rank 5    along tp: 4 5 6 7    along dp: 1 5    along pp: 5 13 21 29
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

AXES = ("pp", "dp_replicate", "dp_shard", "dp", "tp")  # outermost first
_HALVES = ("dp_replicate", "dp_shard")


class Mesh:
    """A grid of ranks: coordinates, and the groups along its axes.

    Args:
        dp: data-parallel ranks; pp: pipeline stages; tp: tensor-parallel ranks.
        dp_replicate, dp_shard: data parallel in two, for hybrid sharding: state is cut over ``dp_shard`` neighbours and
            repeated ``dp_replicate`` times. ``"dp"`` is then an axis too: both together.

    Where there is a process group already, the mesh takes it: the groups along all axes are made at once, by all ranks
    in the same order. Without one it is a drawing, and ``coordinates``, ``ranks`` and ``print`` work all the same.

    Attributes:
        axes: size by name, outermost first; size: ranks in all; rank: this process, None in a drawing.

    Raises:
        ValueError: a size below 1, dp beside its halves, a product that is not the number of ranks there are.
    """

    def __init__(
        self,
        *,
        dp: int | None = None,
        pp: int = 1,
        tp: int = 1,
        dp_replicate: int | None = None,
        dp_shard: int | None = None,
    ) -> None:
        if dp_replicate is None and dp_shard is None:
            axes = {"pp": pp, "dp": 1 if dp is None else dp, "tp": tp}
        elif dp is None:
            halves = {"dp_replicate": dp_replicate or 1, "dp_shard": dp_shard or 1}
            axes = {"pp": pp, **halves, "tp": tp}
        else:
            raise ValueError(f"dp={dp} beside dp_replicate and dp_shard, whose product it is: leave dp out")
        self._lay_out(axes)
        self._connect()

    def _lay_out(self, axes: dict[str, int]) -> None:
        for name, size in axes.items():
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name}={size!r}: give a whole number of at least 1")
        self.axes = axes
        self.size = math.prod(axes.values())
        self.rank: int | None = None
        self._groups: dict[str, dist.ProcessGroup] = {}

    def _connect(self) -> None:
        """Every rank makes every group, its own or not, in the same order: who skips one hangs the others."""
        dist = sys.modules.get("torch.distributed")  # whoever has a process group has imported it; a drawing needs none
        if dist is None or not dist.is_initialized():
            return
        world = dist.get_world_size()
        if world != self.size:
            raise ValueError(
                f"the mesh {self._product()} has {self.size} ranks, but there are {world}: "
                "change an axis, or the number of ranks"
            )
        self.rank = dist.get_rank()
        for axis in [*self.axes, *(["dp"] if self._in_halves() else [])]:
            self._make_groups(axis)

    def _make_groups(self, axis: str) -> None:
        import torch.distributed as dist

        for members in self.all_ranks(axis):
            group = dist.new_group(members)
            if self.rank in members:
                self._groups[axis] = group

    # Arithmetic.

    def coordinates(self, rank: int | None = None) -> dict[str, int]:
        """Where a rank (None: this one) sits, by axis."""
        rank, found = self._known(rank), {}
        for axis, size in reversed(self.axes.items()):
            rank, found[axis] = divmod(rank, size)
        return {axis: found[axis] for axis in self.axes}

    def rank_at(self, **coordinates: int) -> int:
        """The rank that sits there; an axis left out counts as 0.

        Raises:
            ValueError: an axis that the mesh has not, a coordinate outside it.
        """
        rank = 0
        self._check(*coordinates)
        for axis, size in self.axes.items():
            coordinate = coordinates.get(axis, 0)
            if not 0 <= coordinate < size:
                raise ValueError(f"{axis}={coordinate!r}: the mesh has {axis} 0 to {size - 1}")
            rank = rank * size + coordinate
        return rank

    def ranks(self, axis: str, rank: int | None = None) -> list[int]:
        """The ranks along an axis through a rank (None: this one): those that differ in no other coordinate."""
        self._check(*self._parts(axis))
        rows = [self.coordinates(rank)]
        for part in self._parts(axis):
            rows = [row | {part: i} for row in rows for i in range(self.axes[part])]
        return [self.rank_at(**row) for row in rows]

    @property
    def replicas(self) -> int:
        """How many data-parallel ranks there are, whatever the axis is cut into."""
        return math.prod(size for axis, size in self.axes.items() if axis.startswith("dp"))

    def all_ranks(self, axis: str) -> list[list[int]]:
        """The groups along an axis, each as its ranks; together they are all ranks, once."""
        return [list(members) for members in sorted({tuple(self.ranks(axis, rank)) for rank in range(self.size)})]

    def _in_halves(self) -> bool:
        return all(half in self.axes for half in _HALVES)

    def _parts(self, axis: str) -> tuple[str, ...]:
        """The axis itself, or the halves that together are "dp"."""
        return _HALVES if axis == "dp" and self._in_halves() else (axis,)

    def _check(self, *axes: str) -> None:
        for axis in axes:
            if axis not in self.axes:
                raise ValueError(f"axis {axis!r}: this mesh has {', '.join(self.axes)}")

    def _known(self, rank: int | None) -> int:
        rank = self.rank if rank is None else rank
        if rank is None:
            raise ValueError("rank=None: this mesh is a drawing, made before init_process_group; name a rank")
        if not 0 <= rank < self.size:
            raise ValueError(f"rank={rank}: the mesh has ranks 0 to {self.size - 1}")
        return rank

    # Groups.

    def group(self, axis: str) -> dist.ProcessGroup:
        """The process group along an axis through this rank.

        Raises:
            ValueError: no such axis, or a mesh that is a drawing.
        """
        self._check(*self._parts(axis))
        if axis not in self._groups:
            raise ValueError(f"axis {axis!r}: this mesh is a drawing; make it after init_process_group to have groups")
        return self._groups[axis]

    def model_groups(self) -> list[dist.ProcessGroup]:
        """This rank's groups along the axes on which ranks have other parameters of one model: tp and pp."""
        return [self.group(axis) for axis in ("tp", "pp") if self.axes.get(axis, 1) > 1]

    def to_device_mesh(self, device_type: str = "cpu") -> DeviceMesh:
        """The same grid with the same groups as torch's ``DeviceMesh``."""
        import torch
        from torch.distributed.device_mesh import DeviceMesh

        grid = torch.arange(self.size, dtype=torch.int).view(*self.axes.values())
        groups = [self.group(axis) for axis in self.axes]
        return DeviceMesh.from_group(groups, device_type, mesh=grid, mesh_dim_names=tuple(self.axes))

    @classmethod
    def from_device_mesh(cls, device_mesh: DeviceMesh) -> Mesh:
        """A mesh on the groups of torch's ``DeviceMesh``; its axes in their order. All ranks call it.

        Raises:
            ValueError: unnamed or unknown axes, or ranks that are not numbered through in the order of the axes.
        """
        names = device_mesh.mesh_dim_names or ()
        unknown = [name for name in names if name not in AXES]
        if not names or unknown:
            raise ValueError(f"device_mesh has axes {names}: name them, each one of {', '.join(AXES)}")
        grid = device_mesh.mesh
        if grid.flatten().tolist() != list(range(grid.numel())):
            raise ValueError(f"device_mesh has ranks {grid.tolist()}: only 0, 1, 2, … in the order of its axes will do")
        mesh = cls.__new__(cls)
        mesh._lay_out(dict(zip(names, grid.shape, strict=True)))
        mesh.rank = device_mesh.get_rank()
        mesh._groups = {name: device_mesh.get_group(name) for name in names}
        if mesh._in_halves():
            mesh._make_groups("dp")
        return mesh

    # In words.

    def _product(self) -> str:
        return " × ".join(f"{axis} {size}" for axis, size in self.axes.items())

    def seats(self, per_machine: int = 8) -> str:
        """Who sits where: a line a machine, the ranks of an innermost group side by side."""
        *outer, inner = [axis for axis, size in self.axes.items() if size > 1] or ["tp"]
        row, width = self.axes[inner], len(str(self.size - 1))
        lines = [f"{self._product()} = {self.size} ranks, {per_machine} a machine"]
        for first in range(0, self.size, per_machine):
            cells: dict[str, list[int]] = {}
            for rank in range(first, min(first + per_machine, self.size)):
                place = self.coordinates(rank)
                cells.setdefault(" ".join(f"{axis} {place[axis]}" for axis in outer), []).append(rank)
            words = []
            for name, ranks in cells.items():
                low, high = ranks[0] % row, ranks[-1] % row
                span = f"{inner} {low}" if low == high else f"{inner} {low}-{high}"
                words.append(" ".join([name, f"{span}:", *(f"{rank:{width}}" for rank in ranks)]).strip())
            lines.append(f"machine {first // per_machine}   " + "     ".join(words))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.seats()

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{axis}={size}' for axis, size in self.axes.items())})"
