"""``python -m collectives COMMAND``: everything that this package does from a command line."""

import sys

from .door import Door

DOOR = Door(
    "collectives",
    "Collectives written as schedules: list them, draw them, prove them right, run and time them.",
    {
        "bench": "collectives.commands.bench",
        "diff": "collectives.commands.diff",
        "links": "collectives.commands.links",
        "list": "collectives.commands.listing",
        "show": "collectives.commands.showing",
        "prove": "collectives.commands.proving",
        "explain": "collectives.commands.explaining",
        "doctor": "collectives.commands.doctor",
    },
    """examples:
  python -m collectives show ring --ranks 4
  python -m collectives prove --algorithm mine.py:ring --collective all_reduce --ranks 1-33
  python -m collectives bench --algorithm mine.py:ring,ring,auto""",
)

if __name__ == "__main__":
    sys.exit(DOOR.main())
