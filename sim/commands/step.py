"""``step``: how long a training step takes, where its time goes, and how wrong that may be."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .planning import (
    MODEL_HELP,
    add_gpu,
    add_json,
    add_layout,
    add_model,
    chip_of,
    layout_of,
    model_of,
    run,
    split_text,
)

if TYPE_CHECKING:
    from ..planner.constants import Software
    from ..planner.hardware import Hardware
    from ..planner.layout import Layout
    from ..planner.step import StepTime
    from ..planner.transformer import Transformer

HELP = "the time of one training step: seconds, tokens/s, MFU, and a breakdown that adds up"
EXAMPLES = f"""examples:
  python -m sim step --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --global-batch 128 --gpu h100
  python -m sim step --model gpt3-175b --gpus 64 --tp 8 --pp 8 --vpp 3 --sp --flash off --recompute selective \\
      --global-batch 64 --gpu a100 --no-overlap
  python -m sim step --model llama3-8b --gpus 8 --zero 3 --microbatch 2 --machine dgx-a100,nic=12 --software 2023
  python -m sim step --model gpt2-xl --gpus 16 --pp 4 --gpu a100 --picture

{MODEL_HELP}

Software: 2021 and 2022 (Megatron-LM), 2023 and 2023-h100 (FSDP in Composer), 2024
(Megatron-Core), 2024-fsdp, 2025 (Blackwell); by default what is usual on the GPU.
--calibrate puts your own constants in place of its, as fitted by
sim validate training YOUR.csv --leave-one-out.

