"""A schedule is data: a plain function that says who does what, in which order.

A *program* is a generator ``program(rank, size, **options)``. Each tuple it yields is one *step*; the operations of a
step start together. The words are ``Send``, ``Recv`` and ``Reduce``, on chunks of a buffer::

    rank 0 ── Send(2, to=1) ──▶ rank 1: Recv(2, source=0)      chunk 2 is replaced by what arrives
                                rank 1: Reduce(2, source=0)    chunk 2 is combined with what arrives

A ``Send`` reads its chunk as it was before the step; a ``Reduce`` combines after the step's sends of that chunk have
left. All operations of one step with one peer and one direction are one message, packed in the order listed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .sentence import Sentence


@dataclass(frozen=True, slots=True)
class Chunk:
    """Chunk ``index`` of a named buffer; written ``Buffer("scratch")[3]``. A bare int is the working buffer."""

    buffer: str
    index: int

    def __str__(self) -> str:
        return f"{self.buffer}[{self.index}]"


@dataclass(frozen=True, slots=True)
class Buffer:
    """One of a rank's buffers: ``input`` (what the caller gave), ``output`` (what the caller gets) or ``scratch``.

    Chunk i of ``scratch`` is as large as chunk i (modulo the number of chunks) of the working buffer.
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in ("input", "output", "scratch"):
            raise ValueError(
                Sentence(
                    "schedule.no_such_buffer",
                    'Buffer name {name} is unknown: use "input", "output" or "scratch"',
                    name=repr(self.name),
                )
            )

    def __getitem__(self, index: int) -> Chunk:
        return Chunk(self.name, index)


ChunkLike: TypeAlias = int | Chunk


@dataclass(frozen=True, slots=True)
class Send:
    """Send a chunk to rank ``to``, as it was before the step."""

    chunk: ChunkLike
    to: int


@dataclass(frozen=True, slots=True)
class Recv:
    """Replace a chunk by the one that rank ``source`` sends."""

    chunk: ChunkLike
    source: int


@dataclass(frozen=True, slots=True)
class Reduce:
    """Combine a chunk with the one that rank ``source`` sends; operands stand in rank order."""

    chunk: ChunkLike
    source: int


Operation: TypeAlias = Send | Recv | Reduce
Step: TypeAlias = tuple[Operation, ...]
Program: TypeAlias = Callable[..., Iterable[Step | Operation]]
ChunkCount: TypeAlias = int | Callable[..., int]
Symmetric: TypeAlias = bool | Callable[..., int]


def _accepts(function: Callable[..., Any], option: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == option or p.kind is p.VAR_KEYWORD for p in parameters)


def _tuples(steps: Iterable[Step | Operation]) -> Iterator[Step]:
    for step in steps:  # what is neither operation nor tuple is told by whoever packs the step
        yield tuple(step) if isinstance(step, Iterable) else (step,)


def _check_chunks(chunks: ChunkCount) -> ChunkCount:
    if callable(chunks) or (isinstance(chunks, int) and chunks >= 1):
        return chunks
    raise ValueError(
        Sentence(
            "schedule.chunks_are_no_number",
            "chunks={chunks}: give a whole number from 1 on, or a function of the number of ranks",
            chunks=repr(chunks),
        )
    )


def _per_rank(size: int) -> int:
    return size


