"""``flops``: what a training step computes, by component, against 6 N D."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .planning import MODEL_HELP, add_json, add_model, model_of, run

if TYPE_CHECKING:
    from ..planner.transformer import Transformer

HELP = "count floating-point operations by component, forward and backward"
EXAMPLES = f"""examples:
  python -m sim flops --model gpt2
  python -m sim flops --model gpt3-175b --batch 1536 --recompute full
  python -m sim flops --model llama3.1-405b --tokens 15.6T --attention causal
  python -m sim flops --parameters 100B --tokens 1T

{MODEL_HELP}

--count matmuls counts matrix products (Megatron-LM, PaLM); layers leaves out
logits and adds softmax, as table A4 of Hoffmann et al. did; all adds the embedding
as if it were a product, as the text of their appendix says.

exit status: 0, 2 for a wrong argument"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add = parser.add_argument
    add("--batch", "--global-batch", dest="batch", metavar="N", help="sequences of a step (default 1)")
    add("--tokens", metavar="N", help="of a whole training run, like 300B, in place of --batch")
    add("--attention", metavar="WHAT", help="full or causal: half of the scores (default full)")
    add("--count", metavar="WHAT", help="matmuls, layers or all (default matmuls)")
    add("--recompute", metavar="WHAT", help="none, selective or full: adds to the hardware's FLOPs (default none)")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    return run(args, work)


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    from ..planner.flops import COUNTS
    from ..planner.layout import RECOMPUTES
    from .planning import count_of

    model = model_of(args)
    for name, choices in (("attention", ("full", "causal")), ("count", COUNTS), ("recompute", RECOMPUTES)):
        value = getattr(args, name) or choices[0]
        if value not in choices:
            raise ValueError(f"--{name} {value}: use {', '.join(choices)}")
        setattr(args, name, value)
    batch, tokens = count_of(args, "batch"), count_of(args, "tokens")
    if batch is not None and tokens is not None:
        raise ValueError("--batch and --tokens say the same twice: leave one out")
    for name, value in (("batch", batch), ("tokens", tokens)):
        if value == 0:
            raise ValueError(f"--{name} 0: use a number from 1 on")
    content = numbers(model, (batch or 1) * model.sequence if tokens is None else tokens, args)
    return report(model, content), content


def numbers(model: Transformer, tokens: int, args: argparse.Namespace) -> dict[str, Any]:
    """FLOPs for so many tokens, in sequences of the model's length."""
    from ..planner.flops import BACKWARD, components, forward, palm, recomputed, six_nd, six_nd_of_matrices, training

    def scaled(counts: dict[str, int]) -> dict[str, int]:
        return {name: value * tokens // model.sequence for name, value in counts.items()}

    causal = args.attention == "causal"
    everything = scaled(components(model, causal=causal))
    counted = scaled(forward(model, causal=causal, count=args.count))
    total = training(counted)
    return {
        "model": model.name,
        "tokens": tokens,
        "attention": args.attention,
        "count": args.count,
        "forward": counted,
        "not_counted": {name: everything[name] for name, value in counted.items() if value != everything[name]},
        "forward_total": sum(counted.values()),
        "backward": {name: BACKWARD * value for name, value in counted.items()},
        "backward_total": BACKWARD * sum(counted.values()),
        "total": total,
        "recompute": args.recompute,
        "hardware_total": total + recomputed(counted, args.recompute),
        "six_nd": six_nd(model, tokens),
        "six_nd_without_tables": six_nd_of_matrices(model, tokens),
        "palm": palm(model, tokens),
    }


def report(model: Transformer, content: dict[str, Any]) -> str:
    """The numbers, for people."""
    from ..units import show_count

    forward, backward = content["forward"], content["backward"]
    lines = [
        f"{model.name}: {content['tokens']:,} tokens, {model.sequence} in a sequence, {content['attention']} attention",
        "",
        f"  {'FLOPs':<14}{'forward':>20}{'backward':>20}{'share':>9}",
    ]
    total = max(1, content["forward_total"])
    for name, value in forward.items():
        if value:
            lines.append(f"  {name:<14}{_flops(value):>20}{_flops(backward[name]):>20}{value / total:>9.1%}")
    lines.append(f"  {'sum':<14}{_flops(content['forward_total']):>20}{_flops(content['backward_total']):>20}")
    lines += ["", f"  {'both':<24}{_flops(content['total']):>20}"]
    if content["recompute"] != "none":
        lines.append(f"  {'with ' + content['recompute'] + ' recompute':<24}{_flops(content['hardware_total']):>20}")
    for name, key in (
        ("6·N·D", "six_nd"),
        ("6·N·D without tables", "six_nd_without_tables"),
        ("PaLM's estimate", "palm"),
    ):
        if content[key] and (key != "six_nd_without_tables" or content[key] != content["six_nd"]):
            ratio = content["total"] / content[key]
            lines.append(f"  {name:<24}{_flops(content[key]):>20}   the count is {ratio:.4f} of it")
    lines += [
        f"# not counted: {name}, {_flops(value)} forward" for name, value in content["not_counted"].items() if value
    ]
    lines.append(
        f"# {show_count(content['total'] / content['tokens'])}FLOP a token; a FLOP/s is a rate, and not meant here"
    )
    return "\n".join(lines)


def _flops(value: float) -> str:
    return f"{value:,}" if value < 10**14 else f"{value:.4e}"
