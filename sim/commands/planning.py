"""The options that all commands of the planner share: which model, how it is split, on which GPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ..chip import Chip
    from ..planner.layout import Layout, Recompute
    from ..planner.transformer import Transformer

MODEL_HELP = """models: gpt2, gpt2-xl, gpt3-175b, llama2-7b, llama3-8b, llama3-70b, llama3.1-405b,
mixtral-8x7b, deepseek-v3, bert-large, megatron-145.6b, mt-nlg-530b, … (of a name
that is not there the nearest are listed). Numbers change one: --model llama3-8b
--sequence 32768; or they describe it alone: --layers 48 --hidden 6144 --heads 64,
or --parameters 70B."""
SHAPE = {
    "layers": "how many",
    "hidden": "its width h",
    "heads": "attention heads",
    "kv-heads": "of keys and values (default: heads)",
    "ffn": "width of the MLP (default 4 h)",
    "vocab": "entries of the vocabulary",
    "sequence": "tokens of a sample",
    "experts": "experts in each MLP",
    "top-k": "experts a token goes to (default 2)",
    "dense-layers": "of a model with experts, that have none (default: as in the model, in proportion to --layers)",
}
SPLIT = {
    "dp": "data parallelism (default: what --gpus leave, or 1)",
    "pp": "pipeline stages",
    "tp": "tensor parallelism",
    "cp": "context parallelism: the sequence is split",
    "ep": "expert parallelism",
    "vpp": "model chunks of a rank, for interleaved pipelines",
    "zero": "ZeRO: 0, 1, 2 or 3 (default 0)",
    "microbatch": "samples at a time",
}


def add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="NAME", help="by name (default gpt2, unless numbers describe it)")
    for name, does in SHAPE.items():
        group.add_argument(f"--{name}", metavar="N", help=does)
    group.add_argument("--parameters", metavar="N", help="like 70B, if no more is known; or with a shape, its total")


def add_layout(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it is split")
    group.add_argument("--gpus", metavar="N", help="all of them (default DP × PP × CP × TP)")
    for name, does in SPLIT.items():
        group.add_argument(f"--{name}", metavar="N", help=does)
    group.add_argument("--etp", metavar="N", help="tensor parallelism inside experts (default: TP)")
    group.add_argument("--global-batch", metavar="N", help="samples of a step, over all ranks")
    group.add_argument("--sp", nargs="?", const="on", metavar="on|off", help="sequence parallelism beside TP")
    group.add_argument("--keep-gathered", action="store_true", help="with --sp: keep gathered inputs, gather them once")
    group.add_argument("--recompute", metavar="WHAT", help="none, selective (attention scores) or full (default none)")
    group.add_argument("--flash", metavar="on|off", help="off: attention scores are written to memory (default on)")
    group.add_argument("--loss", metavar="fused|eager", help="eager: the log-softmax is kept beside the logits (fused)")
    group.add_argument("--schedule", metavar="NAME", help="of the pipeline (default 1f1b, or interleaved with --vpp)")
    group.add_argument("--offload", metavar="LIST", help="to host memory: optimizer, parameters, activations")
    group.add_argument("--precision", metavar="NAME", help="fp32, tf32, fp16, bf16, fp8, pure-fp16, pure-bf16 (bf16)")
    group.add_argument("--wire", metavar="DTYPE", help="of gradients on their way: bf16, fp8, int8, … (as they are)")
    group.add_argument("--no-overlap", action="store_true", help="reduce gradients after the backward, not under it")
    group.add_argument("--optimizer", metavar="NAME", help="adam, adam8bit, momentum, sgd (adam)")
    group.add_argument(
        "--fp32-gradients", action="store_true", help="sum 16-bit gradients in fp32, as Megatron-LM does"
    )


def add_gpu(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpu", metavar="NAME", help="a100-80g, a100-40g, h100, h200, b200, v100, …")
    parser.add_argument(
        "--machine", metavar="NAME|FILE[,key=value…]", help="as in sim collective: whose GPUs and links"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write everything (without FILE: to stdout)"
    )


def run(args: argparse.Namespace, work: Callable[[argparse.Namespace], tuple[str, dict[str, Any]]]) -> int:
    """Compute, print the report, write the JSON; a wrong argument is one sentence and status 2."""
    from collectives.atomic import check_writable

    from .output import write_json

    try:
        if args.json and args.json != "-":
            check_writable("--json", args.json)
        text, content = work(args)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.json != "-":
        print(_spelt(text))
    write_json(args.json, content)
    return 0


def _spelt(text: str) -> str:
    """In characters that stdout has."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(str.maketrans("×·…²", "x*~2")).encode(encoding, "replace").decode(encoding)
    return text


