"""A pipeline schedule is data: a plain function that says what each rank computes, in which order.

The model is cut into ``ranks * chunks`` *virtual stages*, the batch into microbatches; a rank holds ``chunks`` of the
stages. A *program* ``(rank, ranks, microbatches, chunks)`` yields what its rank does: ``Forward``, ``Backward``, or the
two halves of a backward, ``BackwardInput`` (the gradient that the stage before waits for) and ``BackwardWeight`` (which
nobody waits for, so it can fill a gap). A tuple of two is an overlapped pair: they run at the same time. Programs say
nothing of time, nor of messages: ``transfers`` derives those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from collectives.errors import ScheduleError


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward pass of a microbatch through this rank's model chunk ``chunk``."""

    microbatch: int
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class Backward:
    """The whole backward pass: the gradients of input and weights."""

    microbatch: int
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class BackwardInput:
    """The gradient of the chunk's input: what the stage before waits for. ("B" in the zero-bubble papers.)"""

    microbatch: int
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class BackwardWeight:
    """The gradient of the chunk's weights, any time after its ``BackwardInput``."""

    microbatch: int
    chunk: int = 0


Action: TypeAlias = Forward | Backward | BackwardInput | BackwardWeight
Step: TypeAlias = tuple[Action, ...]
Program: TypeAlias = Callable[[int, int, int, int], Iterable[Action | Step]]
Placement: TypeAlias = Callable[[int, int, int], int]

LETTERS: dict[type[Action], str] = {Forward: "F", Backward: "B", BackwardInput: "I", BackwardWeight: "W"}


def loop(rank: int, chunk: int, ranks: int) -> int:
    """Virtual stages run round the ranks, ``chunks`` times: rank 0 of 4 holds 0, 4, 8, …"""
    return chunk * ranks + rank


def vee(rank: int, chunk: int, ranks: int) -> int:
    """Virtual stages go down the ranks and up again: rank 0 of 4 holds 0 and 7, rank 3 holds 3 and 4."""
    return rank if chunk == 0 else 2 * ranks - 1 - rank


@dataclass(frozen=True, slots=True)
class PipelineSchedule:
    """A program, and where it puts the virtual stages.

    name: how the command line and error messages call it. placement: (rank, chunk, ranks) → virtual stage.
    chunks: how many chunks of the model a rank holds; if ``flexible``, any number may be asked for instead.
    """

    name: str
    program: Program
    placement: Placement = loop
    chunks: int = 1
    flexible: bool = False

    def chunk_count(self, chunks: int | None) -> int:
        """The number of chunks that is asked for, or the schedule's own for None.

        Raises:
            ValueError: the schedule does not run with so many.
        """
        if chunks is None or chunks == self.chunks:
            return self.chunks
        if not self.flexible:
            plural = "" if self.chunks == 1 else "s"
            raise ValueError(
                f"chunks={chunks} of {self.name}: a rank holds {self.chunks} chunk{plural}; leave it away, "
                "or use interleaved or looped"
            )
        if chunks < 1:
            raise ValueError(f"chunks={chunks} of {self.name}: use a number from 1 on")
        return chunks

    def steps(self, rank: int, ranks: int, microbatches: int, chunks: int | None = None) -> list[Step]:
        """What ``rank`` does, a tuple a step.

        Raises:
            ValueError: numbers that are no pipeline, a program that fails, or (``ScheduleError``) a step that is not
                made of actions.
        """
        check_sizes(ranks, microbatches)
        count = self.chunk_count(chunks)
        steps: list[Step] = []
        try:
            for step in self.program(rank, ranks, microbatches, count):
                if not isinstance(step, tuple) and type(step) in LETTERS:
                    steps.append((step,))
                else:
                    steps.append(self._checked(step, len(steps), rank))
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(
                f"the program of {self} raised {type(error).__name__}: {error}, on rank {rank} of {ranks} after "
                f"{counted(len(steps), 'step')}"
            ) from error
        return steps

    def _checked(self, step: object, number: int, rank: int) -> Step:
        actions = step if isinstance(step, tuple) else (step,)
        if not 1 <= len(actions) <= 2 or not all(type(action) in LETTERS for action in actions):
            raise ScheduleError(
                f"{self.name}: step {number} of rank {rank} is {step!r}; yield Forward, Backward, BackwardInput or "
                "BackwardWeight, or a tuple of two that overlap",
                "order",
                rank,
                number,
            )
        return actions

    def __str__(self) -> str:
        return self.name


def counted(number: float, noun: str) -> str:
    """A number with its noun: ``1 microbatch``, ``5.5 microbatches``."""
    text = f"{number:.4g}" if isinstance(number, float) else f"{number}"
    return f"{text} {noun}" if number == 1 else f"{text} {noun}{'es' if noun.endswith('h') else 's'}"


def check_sizes(ranks: int, microbatches: int) -> None:
    """Refuse a pipeline without ranks or work.

    Raises:
        ValueError: a number below 1.
    """
    if ranks < 1:
        raise ValueError(f"ranks={ranks}: a pipeline has at least 1 stage; use a number from 1 on")
    if microbatches < 1:
        raise ValueError(f"microbatches={microbatches}: a step has at least 1 microbatch; use a number from 1 on")
