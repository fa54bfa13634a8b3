"""Thousands of mixed operations on backend ``ring``, each checked, and what the ranks hold meanwhile::

    python -m tests.system.soak --operations 30000 --seed 0 --ranks 3

The seed draws kind, size, dtype, group and algorithm, and whether to wait at once; all ranks draw alike. What must come
out is computed from everyone's inputs by plain torch, and both are summed up in a checksum. Now and then a group is
destroyed and made again.
"""

from __future__ import annotations

import argparse
import sys
import time

from .run import growth, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=3)
    options = parser.parse_args()
    began = time.monotonic()
    results = run(options.operations, options.seed, options.ranks)
    print(f"{options.operations} operations on {options.ranks} ranks in {time.monotonic() - began:.0f} s, all right")
    wrong = False
    for rank, (account, samples) in enumerate(results):
        print(f"rank {rank}: checksum {account.wrote:08x}, of the reference {account.want:08x}")
        for name, form in (("operations", "d"), ("memory", ".0f"), ("threads", "d"), ("files", "d")):
            unit = " MiB" if name == "memory" else ""
            print(f"  {name + unit:12}" + "".join(f"{getattr(sample, name):8{form}}" for sample in samples))
        for words in growth(samples):
            print(f"  {words}")
            wrong = True
        wrong |= account.wrote != account.want
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