def model_of(args: argparse.Namespace) -> Transformer:
    """The model that the options describe.

    Raises:
        ValueError: an unknown name, a number that is none, or a shape that no model has.
    """
    from ..planner.models import MODELS, find_model
    from ..planner.transformer import Transformer, changed, of_parameters

    shape = {key.replace("-", "_"): value for key in SHAPE if (value := count_of(args, key)) is not None}
    stated = count_of(args, "parameters")
    if args.model:
        return _stated(changed(find_model(args.model), **shape) if shape else find_model(args.model), stated)
    described = {"layers", "hidden", "heads"} & set(shape)
    if not described and stated is not None:
        model = of_parameters(stated, shape.pop("sequence", 2048), shape.pop("vocab", 50257))
        return _stated(changed(model, **shape), stated) if shape else model
    if not described:
        return changed(MODELS["gpt2"], **shape) if shape else MODELS["gpt2"]
    lacking = [f"--{name}" for name in ("layers", "hidden") if name not in shape]
    if lacking:
        raise ValueError(f"a model needs --layers and --hidden: add {' and '.join(lacking)}, or start from a --model")
    hidden, sequence = shape["hidden"], shape.pop("sequence", 2048)
    heads = shape.pop("heads", max(1, hidden // 128))
    style: dict[str, Any] = {"ffn": 4 * hidden, "vocab": 50257, "heads": heads, **shape}
    if {"kv_heads", "experts"} & set(shape):  # only models like Llama have these
        style |= {"gated": True, "bias": False, "dropout": False, "output": "untied"}
    else:
        style["positions"] = sequence
    return _stated(Transformer("the model", sequence=sequence, **style), stated)


def _stated(model: Transformer, parameters: int | None) -> Transformer:
    """The shape with its total as it is said to be: what is not in the shape is small.

    Raises:
        ValueError: the shape has other parameters by far.
    """
    from ..planner.parameters import total
    from ..units import show_count

    if parameters is None:
        return model
    counted = total(replace(model, stated=0))
    if not counted / 2 <= parameters <= 2 * counted:
        raise ValueError(
            f"parameters={parameters}: the shape has {show_count(counted).replace(' ', '')}: leave --parameters out, "
            "or describe the shape with --layers, --hidden and --ffn"
        )
    return replace(model, stated=parameters)


def layout_of(args: argparse.Namespace, model: Transformer) -> tuple[Layout, list[str]]:
    """The layout that the options describe, checked, and notes on it.

    Raises:
        ValueError: it cannot be, with the nearest that can.
    """
    from ..planner.constraints import check, filled
    from ..planner.layout import OFFLOADS, RECOMPUTES, Layout
    from ..planner.precision import find_precision

    numbers: dict[str, Any] = {name: value for name in SPLIT if (value := count_of(args, name)) is not None}
    offload = tuple(name for name in (args.offload or "").split(",") if name and name != "none")
    for name in offload:
        if name not in OFFLOADS:
            raise ValueError(f"--offload {name}: use {', '.join(OFFLOADS)}, or none")
    recompute = args.recompute or "none"
    if recompute not in RECOMPUTES:
        raise ValueError(f"--recompute {recompute}: use {', '.join(RECOMPUTES)}")
    schedule = (args.schedule or ("interleaved" if numbers.get("vpp", 1) > 1 else "1f1b")).lower()
    precision = find_precision(args.precision or "bf16", args.optimizer or "adam", args.fp32_gradients)
    gpus = count_of(args, "gpus")
    layout = Layout(
        **{"dp": 0, **numbers},
        etp=count_of(args, "etp") or 0,
        global_batch=count_of(args, "global_batch") or 0,
        sp=_switch("--sp", args.sp or "off"),
        regather=not args.keep_gathered,
        recompute=cast("Recompute", recompute),
        flash=_switch("--flash", args.flash or "on"),
        schedule=schedule,
        offload=offload,
        precision=precision,
        overlap=not args.no_overlap,
        wire=args.wire or "",
        eager_loss=_loss(args.loss or "fused"),
    )
    if "dp" in numbers and numbers["dp"] < 1:
        raise ValueError(f"dp={numbers['dp']}: use a number from 1 on")
    layout = filled(layout, gpus)
    return layout, check(model, layout, gpus)


def chip_of(args: argparse.Namespace) -> Chip | None:
    """The GPU, if it or its machine is named.

    Raises:
        ValueError: an unknown name, or a machine whose GPUs are not known.
    """
    from ..chip import chip_of as find

    if args.gpu or not args.machine:
        return find(args.gpu) if args.gpu else None
    from ..presets import find_machine

    machine = find_machine(args.machine)
    if not machine.gpu:
        raise ValueError(f"--machine {args.machine} does not say which GPUs it has: add --gpu, like --gpu h100")
    return find(machine.gpu)


def count_of(args: argparse.Namespace, name: str) -> int | None:
    """The number behind an option, as people write it; None if it was left out.

    Raises:
        ValueError: it is none.
    """
    from ..units import parse_count

    text = getattr(args, name.replace("-", "_"), None)
    return None if text is None else parse_count(text, f"--{name.replace('_', '-')}")


def _switch(option: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError(f"{option} {text}: use on or off")
    return text == "on"


def _loss(text: str) -> bool:
    if text not in ("fused", "eager"):
        raise ValueError(f"--loss {text}: use fused or eager")
    return text == "eager"


def split_text(layout: Layout) -> str:
    """``DP 8 × PP 16 × TP 8 = 1024 GPUs``, with what is not as by default."""
    axes = [("DP", layout.dp), ("PP", layout.pp), ("CP", layout.cp), ("TP", layout.tp)]
    shown = " × ".join(f"{name} {size}" for name, size in axes if size > 1) or "DP 1"
    more = [f"EP {layout.ep}"] * (layout.ep > 1) + [f"ZeRO-{layout.zero}"] * (layout.zero > 0)
    more += ["sequence parallel"] * layout.sp + [f"{layout.schedule}"] * (layout.pp > 1)
    more += [f"{layout.recompute} recompute"] * (layout.recompute != "none")
    more += [f"{' and '.join(layout.offload)} offloaded"] * bool(layout.offload)
    return f"{shown} = {layout.gpus} GPU{'s' * (layout.gpus > 1)}" + "".join(f", {text}" for text in more)
