"""What a checkpoint contains, as JSON beside its files: read without trust, and every mistake named.

{"format": "ringlab checkpoint", "version": 1,
 "state":   {"step": 20, "model": {…}, "learning_rate": …},           what the ranks share, as the run gave it
 "files":   {"rank-00000.safetensors": {"bytes": 71232, "sha256": "…"}, …},
 "tensors": {"blocks.0.mlp.up.weight": {"shape": [128, 32], "numbers": {"step": 20.0},
                                        "keys": {"weight": "float32", "exp_avg": "float32", …},
                                        "parts": [["rank-00000.safetensors", {"run": [0, 4096]}], …]}, …}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .place import Place

NAME = "index.json"
FORMAT, VERSION = "ringlab checkpoint", 1


@dataclass(frozen=True, slots=True)
class File:
    """bytes: how many; sha256: of all of them, in hexadecimal."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One parameter. keys: the dtype of its weight and of each state; parts: file and place of each piece."""

    shape: tuple[int, ...]
    keys: dict[str, str]
    numbers: dict[str, float]
    parts: list[tuple[str, Place]]


@dataclass(frozen=True, slots=True)
class Index:
    """state: what the ranks share, of JSON's types. files, tensors: by name."""

    state: dict[str, Any]
    files: dict[str, File]
    tensors: dict[str, Entry]

    def to_json(self) -> str:
        tensors = {
            name: {
                "shape": list(entry.shape),
                "keys": entry.keys,
                "numbers": entry.numbers,
                "parts": [[file, place.to_json()] for file, place in entry.parts],
            }
            for name, entry in self.tensors.items()
        }
        files = {name: asdict(file) for name, file in self.files.items()}
        content = {"format": FORMAT, "version": VERSION, "state": self.state, "files": files, "tensors": tensors}
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Index:
        """The index in a file.

        Raises:
            ValueError: missing, no JSON, another format or version, or entries that make no sense.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: no index of a checkpoint ({error}); name the folder of one") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f'{path}: not an index of a checkpoint of this program ("format": "{FORMAT}")')
        if content.get("version") != VERSION:
            raise ValueError(f"{path}: version {content.get('version')!r} is not the {VERSION} that this program reads")
        try:
            files = {name: File(int(one["bytes"]), str(one["sha256"])) for name, one in content["files"].items()}
            tensors = {name: _entry(name, one, files) for name, one in content["tensors"].items()}
            return cls(dict(content["state"]), files, tensors)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ValueError(f"{path}: damaged ({type(error).__name__}: {error}); use an earlier checkpoint") from error


def _entry(name: str, content: Any, files: Mapping[str, File]) -> Entry:
    shape = tuple(int(size) for size in content["shape"])
    parts = [(str(file), Place.from_json(shape, place)) for file, place in content["parts"]]
    unknown = [file for file, _ in parts if file not in files or Path(file).name != file]
    if unknown:
        raise ValueError(f"{name} lies in {unknown[0]!r}, which is none of the files")
    keys = {str(key): str(dtype) for key, dtype in content["keys"].items()}
    return Entry(shape, keys, {str(key): float(value) for key, value in content["numbers"].items()}, parts)
