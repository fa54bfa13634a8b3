"""``inference``: memory and latency of serving a model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .planning import MODEL_HELP, add_gpu, add_json, add_model, chip_of, count_of, model_of, run

if TYPE_CHECKING:
    from ..chip import Chip
    from ..planner.inference import AllReduce, Serving
    from ..planner.layout import Layout
    from ..planner.transformer import Transformer

HELP = "serving: weights and KV cache, time of the prompt and of each token"
EXAMPLES = f"""examples:
  python -m sim inference --model llama2-7b --gpu a100-80g
  python -m sim inference --model llama3-70b --gpu h100 --tp 8 --batch 32 --prompt 4096 --answer 512
  python -m sim inference --model llama3.1-405b --gpu h200 --tp 8 --pp 2 --weights fp8

{MODEL_HELP}

exit status: 0, 2 for a wrong argument"""
MACHINES = {"a100": "dgx-a100", "a100-40g": "dgx-a100", "v100": "dgx-2", "v100-16g": "dgx-2", "gb200": "gb200-nvl72"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add = parser.add_argument
    add("--gpus", metavar="N", help="TP × PP (default)")
    add("--tp", metavar="N", help="tensor parallelism (1)")
    add("--pp", metavar="N", help="pipeline stages (1)")
    add("--ep", metavar="N", help="expert parallelism (1)")
    add("--batch", metavar="N", help="sequences at a time (1)")
    add("--prompt", metavar="N", help="tokens of a prompt (1024)")
    add("--answer", "--generate", dest="answer", metavar="N", help="tokens of an answer (128)")
    add("--weights", metavar="DTYPE", help="fp32, bf16, fp16, fp8, int8, int4 (bf16)")
    add("--cache", metavar="DTYPE", help="of keys and values: fp32, bf16, fp16, fp8, int8 (bf16)")
    add_gpu(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    return run(args, work)


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    from ..chip import CHIPS
    from ..planner.constraints import check
    from ..planner.layout import Layout

    model, chip = model_of(args), chip_of(args) or CHIPS["h100"]
    sizes = {name: count_of(args, name) for name in ("tp", "pp", "ep")}
    tp, pp, ep = (1 if size is None else size for size in sizes.values())
    layout = Layout(tp=tp, pp=pp, ep=ep, etp=0 if ep == 1 else 1)
    gpus = count_of(args, "gpus")
    if gpus not in (None, layout.gpus):
        raise ValueError(
            f"gpus={gpus} is not TP {tp} × PP {pp} = {layout.gpus}: use --gpus {layout.gpus}, or other axes"
        )
    notes = check(model, layout)
    if model.encoder:
        raise ValueError(f"{model.name} is an encoder, which writes nothing: use a gpt or a llama")
    serving = _serving(args)
    content = numbers(model, layout, serving, chip, _all_reduce(args, chip, tp))
    return report(model, layout, serving, chip, content, notes), {**content, "notes": notes}


def numbers(model: Transformer, layout: Layout, serving: Serving, chip: Chip, all_reduce: AllReduce) -> dict[str, Any]:
    """Bytes of a GPU, operations of all together, seconds. The cache grows while the answer does: times are at its
    middle."""
    from ..planner import inference as formulas

    length = serving.prompt + serving.answer
    first = formulas.prefill(model, layout, serving, chip, all_reduce)
    middle = serving.prompt + serving.answer // 2
    each = formulas.decode(model, layout, serving, chip, middle, all_reduce)
    weights = formulas.weights_on(model, layout, serving)
    cache = serving.batch * formulas.cache_on(model, layout, serving, length)
    working = formulas.working(model, layout, serving)
    latency = first.total + serving.answer * each.total
    return {
        "model": model.name,
        "gpu": chip.name,
        "gpus": layout.gpus,
        "two_n": formulas.two_n(model),
        "kv_bytes_per_token": formulas.cache_per_token(model, serving),
        "per_gpu": {"weights": round(weights), "kv_cache": cache, "working": round(working),
                    "total": round(weights + cache + working)},
        "capacity": chip.memory,
        "fits": weights + cache + working <= chip.memory,
        "largest_batch": formulas.largest_batch(model, layout, serving, chip),
        "prefill": {"flops": formulas.prefill_flops(model, serving), "time_s": first.total, "bound": first.bound},
        "decode": {"flops": formulas.decode_flops(model, serving.batch, middle), "time_s": each.total,
                   "bound": each.bound, "bytes": round(formulas.decode_bytes(model, layout, serving, middle))},
        "latency_s": latency,
        "tokens_per_s": serving.batch * serving.answer / latency if latency else 0.0,
    }  # fmt: skip


def report(
    model: Transformer, layout: Layout, serving: Serving, chip: Chip, content: dict[str, Any], notes: list[str]
) -> str:
    """The numbers, for people."""
    from ..planner.inference import MATMUL_SHARE, MEMORY_SHARE
    from ..units import show_bytes, show_count, show_gigabytes, show_time

    per_gpu, prefill, decode = content["per_gpu"], content["prefill"], content["decode"]
    where = " × ".join(f"{n} {s}" for n, s in (("TP", layout.tp), ("PP", layout.pp), ("EP", layout.ep)) if s > 1)
    left = chip.memory - per_gpu["total"]
    lines = [
        f"{model.name} on {layout.gpus} {chip.name}{f' ({where})' if where else ''}: {serving.batch} × "
        f"({serving.prompt} + {serving.answer}) tokens, weights in {serving.weights}",
        "",
        f"  {'weights':<18}{show_gigabytes(per_gpu['weights']):>12} a GPU",
        f"  {'KV cache':<18}{show_gigabytes(per_gpu['kv_cache']):>12} a GPU"
        f" ({show_bytes(content['kv_bytes_per_token'])} a token in all)",
        f"  {'activations':<18}{show_gigabytes(per_gpu['working']):>12} a GPU",
        f"  {'total':<18}{show_gigabytes(per_gpu['total']):>12} of {show_gigabytes(chip.memory)}: "
        + ("fits" if left >= 0 else f"{show_gigabytes(-left)} too much")
        + f", largest batch {content['largest_batch']}",
        "",
        f"  {'prompt':<18}{show_time(prefill['time_s']):>12}  {show_count(prefill['flops'])}FLOP, "
        f"{prefill['bound']} decides",
        f"  {'each token':<18}{show_time(decode['time_s']):>12}  {show_count(decode['flops'])}FLOP "
        f"(2N: {show_count(content['two_n'])} a sequence), {decode['bound']} decides",
        f"  {'whole answer':<18}{show_time(content['latency_s']):>12}  {content['tokens_per_s']:.4g} tokens/s",
        "",
        f"# assumed: products reach {MATMUL_SHARE:.0%} of the peak, reading {MEMORY_SHARE:.0%} of the bandwidth;",
        "#   one batch in flight; the pipeline's messages are left out",
    ]
    return "\n".join([*lines, *(f"# {note}" for note in notes)])


def _serving(args: argparse.Namespace) -> Serving:
    from ..planner.inference import CACHES, WEIGHTS, Serving
    from ..planner.layout import LARGEST

    sizes = {}
    for name in ("batch", "prompt", "answer"):
        value = count_of(args, name)
        if value is not None:
            if not (name != "answer") <= value <= LARGEST:
                raise ValueError(f"--{name} {value}: use a number from {int(name != 'answer')} to 2**40")
            sizes[name] = value
    for name, known in (("weights", list(WEIGHTS)), ("cache", list(CACHES))):
        if getattr(args, name) not in (None, *known):
            raise ValueError(f"--{name} {getattr(args, name)}: use {', '.join(known)}")
    return Serving(**sizes, weights=args.weights or "bf16", cache=args.cache or "bf16")


def _all_reduce(args: argparse.Namespace, chip: Chip, tp: int) -> AllReduce:
    """Seconds of an all-reduce of so many bytes over TP ranks: NCCL's fastest way on the machine.

    Raises:
        ValueError: an unknown machine, or one that is too small.
    """
    if tp == 1:
        return lambda nbytes: 0.0
    from ..nccl import Nccl
    from ..presets import PRESETS, find_machine

    guess = MACHINES.get(chip.name, f"dgx-{chip.name}")
    name = args.machine or (guess if guess in PRESETS else "pcie-8" if chip.memory < 48 << 30 else "dgx-h100")
    nccl = Nccl(find_machine(name), None, tp)
    return lambda nbytes: nccl.best("all_reduce", nbytes).time_s
