"""Reads benchmark runs from JSON: that of this project's ``bench`` and that of nccl-tests (``-J``). Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from ..contract import contract_of
from .measured_run import Row, Run, Timing, itemsize_of
from .nccl_row import Group, Printed, Reading
from .nccl_run import Account, Device, test_of, version_of

NATIVE = "native"
_BENCH = "give the file that bench --json has written"
_HALF = 5e-7  # nccl-tests write six digits after the point


def read_bench_json(text: str, name: str = "json") -> list[Run]:
    """The runs in the JSON of ``python -m collectives bench``: one an algorithm, and one of the backend itself.

    The backend's has the algorithm ``native``. Operations that work within one buffer are in place; O(rows).

    Raises:
        ValueError: it is no such JSON; names the row and the field.
    """
    data = _object(text, name)
    environment, rows = data.get("environment"), data.get("rows")
    if not isinstance(environment, dict) or not isinstance(rows, list):
        raise ValueError(f'{name}: no "environment" and "rows"; {_BENCH}')
    runs: dict[tuple[Any, ...], dict[int, Row]] = {}
    for number, row in enumerate(rows):
        where = f"{name}: rows[{number}]"
        if not isinstance(row, dict):
            raise ValueError(f"{where} is no object; {_BENCH}")
        collective, algorithm = (_word(row, key, where) for key in ("collective", "algorithm"))
        ranks, size = max(1, int(_amount(row, "ranks", where))), int(_amount(row, "bytes", where))
        dtype, redop = (row[key] if isinstance(row.get(key), str) else None for key in ("dtype", "redop"))
        key = collective, ranks, dtype, redop
        time, algbw, busbw = (_amount(row, field, where) for field in ("time_us", "algbw", "busbw"))
        wrong = _finite(row.get("wrong"))
        ours = Timing(time, algbw, busbw, None if wrong is None else int(wrong))
        runs.setdefault((algorithm, *key), {})[size] = _row(collective, ranks, size, dtype, redop, ours)
        if row.get("native_time_us") is not None:
            time, busbw = (_amount(row, field, where) for field in ("native_time_us", "native_busbw"))
            native = Timing(time, size / time / 1e3 if time else 0.0, busbw, None)
            runs.setdefault((NATIVE, *key), {})[size] = _row(collective, ranks, size, dtype, redop, native)
    if not runs:
        raise ValueError(f"{name}: there are no rows; run bench again")
    return [_bench_run(key, list(found.values()), environment) for key, found in runs.items()]


def read_nccl_json(text: str, name: str = "json", collective: str | None = None) -> list[Run]:
    """The run in the JSON of nccl-tests (``-J``); O(results).

    Raises:
        ValueError: it is no such JSON, or there is no result in it.
    """
    data = _object(text, name)
    results, config = data.get("results"), data.get("config")
    if not isinstance(results, list) or not isinstance(config, dict):
        raise ValueError(
            f'{name}: neither the JSON of bench ("environment", "rows") nor that of nccl-tests ("config", "results"); '
            "give a file that bench --json or all_reduce_perf -J has written"
        )
    args = data.get("args")
    command = str(args[0]) if isinstance(args, list) and args else ""
    account = Account(test=test_of(command) or collective)
    for number, result in enumerate(results):
        reading = _reading(f"results[{number}]", result)
        if reading is None:
            account.doubts.append(f"results[{number}] cannot be read; it is left out")
        else:
            account.readings.append(reading)
    if not account.readings:
        raise ValueError(f"{name}: none of its {len(results)} results can be read; run the test again")
    account.devices = _devices(config)
    if _is_count(version := data.get("nccl_version")):
        account.nccl_version = version_of(version)
    average = data.get("average_bus_bandwidth")
    if isinstance(average, dict) and (bandwidth := _finite(average.get("bandwidth"))) is not None:
        account.average = Printed(bandwidth, _HALF)
    return [account.run()]


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: line {error.lineno}: {error.msg}, so it is no JSON; give the whole file") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: no JSON that can be read ({error}); give the whole file") from None
    if not isinstance(data, dict):
        raise ValueError(f"{name}: a JSON object is expected; give a file that bench --json or a test's -J has written")
    return data


def _bench_run(key: tuple[Any, ...], rows: list[Row], environment: Mapping[str, Any]) -> Run:
    algorithm, collective, ranks, *_ = key
    backend, devices, hosts, nccl = (environment.get(field) for field in ("backend", "devices", "hosts", "nccl"))
    wrong = sum(timing.wrong or 0 for row in rows for timing in row.timings)
    return Run(
        collective=collective,
        ranks=ranks,
        rows=tuple(rows),
        algorithm=algorithm,
        hosts={str(host): n for host, n in hosts.items() if isinstance(n, int)} if isinstance(hosts, dict) else {},
        gpu=", ".join(map(str, devices)) or None if isinstance(devices, dict) else None,
        nccl_version=str(nccl) if nccl else None,
        notes=(f"the backend is {backend}",),
        doubts=(f"wrong elements in the results: {wrong}",) if wrong else (),
    )


def _row(collective: str, ranks: int, size: int, dtype: str | None, redop: str | None, timing: Timing) -> Row:
    contract = contract_of(collective)
    count = size // (itemsize_of(dtype) or 1) // (ranks if contract.blocks else 1) if dtype else 0
    operation = redop if contract.reduces and redop != "none" else None
    if contract.blocks:
        return Row(size, count, dtype, operation, None, out_of_place=timing, in_place=None)
    return Row(size, count, dtype, operation, None, out_of_place=None, in_place=timing)


def _reading(where: str, result: Any) -> Reading | None:
    """One result of nccl-tests; None if a part of it is missing."""
    if not isinstance(result, dict):
        return None
    size, count, dtype, redop, root = (result.get(key) for key in ("size", "count", "type", "redop", "root"))
    out, within = _group(result.get("out_of_place")), _group(result.get("in_place"))
    if not (_is_count(size) and _is_count(count) and isinstance(dtype, str) and (out or within)):
        return None
    rank = int(root) if isinstance(root, str) and root.strip().isdecimal() else None
    operation = redop if isinstance(redop, str) and redop not in ("", "none") else None
    return Reading(where, size, count, dtype, operation, rank, out, within)


def _group(timing: Any) -> Group | None:
    if not isinstance(timing, dict):
        return None
    numbers = [_finite(timing.get(key)) for key in ("time", "alg_bw", "bus_bw")]
    time, algbw, busbw = (None if number is None else Printed(number, _HALF) for number in numbers)
    if time is None or algbw is None or busbw is None or time.value <= 0:
        return None
    wrong = _finite(timing.get("nwrong"))
    return Group(time, algbw, busbw, None if wrong is None else int(wrong), wrong is not None)


def _devices(config: Mapping[str, Any]) -> list[Device]:
    """A device a rank; nccl-tests write only the first of each process."""
    devices, threads, gpus = (config.get(key) for key in ("devices", "nthreads", "ngpus"))
    each = threads * gpus if _is_count(threads) and _is_count(gpus) else 1
    found = []
    for entry in devices if isinstance(devices, list) else []:
        rank, device = (entry.get(key) if isinstance(entry, dict) else None for key in ("rank", "device"))
        if _is_count(rank) and _is_count(device):
            pid, host, gpu = (str(entry.get(key)) for key in ("pid", "hostname", "device_info"))
            found += [Device(rank + i, pid, host, device + i, gpu) for i in range(max(1, min(each, 1024)))]
    return found


def _word(row: Mapping[str, Any], key: str, where: str) -> str:
    if not isinstance(value := row.get(key), str):
        raise ValueError(f"{where}: {key} is {value!r:.40}, not a name; {_BENCH}")
    return value


def _amount(row: Mapping[str, Any], key: str, where: str) -> float:
    if (value := _finite(row.get(key))) is None or value < 0:
        raise ValueError(f"{where}: {key} is {row.get(key)!r:.40}, not a number from 0 on; {_BENCH}")
    return value


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and 0 <= value < 1 << 62
