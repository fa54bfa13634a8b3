"""What PyTorch's own flight recorder has dumped, read as flight records.

PyTorch keeps the last TORCH_FR_BUFFER_SIZE operations of each rank. At a timeout it writes them, as a pickle, to the
file that TORCH_FR_DUMP_TEMP_FILE (before: TORCH_NCCL_DEBUG_INFO_TEMP_FILE) names with the rank's number behind it;
``torch._C._distributed_c10d._dump_nccl_trace_json()`` (of gloo's operations: ``_dump_fr_trace_json()``) gives them as
JSON, to be written by hand. Format 2.x, as ``torch/csrc/distributed/c10d/FlightRecorder.hpp`` and the readers in
``torch/distributed/flight_recorder/`` have it:

=================  =============================================================================================
entries            of each operation ``profiling_name`` (``nccl:all_reduce``, ``nccl:send 0->1`` with ranks of the
                   group), ``process_group`` (name, description), ``collective_seq_id``, ``p2p_seq_id``, ``is_p2p``,
                   ``input_sizes``, ``input_dtypes``, ``output_…``, ``state`` (``scheduled`` → ``started`` →
                   ``completed``), ``retired``, ``time_…_ns``, and perhaps ``frames``, the caller first;
                   JSON leaves an empty list out
pg_config          name → ``ranks``, a list as text; gloo does not fill it
=================  =============================================================================================

What is issued as one has one number and ends with an entry ``…coalesced``, which alone knows its state. An operation
of gloo stays ``scheduled`` but is ``retired`` when it is over, well or not; one of NCCL that is retired before it is
completed has timed out.
"""

from __future__ import annotations

import io
import itertools
import json
import pickle
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from ..sentence import Sentence
from .records import DAMAGED, Flights, Flown, Record, Stand, unreadable

_DTYPES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}
_DTYPES |= {"short": "int16", "char": "int8", "byte": "uint8"}  # C++'s names that are not Python's
# where ranks may give or take different sizes
_UNEVEN = (
    "all_to_all",
    "all_to_all_single",
    "all_to_all_v_single",
    "alltoall_base",
    "all_gather_v",
    "reduce_scatter_v",
)
_KEYS = (b"entries", b"pg_config", b"comm_lib_version")  # one of them comes first in JSON
_UNEVEN_INPUTS, _UNEVEN_OUTPUTS = (*_UNEVEN, "scatter"), (*_UNEVEN, "gather")


def dumps_in(paths: Iterable[Path]) -> dict[int, Path]:
    """Those that may be dumps, whole or not, by rank: the last number in the name.

    Raises:
        ValueError: two files of one rank.
    """
    found: dict[int, Path] = {}
    for path in paths:
        numbers = re.findall(r"\d+", path.name.removesuffix(".json").removesuffix(".pickle").removesuffix(".pkl"))
        if not numbers or not path.is_file() or not _may_be_dump(path):
            continue
        other = found.setdefault(int(numbers[-1]), path)
        if other != path:
            raise ValueError(
                Sentence(
                    "flight.two_files",
                    "{one} and {other} are both of rank {rank}: keep the files of one run in a folder",
                    one=str(other),
                    other=str(path),
                    rank=int(numbers[-1]),
                )
            )
    return found


def _may_be_dump(path: Path) -> bool:
    with path.open("rb") as file:
        begin = file.read(1 << 12)
    return begin[:1] == b"\x80" or (begin[:1] == b"{" and any(b'"%s"' % key in begin for key in _KEYS))


def read_dumps(paths: dict[int, Path]) -> Flights:
    """Read the dumps of one run; what is damaged is left out, and said so. O(operations)."""
    records: dict[int, Record] = {}
    damaged = []
    for rank, path in paths.items():
        try:
            records[rank] = _record(rank, _load(path.read_bytes()))
        except (*DAMAGED, pickle.UnpicklingError, EOFError) as error:
            damaged.append(unreadable(path, error))
    everyone = tuple(range(max((max(record.size, rank + 1) for rank, record in records.items()), default=0)))
    for record in records.values():
        for name, members in record.groups.items():  # gloo does not tell, but the default group has all
            if not members and name.endswith("(default_pg)"):
                record.groups[name] = everyone
            elif not members:
                record.groups[name] = (record.rank,)
    return Flights(records, damaged)


