"""Where the four packages come from, and whether a folder of the same name stands in front of one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .sentence import Sentence

PACKAGES = ("collectives", "parallel", "sim", "lessons")
DISTRIBUTION = "ringlab"


def origins() -> dict[str, Path | None]:
    """The folder that each package would be imported from; None where there is none."""
    found: dict[str, Path | None] = {}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places = list(spec.submodule_search_locations or []) if spec is not None else []
        found[name] = Path(places[0]).resolve() if places else None
    return found


def complaints() -> list[Sentence]:
    """One sentence for each package that is not ours, with the fix; empty if all is well."""
    import importlib.metadata  # here, as help and lists need to be fast

    root = Path(__file__).resolve().parent.parent
    said = []
    for name, origin in origins().items():
        if origin is None:
            said.append(
                Sentence(
                    "installation.missing",
                    "package {name} is missing: install {distribution} again (python -m pip install -e .)",
                    name=name,
                    distribution=DISTRIBUTION,
                )
            )
        elif origin.parent != root:
            said.append(
                Sentence(
                    "installation.shadowed",
                    "package {name} is loaded from {origin}, which shadows {distribution}'s own in {root}: "
                    "rename that folder, or work in another one",
                    name=name,
                    distribution=DISTRIBUTION,
                    origin=str(origin),
                    root=str(root),
                )
            )
    owners = importlib.metadata.packages_distributions()
    for name in PACKAGES:
        others = sorted(set(owners.get(name, [])) - {DISTRIBUTION})
        if others:
            said.append(
                Sentence(
                    "installation.twice",
                    "package {name} is also installed by {others}: use a virtual environment of its own",
                    name=name,
                    others=others,
                )
            )
    return said


def version_text(version: str) -> str:
    """What ``--version`` prints."""
    lines = [f"{DISTRIBUTION} {version}"]
    lines += [f"  {name:<12} {origin or 'missing'}" for name, origin in origins().items()]
    lines += [f"warning: {complaint}" for complaint in complaints()]
    return "\n".join(lines)
