"""``python -m parallel COMMAND``: training on many processors from a command line."""

import sys

from collectives.door import Door

DOOR = Door(
    "parallel",
    "Train one model on many processors in every way that this package knows.",
    {"compare": "parallel.commands.compare", "train": "parallel.commands.train"},
    """examples:
  python -m parallel compare --model small --ranks 4
  python -m parallel train --ranks 4 --zero 2 --save runs/a
  python -m parallel compare --strategies ddp,zero-3,recompute --json rows.json""",
)

if __name__ == "__main__":
    sys.exit(DOOR.main())
