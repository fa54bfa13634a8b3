"""The numbers of lesson 12: operations, rooflines and days, from the planner's closed forms."""

from __future__ import annotations

from lessons.figures.plot import Data
from lessons.figures.stacks import Row
from sim.chip import CHIPS, Chip
from sim.planner.campaign import DAY, PER_PARAMETER, bill, optimal_tokens
from sim.planner.flops import components, forward, recomputed, six_nd, training
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.planner.transformer import Transformer, changed
from sim.units import show_count

SMALL, GPT3, LLAMA = MODELS["gpt2"], MODELS["gpt3-175b"], MODELS["llama2-7b"]
A100, H100 = CHIPS["a100"], CHIPS["h100"]
TOKENS, PUBLISHED = 300_000_000_000, 3.14e23  # of GPT-3: Brown et al. 2020, appendix D
GPUS, RATE, PUBLISHED_DAYS = 1024, 140e12, 34  # Narayanan et al. 2021: FLOP/s of a GPU, with a full recompute
PRICE = 2.0  # dollars a GPU-hour
LONG = 32768
LLAMA_TOKENS, LLAMA_GPUS, LLAMA_MFU = 2_000_000_000_000, 256, 0.45
HFU = 0.52


def facts() -> dict[str, str | int | float]:
    """See ``lesson12.toml``."""
    parts = forward(SMALL)
    whole, products = training(parts), training(forward(GPT3, 1)) * TOKENS / GPT3.sequence
    mfu = RATE / A100.speed("bf16") * 6 / 8
    six = six_nd(GPT3, TOKENS)
    run = bill(six / (GPUS * A100.speed("bf16") * mfu), 1.0, GPUS, PRICE, A100.watts)
    alone = six / (A100.speed("bf16") * mfu)
    once = forward(GPT3, 1)
    hardware = training(once) + recomputed(once, "full")
    llama = six_nd(LLAMA, LLAMA_TOKENS) / (LLAMA_GPUS * A100.speed("bf16") * LLAMA_MFU)
    cost = bill(llama, 1.0, LLAMA_GPUS, PRICE, A100.watts)
    at, reached = _product(H100, 1, GPT3.hidden)
    known: dict[str, str | int | float] = {
        "bits": 16,
        "ledger": 11,
        "curves": 27,
        "all": f"{1:.0%}",
        "day": f"{DAY:,.0f}",
        "per_parameter": PER_PARAMETER,
        "published_days": PUBLISHED_DAYS,
        "sequence": f"{SMALL.sequence:,}",
        "layers": SMALL.layers,
        "forward": _flops(sum(parts.values())),
        "whole": _flops(whole),
        "embedding": _flops(components(SMALL)["embeddings"]),
        "published": _power(PUBLISHED, 2),
        "six": _power(six),
        "products": _power(products),
        "parameters": show_count(total(GPT3)),
        "tokens": show_count(TOKENS),
        "rate": f"{RATE / 1e12:g} TFLOP/s",
        "peak": f"{A100.speed('bf16') / 1e12:g} TFLOP/s",
        "peak_h100": f"{H100.speed('bf16') / 1e12:.0f} TFLOP/s",
        "sparse_h100": f"{2 * H100.speed('bf16') / 1e12:.0f}",
        "bandwidth_h100": f"{H100.bandwidth / 1e9:,.0f} GB/s",
        "bend_h100": f"{H100.speed('bf16') / H100.bandwidth:.0f}",
        "bend_a100": f"{A100.speed('bf16') / A100.bandwidth:.0f}",
        "width": f"{GPT3.hidden:,}",
        "fewest": _fewest(H100, GPT3.hidden),
        "one_intensity": f"{at:.2f}",
        "one_rate": f"{reached / 1e12:.2f} TFLOP/s",
        "mfu": f"{mfu:.1%}",
        "gpus": f"{GPUS:,}",
        "days": f"{run.days:.1f}",
        "gpu_hours": f"{run.gpu_hours:,.0f}",
        "price": f"{PRICE:g}",
        "dollars": f"{run.price / 1e6:.2f}",
        "years": f"{alone / DAY / 365:.0f}",
        "optimal": show_count(optimal_tokens(total(GPT3))),
        "equal": 6,
        "equal_tokens": f"{6 * GPT3.hidden:,}",
        "hfu": f"{HFU:.0%}",
        "hfu_right": f"{HFU * training(once) / hardware:.0%}",
        "hfu_more": f"{HFU * hardware / training(once):.0%}",
        "hfu_half": f"{HFU / 2:.0%}",
        "llama": show_count(total(LLAMA)),
        "llama_tokens": show_count(LLAMA_TOKENS),
        "llama_gpus": LLAMA_GPUS,
        "llama_mfu": f"{LLAMA_MFU:.0%}",
        "llama_hours": f"{cost.gpu_hours:,.0f}",
        "predict_answer": round(100 * reached / H100.speed("bf16"), 2),
        "predict_tolerance": 0.15,
        "calculate_1_answer": round(cost.days, 1),
        "calculate_1_tolerance": 0.02,
        "calculate_2_answer": round(cost.price),
        "calculate_2_tolerance": 0.02,
    }
    for name in ("qkv", "scores", "values", "projection", "dense", "logits"):
        known[name] = _flops(parts[name])
    for name, model in (("small", SMALL), ("xl", MODELS["gpt2-xl"]), ("gpt3", GPT3)):
        plain, guess = training(forward(model)), six_nd(model, model.sequence)
        known[f"{name}_six"] = _flops(guess)
        known[f"{name}_products"] = _flops(plain)
        known[f"{name}_ratio"] = f"{plain / guess:.3f}"
        known[f"{name}_looked_up"] = f"{(plain + 3 * components(model)['embeddings']) / guess:.3f}"
    return known


