"""The systems that the course is about: which lesson teaches each, which module is it, which test holds it to that.

``python -m lessons.systems`` writes the table into README.md; a test keeps it true.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from .catalogue import Catalogue
from .manifest import COURSE

BEGIN, END = "<!-- systems: python -m lessons.systems -->", "<!-- end of systems -->"
README = Path(__file__).parent.parent / "README.md"


@dataclass(frozen=True)
class System:
    """lessons: by number, the main one first. modules: as they are imported. tests: files, from the root."""

    name: str
    lessons: tuple[int, ...]
    modules: tuple[str, ...]
    tests: tuple[str, ...]


SYSTEMS: tuple[System, ...] = (
    System(
        "Communication operators",
        (2,),
        ("collectives.contract", "collectives.registry"),
        ("tests/collectives/test_collectives.py", "tests/collectives/test_algorithms.py"),
    ),
    System("Ring all-reduce", (4, 5, 6), ("collectives.ring",), ("tests/collectives/test_algorithms.py",)),
    System("CPU offload", (15,), ("parallel.offload", "sim.planner.memory"), ("tests/parallel/test_offload.py",)),
    System(
        "Activation checkpointing (recompute)",
        (14,),
        ("parallel.recompute", "sim.planner.activations"),
        ("tests/parallel/test_recompute.py",),
    ),
    System(
        "Quantised compression",
        (16,),
        ("parallel.quantize", "parallel.wire"),
        ("tests/parallel/test_quantize.py", "tests/parallel/test_wire.py"),
    ),
    System(
        "Mixed precision, loss scaling",
        (13,),
        ("parallel.precision", "sim.planner.precision"),
        ("tests/parallel/test_precision.py",),
    ),
    System("ZeRO-1", (17,), ("parallel.zero", "parallel.formulas"), ("tests/parallel/test_zero.py",)),
    System("ZeRO-2", (17,), ("parallel.zero",), ("tests/parallel/test_zero_costs.py",)),
    System("ZeRO-3", (18,), ("parallel.zero.plan",), ("tests/parallel/test_zero_plan.py",)),
    System("ZeRO-Offload", (18, 15), ("parallel.offload.optimizers",), ("tests/parallel/test_zero_offload.py",)),
    System("Data parallel, threads (DP)", (8,), ("parallel.replicas",), ("tests/parallel/test_data_parallel.py",)),
    System(
        "Data parallel, processes (DDP)",
        (8, 9, 10),
        ("parallel.reducer", "parallel.overlap"),
        ("tests/parallel/test_ddp.py",),
    ),
    System(
        "Naive model parallel",
        (22,),
        ("parallel.pipeline.one_chunk", "sim.pipeline"),
        ("tests/parallel/test_pipeline_schedules.py",),
    ),
    System(
        "GPipe and later pipelines",
        (22, 23, 24),
        ("parallel.pipeline.engine", "parallel.pipeline.zero_bubble"),
        ("tests/parallel/test_pipeline_engine.py", "tests/sim/test_pipeline.py"),
    ),
    System(
        "Data × pipeline",
        (25,),
        ("parallel.pipeline.reduction", "parallel.mesh"),
        ("tests/parallel/test_pipeline_engine_mesh.py",),
    ),
    System(
        "Tensor parallel, 1-D",
        (19,),
        ("parallel.tensor.column", "parallel.tensor.linear"),
        ("tests/parallel/test_tensor_layers.py",),
    ),
    System(
        "Megatron MLP and attention",
        (20, 21),
        ("parallel.tensor.mlp", "parallel.tensor.attention"),
        ("tests/parallel/test_tensor_layers.py", "tests/parallel/test_tensor_models.py"),
    ),
    System("3D parallel", (25, 32), ("parallel.mesh", "parallel.training"), ("tests/parallel/test_train.py",)),
    System(
        "Parameter and memory arithmetic",
        (11, 17),
        ("sim.planner.parameters", "parallel.formulas"),
        ("tests/parallel/test_formulas.py", "tests/sim/planner/test_parameters.py"),
    ),
    System(
        "Memory ledger",
        (11, 32),
        ("sim.planner.memory", "parallel.memory"),
        ("tests/sim/planner/test_memory.py", "tests/parallel/test_memory.py"),
    ),
    System("FLOPs, by component", (12,), ("sim.planner.flops",), ("tests/sim/planner/test_flops.py",)),
    System(
        "FLOPs, 6·N·D, days and money; inference",
        (12, 30),
        ("sim.planner.campaign", "sim.planner.inference"),
        ("tests/sim/planner/test_campaign.py", "tests/sim/planner/test_inference.py"),
    ),
    System(
        "Communication cost",
        (6, 7, 27, 31),
        ("collectives.cost", "sim.collective"),
        ("tests/collectives/test_machines.py", "tests/sim/test_collective.py"),
    ),
    System("Choosing a strategy", (26,), ("sim.planner.search",), ("tests/sim/planner/test_search.py",)),
    System(
        "Pros and cons of each",
        (25, 32),
        ("parallel.comparison",),
        ("tests/parallel/test_compare.py",),
    ),
)


def table(catalogue: Catalogue) -> str:
    """Markdown; a system whose lessons are still being written has a dash."""
    course = {lesson.number for lesson in COURSE}
    lines = ["| system | lesson | library | test |", "|---|---|---|---|"]
    for system in SYSTEMS:
        numbers = [number for number in system.lessons if number in course]
        title = catalogue(f"course.{numbers[0]:02}.title") if numbers else ""
        lessons = f"{title} ({', '.join(map(str, numbers))})" if numbers else "–"
        modules = ", ".join(f"`{name}`" for name in system.modules)
        tests = ", ".join(f"[{Path(name).name}]({name})" for name in system.tests)
        lines.append(f"| {system.name} | {lessons} | {modules} | {tests} |")
    return "\n".join(lines)


def written(text: str) -> str:
    """A README with the table between its two marks.

    Raises:
        ValueError: it has no such marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md should have the lines {BEGIN} and {END}, between which the table stands")
    return f"{before}{BEGIN}\n{table(Catalogue())}\n{END}{after}"


def main() -> int:
    README.write_text(written(README.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