exit status: 0, 2 for a wrong argument"""
PICTURES = (".svg", ".png", ".html", ".json", ".gz")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_layout(parser)
    add_gpu(parser)
    group = parser.add_argument_group("constants")
    group.add_argument("--software", metavar="NAME", help="2021, 2022, 2023, 2023-h100, 2024, 2024-fsdp, 2025")
    group.add_argument("--calibrate", metavar="LIST", help="like matmul=0.72,attention=0.5")
    parser.add_argument("--what-if", action="append", metavar="CASES", help="like 'nic=2x|sequence=32k|gpus=2048'")
    parser.add_argument(
        "--picture",
        nargs="?",
        const="-",
        metavar="FILE",
        help="the pipeline; as SVG, PNG, HTML or Chrome trace (.json)",
    )
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    return run(args, work)


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    from ..planner.constants import calibrated, error_of, software_of
    from ..planner.memory import fullest, ledgers
    from ..planner.step import step_time
    from ..planner.timeline import MOST_ACTIONS, actions, simulated_s

    model, hardware = model_of(args), hardware_of(args)
    layout, notes = layout_of(args, model)
    software = software_of(args.software or "", hardware.chip.name)
    if args.calibrate:
        software = calibrated(software, args.calibrate)
    check_picture(args.picture)
    step = step_time(model, layout, hardware, software)
    content = numbers(model, layout, hardware, step)
    error = error_of(software, bool(model.experts))
    stages = ledgers(model, layout)
    peak = stages[fullest(stages)].total
    content |= {
        "software": software.name,
        "constants": {"matmul": software.matmul, "attention": software.attention, "fp8": software.fp8},
        "error": None if error is None else {**vars(error)},
        "memory": {"per_gpu": round(peak), "capacity": hardware.chip.memory, "fits": peak <= hardware.chip.memory},
        "notes": notes,
    }
    if actions(layout) <= MOST_ACTIONS:
        content["simulated_s"] = simulated_s(step, layout)
    text = report(model, layout, hardware, software, content)
    if args.what_if:
        from .what_if import of_steps

        content["what_if"], table = of_steps(args, model, hardware, software, _now(model, layout))
        text += f"\n\n{table}"
    if args.picture:
        text = _picture(args.picture, model, layout, step, text)
    return text, content


def _now(model: Transformer, layout: Layout) -> dict[str, int]:
    """What may be changed by a factor."""
    of_layout = ("gpus", "microbatch", "dp", "tp", "pp", "cp", "ep")
    of_model = ("sequence", "layers", "hidden", "vocab")
    found = {name: getattr(layout, name) for name in of_layout} | {name: getattr(model, name) for name in of_model}
    return found | {"global_batch": layout.samples}


def hardware_of(args: argparse.Namespace) -> Hardware:
    """The GPU and its machine.

    Raises:
        ValueError: neither is named, or the machine is no cluster of GPUs.
    """
    from ..planner.hardware import hardware_of as find
    from ..presets import find_machine

    chip = chip_of(args)
    if chip is None:
        raise ValueError("on which GPU? add --gpu h100, or --machine dgx-h100")
    return find(chip, find_machine(args.machine) if args.machine else None)


def numbers(model: Transformer, layout: Layout, hardware: Hardware, step: StepTime) -> dict[str, Any]:
    """Seconds, rates and shares of one step."""
    from ..planner.utilisation import hardware_flops, model_flops, utilisation

    time_s, tokens = step.time_s, layout.samples * model.sequence
    useful, all_flops = model_flops(model, layout), hardware_flops(model, layout)
    return {
        "model": model.name,
        "gpu": hardware.chip.name,
        "machine": hardware.machine,
        "gpus": layout.gpus,
        "microbatches": layout.microbatches,
        "tokens": tokens,
        "time_s": time_s,
        "tokens_per_s": tokens / time_s,
        "tokens_per_s_per_gpu": tokens / time_s / layout.gpus,
        "mfu": utilisation(useful, time_s, layout, hardware),
        "hfu": utilisation(all_flops, time_s, layout, hardware),
        "breakdown": step.breakdown,
    }


MEANS = {
    "compute": "on the heaviest stage",
    "tp": "sums over tensor parallel ranks, not hidden",
    "cp": "keys and values on their way round, not hidden",
    "ep": "tokens to their experts and back",
    "dp": "gradients and ZeRO's parameters, not hidden",
    "p2p": "messages between stages, not hidden",
    "offload": "over PCIe, and the optimizer in host memory",
    "bubble": "waiting for other stages",
    "optimizer": "",
}


def report(model: Transformer, layout: Layout, hardware: Hardware, software: Software, content: dict[str, Any]) -> str:
    from ..units import show_count, show_time

    time_s = content["time_s"]
    lines = [
        f"{model.name} on {hardware.chip.name} ({hardware.machine}): {split_text(layout)}",
        f"  {_microbatches(content['microbatches'])} of {layout.microbatch}, {content['tokens']:,} tokens a step",
        "",
        f"  {'step':<12}{show_time(time_s):>12}   {error_text(content['error'])}",
        f"  {'tokens':<12}{show_count(content['tokens_per_s']) + '/s':>12}   "
        f"{content['tokens_per_s_per_gpu']:,.0f} a second and GPU",
        f"  {'MFU':<12}{content['mfu']:>12.1%}   of {layout.precision.compute}; HFU {content['hfu']:.1%}",
        "",
        f"  {'':<12}{'seconds':>12}{'share':>9}",
    ]
    for name, seconds in content["breakdown"].items():
        if seconds:
            lines.append(f"  {name:<12}{seconds:>12.4f}{seconds / time_s:>9.1%}   {MEANS[name]}".rstrip())
    memory = content["memory"]
    verdict = "fits" if memory["fits"] else "does not fit"
    lines += [
        "",
        f"  memory: {memory['per_gpu'] / 1e9:.1f} of {memory['capacity'] / 1e9:.1f} GB on the fullest GPU: {verdict}",
    ]
    if "simulated_s" in content:
        lines.append(
            f"  event by event: {show_time(content['simulated_s'])} ({content['simulated_s'] / time_s - 1:+.1%})"
        )
    lines += [
        "",
        f"# software {software.name}: matmul {software.matmul}, attention {software.attention} of the peak; fitted on",
    ]
    lines.append(f"# {software.fitted_on}")
    return "\n".join([*lines, *(f"# {note}" for note in content["notes"])])


def _microbatches(number: int) -> str:
    return f"{number} microbatch{'es' * (number > 1)}"


def error_text(error: dict[str, Any] | None) -> str:
    """How wrong predictions of this regime were, and on what that was measured."""
    if error is None:
        return "± unknown: no measured step says"
    how = {"unseen": "none seen in fitting", "left out": "each model left out of its fit", "fitted": "seen in fitting"}
    return f"± {error['mape']:g} %: mean error of {error['n']} measured steps, {how[error['how']]} ({error['rows']})"


def check_picture(path: str | None) -> None:
    """Before anything is computed.

    Raises:
        ValueError: a kind of picture that there is not, or a file that cannot be written.
    """
    if path and path != "-":
        from collectives.atomic import check_writable

        if not path.lower().endswith(PICTURES):
            raise ValueError(
                f"--picture {path}: use a name that ends in {', '.join(PICTURES)}, or none for the terminal"
            )
        check_writable("--picture", path)


def _picture(path: str, model: Transformer, layout: Layout, step: StepTime, text: str) -> str:
    from ..draw import pictures
    from ..draw.terminal import gantt
    from ..planner.timeline import replay

    record = replay(model, layout, step)
    if path == "-":
        return f"{text}\n\n{gantt(record)}"
    lower = path.lower()
    writer = (
        pictures.write_svg
        if lower.endswith((".svg", ".png"))
        else pictures.write_html
        if lower.endswith(".html")
        else pictures.write_trace
    )
    writer(path, record)
    return f"{text}\n# wrote {path}"
