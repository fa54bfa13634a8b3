"""How fast plans are searched, and how long each command of the planner takes: ``python benchmarks/planner.py``.

Searches are medians of five runs in one process; commands are medians of five processes, with the interpreter's start.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from sim.chip import CHIPS
from sim.planner.constants import Software, software_of
from sim.planner.hardware import Hardware, hardware_of
from sim.planner.layout import Layout
from sim.planner.memory import stage_ledger
from sim.planner.models import MODELS
from sim.planner.search import Found, search, simulated
from sim.planner.space import space_of
from sim.planner.step import step_time
from sim.planner.transformer import Transformer

ROUNDS, LOOPED = 5, 2000
CASES = (
    ("gpt3-175b", 1024, "a100", 1536),
    ("llama3-70b", 64, "h100", 512),
    ("llama3.1-405b", 16384, "h100", 2048),
    ("llama3.1-405b", 100_000, "h100", 0),
    ("deepseek-v3", 2048, "h800", 15360),
)
COMMANDS = (
    "params --model gpt3-175b --dp 8 --tp 8 --pp 16",
    "memory --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --gpu h100",
    "flops --model gpt3-175b --batch 1536",
    "step --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --global-batch 128 --gpu h100",
    "inference --model llama3-70b --gpu h100 --tp 8 --batch 32",
    "run --model llama3-70b --gpus 64 --gpu h100 --tokens 1.4T",
    "plan --model llama3-70b --gpus 64 --gpu h100 --global-batch 512",
    "plan --model gpt3-175b --gpus 1024 --gpu a100 --global-batch 1536",
    "plan --model llama3.1-405b --gpus 100000 --gpu h100",
    "plan --model llama3-70b --gpus 64 --gpu h100 --emit megatron",
    "validate training",
)


def timed(job: Callable[[], object]) -> float:
    """Wall-clock seconds."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def one_by_one(layouts: list[Layout], model: Transformer, hardware: Hardware, software: Software) -> None:
    """The same formulas in a bare loop: time, and memory of the stages that can be the fullest."""
    for layout in layouts:
        step_time(model, layout, hardware, software)
        for stage in {0, min(1, layout.pp - 1), layout.pp - 1}:
            stage_ledger(model, layout, stage)


def main() -> None:
    print(f"{'':<34}{'plans':>11}{'search':>9}{'plans/s':>10}{'200 as events':>15}{'apart':>8}{'loop, plans/s':>15}")
    for name, gpus, gpu, batch in CASES:
        model, hardware, software = MODELS[name], hardware_of(CHIPS[gpu]), software_of("", gpu)
        space = space_of(model, gpus, Layout(global_batch=batch))
        runs: list[Found] = [search(model, space, hardware, software) for _ in range(ROUNDS)]
        found, seconds = runs[-1], statistics.median(run.seconds for run in runs)
        best = [found.plan(number) for number in found.best(200)]
        plans, events = simulated(model, best, hardware, software)
        apart = max(abs(plan.simulated_s / plan.seconds - 1) for plan in plans if plan.simulated_s)
        some = [found.plan(n).layout for n in range(0, found.evaluated, max(1, found.evaluated // LOOPED))]

        rate = len(some) / timed(lambda: one_by_one(some, model, hardware, software))  # noqa: B023
        searched = f"{found.evaluated:>11,}{seconds:>7.2f} s{found.evaluated / seconds:>10,.0f}"
        print(f"{f'{name}, {gpus:,} {gpu}':<34}{searched}{events:>13.2f} s{apart:>8.1%}{rate:>15,.0f}")
    print(f"\n{'python -m sim …':<104}{'seconds':>8}")
    for command in COMMANDS:
        seconds = statistics.median(timed(lambda: once(command)) for _ in range(ROUNDS))  # noqa: B023
        print(f"{command:<104}{seconds:>8.2f}")


def once(command: str) -> None:
    subprocess.run([sys.executable, "-m", "sim", *command.split()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