class _Plain(pickle.Unpickler):
    """Reads dicts, lists, tuples, strings and numbers. A pickle that names anything else might run it."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it wants to run {module}.{name}, which a dump never does")

    def persistent_load(self, identity: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside")


def _load(data: bytes) -> dict[str, Any]:
    said = json.loads(data) if data[:1] == b"{" else _Plain(io.BytesIO(data)).load()
    version = str(said["version"])
    if version.partition(".")[0] != "2":
        raise ValueError(f"format {version}; this reads 2.x, of PyTorch 2.5 and later")
    return dict(said)


def _record(rank: int, dump: dict[str, Any]) -> Record:
    groups: dict[str, tuple[int, ...]] = {}
    config = {str(name): _ranks(group.get("ranks", "[]")) for name, group in dump["pg_config"].items()}
    operations: list[Flown] = []
    entries = dump.get("entries", [])
    for _, issue in itertools.groupby(entries, key=_issue):
        operations += _issued(rank, list(issue), config, groups)
    lasts = {operation.group: operation for operation in operations}
    for operation in operations:
        if operation.state == "over" and operation is not lasts[operation.group]:
            operation.state = "done"  # or the group would be broken
    size = max((max(ranks, default=-1) + 1 for ranks in config.values()), default=0)
    return Record(rank, size, operations, groups, dropped=int(entries[0]["record_id"]) if entries else 0)


def _ranks(text: Any) -> tuple[int, ...]:
    return tuple(sorted(int(rank) for rank in (json.loads(text) if isinstance(text, str) else text)))


def _issue(entry: dict[str, Any]) -> tuple[object, ...]:
    """The same for all entries that were issued as one."""
    message = _is_message(entry)
    return tuple(entry["process_group"]), message, entry["p2p_seq_id" if message else "collective_seq_id"]


def _op(entry: dict[str, Any]) -> tuple[str, str]:
    """``nccl:send 0->1`` is ``send`` and ``0->1``."""
    op, _, ends = str(entry["profiling_name"]).partition(":")[2].partition(" ")
    return op, ends


def _is_message(entry: dict[str, Any]) -> bool:
    return bool(entry.get("is_p2p", _op(entry)[0] in ("send", "recv")))


def _issued(
    rank: int, entries: list[dict[str, Any]], config: dict[str, tuple[int, ...]], groups: dict[str, tuple[int, ...]]
) -> Iterator[Flown]:
    last = entries[-1]
    name = str(last["profiling_name"])
    if name.endswith("coalesced") and (len(entries) > 1 or name.endswith(":coalesced")):
        entries = entries[:-1]
    title, description = (str(word) for word in last["process_group"])
    members = config.get(title, ())
    label = title if description in ("", "undefined") else f"{title} ({description})"
    if members and description != "default_pg":  # split_group gives different groups one name
        label += f" of ranks {', '.join(map(str, members))}"
    groups[label] = members
    for part, entry in enumerate(entries):
        if _is_message(entry) and _op(entry)[0] not in ("send", "recv"):
            continue  # a receive from anybody: who should have sent is not known
        yield _flown(rank, entry, part, label, members, _state(last))


def _state(entry: dict[str, Any]) -> str:
    if str(entry["profiling_name"]).startswith("gloo:"):
        return "over" if entry.get("retired") or entry["state"] == "completed" else "started"
    if entry["state"] == "completed":
        return "done"
    return "failed" if entry.get("retired") else "started" if entry["state"] == "started" else "queued"


def _flown(rank: int, entry: dict[str, Any], part: int, group: str, members: tuple[int, ...], state: str) -> Flown:
    op, ends = _op(entry)
    peer = None
    if op in ("send", "recv"):
        peer = int(re.split("->|<-", ends)[1])
        peer = members[peer] if members else peer
    inputs, outputs = _sizes(entry["input_sizes"]), _sizes(entry["output_sizes"])
    shown = ([] if op in _UNEVEN_INPUTS else inputs), ([] if op in _UNEVEN_OUTPUTS else outputs)
    given, taken = (", ".join("×".join(map(str, size)) or "a scalar" for size in sizes) for sizes in shown)
    dtype = ", ".join(dict.fromkeys(_dtypes(entry.get("input_dtypes")) or _dtypes(entry.get("output_dtypes"))))
    tensors = " → ".join(dict.fromkeys(filter(None, (given, taken))))
    of = " ".join(filter(None, (tensors, dtype)))
    said = f"{op} of {of}" if of else op
    if peer is not None:
        said += f" {'to' if op == 'send' else 'from'} rank {peer}"
    stands = (Stand(None, "send" if op == "send" else "receive", peer),) if peer is not None else ()
    return Flown(
        rank=rank,
        group=group,
        number=(int(entry["p2p_seq_id" if _is_message(entry) else "collective_seq_id"]), part),
        op=op,
        said=said,
        state=state,
        shape=tuple(inputs[0]) if inputs and op not in _UNEVEN_INPUTS else None,
        dtype=dtype,
        queued=_seconds(entry.get("time_created_ns")),
        started=_seconds(entry.get("time_discovered_started_ns")),
        ended=_seconds(entry.get("time_discovered_completed_ns")),
        cause="timeout" if state == "failed" else "",
        stands=stands,
        peer=peer,
        where=_where(entry.get("frames")),
    )


def _sizes(sizes: Iterable[Iterable[Any]]) -> list[list[int]]:
    return [[int(n) for n in size] for size in sizes]


def _dtypes(names: object) -> list[str]:
    names = [names] if isinstance(names, str) else names if isinstance(names, (list, tuple)) else []
    return [_DTYPES.get(str(name).lower(), str(name).lower()) for name in names if name]


def _seconds(nanoseconds: object) -> float:
    return nanoseconds / 1e9 if isinstance(nanoseconds, (int, float)) else 0.0


def _where(frames: object) -> str:
    """The line of the user's that led to the call."""
    for frame in frames if isinstance(frames, (list, tuple)) else ():
        file = str(frame["filename"]).replace("\\", "/")
        if "/torch/" not in file:
            return f"{file.rpartition('/')[2]}:{frame['line']}"
    return ""
