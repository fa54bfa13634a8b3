"""``memory``: what every GPU of a plan holds, by kind, and whether it fits."""

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
    from ..chip import Chip
    from ..planner.layout import Layout
    from ..planner.memory import Ledger
    from ..planner.transformer import Transformer

HELP = "the memory ledger of a training step, per GPU and pipeline stage"
EXAMPLES = f"""examples:
  python -m sim memory --model gpt2-xl --microbatch 8 --gpu a100-40g
  python -m sim memory --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --gpu h100 --picture
  python -m sim memory --model gpt3-175b --gpus 64 --tp 8 --pp 8 --flash off --recompute selective --sp
  python -m sim memory --model llama3-8b --gpus 8 --zero 3 --recompute full --offload optimizer,activations

{MODEL_HELP}

GB are 10^9 bytes. The fullest moment of a step is counted; what is left out is said
below the table.

exit status: 0, 2 for a wrong argument"""
KINDS = ("parameters", "gradients", "optimizer", "activations", "logits", "working", "buffers", "fragmentation")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_layout(parser)
    add_gpu(parser)
    parser.add_argument("--fragmentation", metavar="SHARE", help="of what comes and goes, that is lost (default 0.05)")
    parser.add_argument(
        "--picture", nargs="?", const="-", metavar="FILE", help="a bar for each stage; or as SVG or PNG"
    )
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    return run(args, work)


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    from ..planner.memory import EXCLUDED, FRAGMENTATION, fullest, ledgers

    model, chip = model_of(args), chip_of(args)
    layout, notes = layout_of(args, model)
    share = _share(args.fragmentation, FRAGMENTATION)
    check_picture(args.picture)
    stages = ledgers(model, layout, share)
    worst = fullest(stages)
    content: dict[str, Any] = {
        "model": model.name,
        "gpus": layout.gpus,
        "per_gpu": stages[worst].as_dict(),
        "fullest_stage": worst,
        "stages": [stage.as_dict() for stage in stages],
        "fragmentation_share": share,
        "excluded": list(EXCLUDED),
        "notes": notes,
    }
    if chip:
        content |= {"gpu": chip.name, "capacity": chip.memory, "fits": stages[worst].total <= chip.memory}
    text = report(model, layout, stages, chip, notes, share)
    if args.picture:
        text = _picture(args.picture, model, layout, stages, chip, text)
    return text, content


def report(
    model: Transformer, layout: Layout, stages: list[Ledger], chip: Chip | None, notes: list[str], share: float
) -> str:
    """The table, for people: the fullest stage, and the totals of the others."""
    from ..planner.memory import EXCLUDED, fullest

    worst = fullest(stages)
    ledger = stages[worst]
    microbatches = f"{layout.microbatches} microbatch{'es' * (layout.microbatches > 1)}"
    lines = [
        f"{model.name}, {split_text(layout)}",
        f"{microbatches} of {layout.microbatch} × {model.sequence} tokens a rank, {layout.precision.name}",
        "",
        f"  {'GB per GPU':<16}{'stage ' + str(worst) if layout.pp > 1 else '':>11}".rstrip(),
    ]
    for kind in KINDS:
        value = getattr(ledger, kind)
        if value:
            lines.append(f"  {kind:<16}{value / 1e9:>11.2f}{value / ledger.total:>8.1%}")
    lines.append(f"  {'total':<16}{ledger.total / 1e9:>11.2f}")
    if ledger.host:
        lines.append(f"  {'in host memory':<16}{ledger.host / 1e9:>11.2f}")
    if layout.pp > 1:
        lines += ["", "  " + _totals(stages)]
    if chip:
        room = chip.memory - ledger.total
        verdict = f"fits, {room / 1e9:.2f} GB are left" if room >= 0 else f"does not fit: {-room / 1e9:.2f} GB too much"
        lines += ["", f"  {chip.name} has {chip.memory / 1e9:.2f} GB: {verdict}"]
    lines += ["", f"# fragmentation: an allowance of {share:.0%} of what comes and goes"]
    lines += ["# not counted:", *(f"#   {text}" for text in EXCLUDED)]
    return "\n".join([*lines, *(f"# {note}" for note in notes)])


def _totals(stages: list[Ledger]) -> str:
    shown = [f"{stage.total / 1e9:.1f}" for stage in stages]
    if len(shown) > 8:
        shown = [*shown[:4], "…", *shown[-3:]]
    return f"totals, stage 0 to {len(stages) - 1}: {', '.join(shown)}"


def _share(text: str | None, default: float) -> float:
    try:
        share = default if text is None else float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"--fragmentation {text}: write a share from 0 to 1, like 0.05 or 5%")
    return share


def check_picture(path: str | None) -> None:
    """Before anything is computed.

    Raises:
        ValueError: the file is neither SVG nor PNG, or cannot be written.
    """
    if path and path != "-":
        from collectives.atomic import check_writable

        if not path.lower().endswith((".svg", ".png")):
            raise ValueError(f"--picture {path}: use a name that ends in .svg or .png, or none for the terminal")
        check_writable("--picture", path)


def _picture(path: str, model: Transformer, layout: Layout, stages: list[Ledger], chip: Chip | None, text: str) -> str:
    from ..draw.bars import Bars, in_terminal, write

    bars = Bars(
        f"{model.name}, {split_text(layout)}: GB per GPU",
        [f"stage {number}" for number in range(len(stages))],
        {kind: [getattr(stage, kind) / 1e9 for stage in stages] for kind in KINDS},
        chip.memory / 1e9 if chip else 0.0,
        chip.name if chip else "",
    )
    if path == "-":
        return f"{text}\n\n{in_terminal(bars)}"
    write(bars, path)
    return f"{text}\n# wrote {path}"