def _flops(count: float) -> str:
    for power, name in ((15, "PFLOPs"), (12, "TFLOPs"), (9, "GFLOPs")):
        if count >= 10**power:
            return f"{count / 10**power:.4g} {name}"
    return f"{count:.4g} FLOPs"


def _power(count: float, digits: int = 3) -> str:
    """``3.14·10²³``."""
    number, _, power = f"{count:.{digits}e}".partition("e+")
    return f"{number}·10{power.translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def _product(chip: Chip, tokens: int, width: int) -> tuple[float, float]:
    """FLOPs a byte of (tokens × width) times (width × width) in 16 bits, and the FLOP/s that it can reach."""
    intensity = 2 * tokens * width * width / (2 * (2 * tokens * width + width * width))
    return intensity, min(chip.speed("bf16"), intensity * chip.bandwidth)


def _fewest(chip: Chip, width: int) -> int:
    """Tokens from which on such a product is bound by arithmetic."""
    return next(m for m in range(1, width) if _product(chip, m, width)[1] == chip.speed("bf16"))


def shares() -> list[Row]:
    """Of a forward."""
    rows = []
    for model in (SMALL, GPT3, changed(GPT3, sequence=LONG)):
        parts = forward(model)
        whole = sum(parts.values())
        pieces = {
            "matrices": parts["qkv"] + parts["projection"],
            "dense": parts["dense"],
            "products": parts["scores"] + parts["values"],
            "logits": parts["logits"],
        }
        rows.append(Row("model", {name: part / whole for name, part in pieces.items()}, _said(model)))
    return rows


def _said(model: Transformer) -> dict[str, object]:
    return {"model": {"gpt2": "GPT-2"}.get(model.name, "GPT-3"), "tokens": f"{model.sequence:,}"}


def roof() -> Data:
    """What A100 and H100 reach over FLOPs a byte, and three products on an H100."""
    chips = (A100, H100)
    x = sorted([4.0**power for power in range(-1, 7)] + [chip.speed("bf16") / chip.bandwidth for chip in chips])
    curves = {chip.name: [min(chip.speed("bf16"), at * chip.bandwidth) for at in x] for chip in chips}
    tokens = {"token": 1, "batch": 128, "square": 8192}
    return Data(x, curves, {name: _product(H100, many, GPT3.hidden) for name, many in tokens.items()})
