"""What one benchmark run measured, whoever printed it. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

_BYTES = {
    1: ("int8", "uint8", "char", "float8", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "bool"),
    2: ("half", "float16", "bfloat16", "int16", "uint16"),
    4: ("float", "float32", "int", "int32", "uint32"),
    8: ("double", "float64", "int64", "uint64"),
}
_ITEMSIZE = {name: size for size, names in _BYTES.items() for name in names}


def itemsize_of(dtype: str | None) -> int | None:
    """Bytes of an element, by the names that nccl-tests and torch use; None if unknown."""
    return _ITEMSIZE.get(dtype or "")


@dataclass(frozen=True, slots=True)
class Timing:
    """One operation at one size. algbw, busbw: GB/s (10⁹ bytes); wrong: elements, None if they were not counted."""

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One size.

    size: bytes of the whole buffer; count: elements as the benchmark prints them, of one rank's block where the
    collective has blocks; dtype, redop: as printed; None where there is none, as for root.
    """

    size: int
    count: int
    dtype: str | None
    redop: str | None
    root: int | None
    out_of_place: Timing | None
    in_place: Timing | None

    @property
    def timings(self) -> tuple[Timing, ...]:
        """Those that were measured."""
        return tuple(timing for timing in (self.out_of_place, self.in_place) if timing is not None)


@dataclass(frozen=True, slots=True)
class Run:
    """The rows of one run of one collective; None and empty where the text does not say.

    algorithm: None where the library has picked it unseen. hosts: name → ranks on it, empty unless all are known.
    average_busbw: as printed, GB/s. notes: how things were found out; doubts: what is missing or does not fit.
    """

    collective: str | None
    ranks: int | None
    rows: tuple[Row, ...]
    algorithm: str | None = None
    hosts: dict[str, int] = field(default_factory=dict)
    gpu: str | None = None
    nccl_version: str | None = None
    average_busbw: float | None = None
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def ranks_per_host(self) -> int | None:
        """If the hosts are known and have equally many."""
        counts = set(self.hosts.values())
        return counts.pop() if len(counts) == 1 else None
