"""Where the virtual stages are, and so what an action waits for and what it hands on."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from collectives.errors import ScheduleError

from .schedule import Action, Backward, BackwardInput, BackwardWeight, Forward, PipelineSchedule, check_sizes

Kind: TypeAlias = Literal["activation", "gradient"]


class Transfer(NamedTuple):
    """The activation or the gradient of a microbatch, on its way to virtual stage ``stage``.

    source, to: the ranks; where they are the same it is handed over, and no message. (A named tuple, because a
    simulation makes and compares a hundred thousand of them.)
    """

    kind: Kind
    microbatch: int
    stage: int
    source: int
    to: int

    def __str__(self) -> str:
        return f"the {self.kind} of microbatch {self.microbatch} for stage {self.stage}"


class Stages:
    """The virtual stages of a schedule on so many ranks.

    count: how many; stage[rank][chunk]: which; home[stage]: (rank, chunk).

    Raises:
        ScheduleError: the placement does not give every stage to one chunk.
    """

    def __init__(self, schedule: PipelineSchedule, ranks: int, chunks: int | None = None) -> None:
        check_sizes(ranks, 1)
        self.ranks, self.chunks = ranks, schedule.chunk_count(chunks)
        self.count = ranks * self.chunks
        self.stage = [[schedule.placement(rank, c, ranks) for c in range(self.chunks)] for rank in range(ranks)]
        homes: dict[int, tuple[int, int]] = {}
        for rank, stages in enumerate(self.stage):
            for chunk, stage in enumerate(stages):
                if stage in homes or not 0 <= stage < self.count:
                    other = f"so is chunk {homes[stage][1]} of rank {homes[stage][0]}" if stage in homes else "no such"
                    raise ScheduleError(
                        f"{schedule}: chunk {chunk} of rank {rank} is placed on virtual stage {stage}, {other}; "
                        f"placement(rank, chunk, ranks) must give each of 0 to {self.count - 1} once",
                        "order",
                        rank,
                    )
                homes[stage] = rank, chunk
        self.home = [homes[stage] for stage in range(self.count)]

    def takes(self, rank: int, action: Action) -> Transfer | None:
        """What the action waits for; None where it is the batch's data, the loss, or what its own rank has done."""
        stage, kind = self.stage[rank][action.chunk], type(action)
        if kind is Forward:
            if stage > 0:
                return Transfer("activation", action.microbatch, stage, self.home[stage - 1][0], rank)
        elif kind is not BackwardWeight and stage < self.count - 1:
            return Transfer("gradient", action.microbatch, stage, self.home[stage + 1][0], rank)
        return None

    def gives(self, rank: int, action: Action) -> Transfer | None:
        """What the action hands on; None where nobody waits for it."""
        stage, kind = self.stage[rank][action.chunk], type(action)
        if kind is Forward:
            if stage < self.count - 1:
                return Transfer("activation", action.microbatch, stage + 1, rank, self.home[stage + 1][0])
        elif (kind is Backward or kind is BackwardInput) and stage > 0:
            return Transfer("gradient", action.microbatch, stage - 1, rank, self.home[stage - 1][0])
        return None
