"""``plan`` in words: the ranking, the reasons, the strategies, what other values cost, and what was rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..planner.constants import Software
    from ..planner.hardware import Hardware
    from ..planner.layout import Layout
    from ..planner.search import Found, Plan
    from ..planner.transformer import Transformer


def short(layout: Layout) -> str:
    """``tp2 pp4 dp8 mb1 interleaved×5 zero1 sp``."""
    axes = [f"{name}{getattr(layout, name)}" for name in ("tp", "pp", "cp", "ep", "dp") if getattr(layout, name) > 1]
    words = [*(axes or ["dp1"]), f"mb{layout.microbatch}"]
    words += [layout.schedule + f"×{layout.vpp}" * (layout.vpp > 1)] * (layout.pp > 1)
    words += [f"zero{layout.zero}"] * (layout.zero > 0) + ["sp"] * (layout.sp and layout.tp > 1)
    words += [f"recompute-{layout.recompute}"] * (layout.recompute != "none")
    words += ["offload-" + "+".join(layout.offload)] * bool(layout.offload) + ["no-overlap"] * (not layout.overlap)
    return " ".join(words)


def unmeasured(layout: Layout) -> list[str]:
    """What this plan has that no published step has that the error was measured on."""
    new = [layout.schedule] if layout.pp > 1 and layout.schedule not in ("1f1b", "interleaved") else []
    return new + [f"offloaded {name}" for name in layout.offload]


def report(
    model: Transformer, found: Found, hardware: Hardware, software: Software, shown: list[Plan], content: dict[str, Any]
) -> str:
    """For people: the ranking, the reasons, the strategies, what other values cost, and what was rejected."""
    from ..planner.admission import MOST

    batch = content["global_batch"]
    lines = [
        f"{model.name} on {content['gpus']:,} {hardware.chip.name} ({hardware.machine}), {batch:,} samples of "
        f"{model.sequence:,} tokens a step",
        f"{found.evaluated:,} plans in {found.seconds:.2f} s, {content['fit']:,} fit into {found.limit / 1e9:.1f} GB; "
        f"the best {content['simulated']} event by event in {content['simulated_s']:.2f} s, at most "
        f"{content['agreement']:.1%} apart",
        "",
        f"  {'':<4}{'step':>9}{'events':>9}{'±':>6}{'MFU':>7}{'GB':>7}  plan",
    ]
    for rank, plan in enumerate(shown):
        events = f"{plan.simulated_s:.2f} s" if plan.simulated_s else "-"
        row = content["plans"][rank]
        known = row["error_percent"] is not None and not row["unmeasured"]
        error = f"{row['error_percent']:.1f}%" if known else "?"
        numbers = f"{plan.seconds:>7.2f} s{events:>9}{error:>6}{row['mfu']:>7.1%}{plan.memory / 1e9:>7.1f}"
        lines.append(f"  {rank + 1:<4}{numbers}  {short(plan.layout)}")
    lines += ["", *(f"  {text}" for text in _error_lines(software, model, shown[0].layout))]
    lines += ["", "why", *(f"  {text}" for text in content["reasons"])]
    lines += ["", f"{'strategies':<26}{'step':>10}{'':>4}its best plan"]
    for row in content["strategies"]:
        time = f"{row['time_s']:.4g} s" if row["time_s"] else "-"
        lines.append(f"  {row['value']:<24}{time:>10}    {row['plan'] or row['cost']}")
    lines += ["", "another value of an axis, the others free"]
    lines += [f"  {text}" for text in _lines([row["says"] for row in content["others"]])]
    lines += ["", "faster, smaller, or on fewer GPUs"]
    for row in _spread(content["pareto"]):
        lines.append(f"  {row['gpus']:>8,} GPUs{row['time_s']:>9.4g} s{row['memory'] / 1e9:>7.1f} GB  {row['plan']}")
    lines += ["", "rejected"]
    lines += [f"  {row['plans']:>11,}  {row['constraint']}: {row['example']}" for row in content["rejected"]]
    lines += ["", "space"]
    lines += [f"  {axis:<11}{', '.join(map(str, values))}" for axis, values in content["space"].items()]
    if content["narrowed"]:
        what = ", ".join(content["narrowed"])
        lines.append(
            f"# more than {MOST:,} plans: not every value of {what} was tried; an option keeps the one you want"
        )
    return "\n".join(lines)


def _error_lines(software: Software, model: Transformer, layout: Layout) -> list[str]:
    from ..planner.constants import error_of
    from .step import error_text

    error = error_of(software, bool(model.experts))
    lines = [error_text(None if error is None else vars(error))]
    new = unmeasured(layout)
    return lines + [f"no measured step has {', '.join(new)}: of these the first plan's error is not known"] * bool(new)


def _lines(texts: list[str], width: int = 110) -> list[str]:
    """Side by side, as many as a line takes."""
    lines = [""]
    for text in texts:
        joined = f"{lines[-1]}; {text}" if lines[-1] else text
        if len(joined) > width:
            lines.append(text)
        else:
            lines[-1] = joined
    return [line for line in lines if line]


def _spread(rows: list[dict[str, Any]], most: int = 4) -> list[dict[str, Any]]:
    """Of every number of GPUs a few, from the fastest to the smallest."""
    found = []
    for gpus in dict.fromkeys(row["gpus"] for row in rows):
        own = [row for row in rows if row["gpus"] == gpus]
        places = {round(i * (len(own) - 1) / max(1, most - 1)) for i in range(most)}
        found += [own[place] for place in sorted(places)]
    return found