class Schedule:
    """A program, the collective it carries out, and how the buffer is cut.

    Args:
        collective: the promise to keep, e.g. ``"all_reduce"`` (``collectives.contract`` lists them all).
        program: ``program(rank, size, **options)``, written for root 0; a sequence of programs is one a channel,
            each on its own share of the buffer, each advancing by itself. A program with a parameter named
            ``chunks`` is given the number of chunks.
        chunks: chunks of one channel's share: a number, or a function of the number of ranks (and of options that
            it names). Collectives with one block a rank need a multiple of the number of ranks.
        name: how the command line and error messages call it; the program's own name by default.
        symmetric: rank r does what rank 0 does, shifted by r; the prover checks it, the simulator profits. Or the
            ranks stand in rows, as in nodes: a function of the number of ranks (and of options that it names) that
            tells how many stand in one; rank r then does what rank 0 does, shifted within the rows and by rows.
        options: passed to the program.

    A schedule is immutable; ``with_options`` returns a changed copy.
    """

    __slots__ = ("_said", "chunks", "collective", "name", "options", "programs", "symmetric")

    def __init__(
        self,
        collective: str,
        program: Program | Sequence[Program],
        chunks: ChunkCount = _per_rank,
        name: str = "",
        symmetric: Symmetric = False,
        **options: Any,
    ) -> None:
        programs: tuple[Program, ...] = (program,) if callable(program) else tuple(program)
        if not programs or not all(callable(one) for one in programs):
            raise ValueError(
                Sentence(
                    "schedule.no_program",
                    "program={program}: give a function program(rank, size), or a sequence, one a channel",
                    program=repr(program),
                )
            )
        from .contract import contract_of

        contract_of(collective)
        _check_chunks(chunks)
        self.collective = collective
        self.programs = programs
        self.chunks = chunks
        self.name = name or getattr(programs[0], "__name__", "schedule")
        self.symmetric = symmetric
        self.options = options
        self._said: dict[str, Any] = {}  # what with_options changed, as a command line says it

    @property
    def channels(self) -> int:
        return len(self.programs)

    def chunk_count(self, size: int) -> int:
        """Chunks of one channel's share of the buffer, for ``size`` ranks."""
        if isinstance(self.chunks, int):
            count = self.chunks
        else:
            known = {name: value for name, value in self.options.items() if _accepts(self.chunks, name)}
            count = self.chunks(size, **known)
        if count < 1:
            raise ValueError(
                Sentence(
                    "schedule.no_chunks",
                    "chunks={chunks} of {schedule} (ranks: {size}): a buffer has at least 1 chunk",
                    chunks=count,
                    schedule=str(self),
                    size=size,
                )
            )
        return count

    def row(self, size: int) -> int:
        """Ranks that stand in a row, if the schedule is symmetric: all, or what its ``symmetric`` says."""
        if not callable(self.symmetric):
            return size
        known = {name: value for name, value in self.options.items() if _accepts(self.symmetric, name)}
        return self.symmetric(size, **known)

    def steps(self, rank: int, size: int, channel: int = 0) -> Iterator[Step]:
        """What ``rank`` of ``size`` does in one channel, a tuple a step."""
        program = self.programs[channel]
        options = dict(self.options)
        if _accepts(program, "chunks"):
            options["chunks"] = self.chunk_count(size)
        yield from _tuples(program(rank, size, **options))

    def __call__(self, rank: int, size: int, **options: Any) -> Iterator[Step]:
        """The program itself, so that a registered schedule reads like the function it decorates."""
        if self.channels > 1:
            raise ValueError(
                Sentence(
                    "schedule.several_channels",
                    "{schedule} has {channels} channels: call steps(rank, size, channel) of one of them",
                    schedule=str(self),
                    channels=self.channels,
                )
            )
        return _tuples(self.programs[0](rank, size, **{**self.options, **options}))

    def with_options(self, **options: Any) -> Schedule:
        """A copy with other options; ``chunks`` sets the number of chunks, ``channels`` splits every channel.

        Raises:
            ValueError: an option that no program of this schedule takes.
        """
        said = {**self._said, **options}
        chunks = _check_chunks(options.pop("chunks", self.chunks))
        factor = options.pop("channels", 1)
        if not isinstance(factor, int) or factor < 1:
            raise ValueError(
                Sentence(
                    "schedule.channels_are_no_number",
                    "channels={channels} of {schedule}: use a whole number from 1 on",
                    channels=str(factor),
                    schedule=str(self),
                )
            )
        if "channels" in said:
            said["channels"] = factor * self._said.get("channels", 1)
        if chunks is not self.chunks and not any(_accepts(program, "chunks") for program in self.programs):
            raise ValueError(
                Sentence(
                    "schedule.chunks_are_fixed",
                    "chunks={chunks} of {schedule}: its number of chunks is fixed; leave the option away",
                    chunks=str(chunks),
                    schedule=str(self),
                )
            )
        for option in options:
            if not any(_accepts(program, option) for program in self.programs):
                names = tuple(self.option_names())
                raise ValueError(
                    Sentence(
                        "schedule.no_such_option",
                        "{schedule} has no option {option}: it takes {names}",
                        schedule=str(self),
                        option=repr(option),
                        names=names or Sentence("schedule.no_options", "none"),
                    )
                )
        changed = Schedule(
            self.collective, self.programs * factor, chunks, self.name, self.symmetric, **{**self.options, **options}
        )
        changed._said = said
        return changed

    def option_names(self) -> list[str]:
        """What may follow the name on a command line, beside ``channels`` and ``chunks``."""
        parameters = inspect.signature(self.programs[0]).parameters
        return [name for name in parameters if name not in ("rank", "size", "chunks")]

    def __str__(self) -> str:
        """The name and what ``with_options`` changed, as ``find`` reads it: ``chain:chunks=16``."""
        said = ",".join(f"{option}={value}" for option, value in self._said.items())
        return f"{self.name}:{said}" if said else self.name

    def __repr__(self) -> str:
        return f"<Schedule {self.collective} {self}>"
