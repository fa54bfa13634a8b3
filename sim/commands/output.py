"""Where a command's numbers go."""

from __future__ import annotations

import json
import sys
from typing import Any


def write_json(target: str | None, content: dict[str, Any]) -> None:
    """Write JSON to a file, all or nothing; to stdout for ``-``; nowhere for None."""
    from collectives.atomic import write_text

    if target:
        text = json.dumps(content, indent=1) + "\n"
        if target == "-":
            sys.stdout.write(text)
        else:
            write_text(target, text)
