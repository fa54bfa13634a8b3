"""What wrong values themselves show, of whatever formula they are: another kind of value, a factor, rounding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..said import Said
from .reference import near, plain

_POWERS = {3: "10³", 6: "10⁶", 9: "10⁹", 12: "10¹²"}
_PARTS = ("alpha", "beta")


@dataclass(frozen=True)
class Call:
    """One call of the learner's function. ok: what came is right."""

    text: str
    got: Any
    right: Any
    ok: bool

    @property
    def fields(self) -> dict[str, object]:
        return {"call": self.text, "got": repr(self.got)[:120], "kind": type(self.got).__name__}


def symptom(kind: str, calls: Sequence[Call]) -> Said | None:
    """What to say of calls some of which are wrong, if there is something."""
    missing = next((call for call in calls if call.got is None and call.right is not None), None)
    if missing is not None:
        return Said("formula.none_sometimes", missing.fields)
    look: Mapping[str, Callable[[Sequence[Call]], Said | None]] = {
        "number": _number,
        "pair": _pair,
        "order": _order,
        "list": _list,
        "word": _word,
        "plan": _plan,
    }
    return look[kind](calls)


def _is_number(value: object) -> bool:
    return near(value, value)


def _number(calls: Sequence[Call]) -> Said | None:
    odd = next((call for call in calls if not _is_number(call.got)), None)
    if odd is None:
        return _amount([(call.got, call.right) for call in calls])
    if isinstance(odd.got, str):
        return Said("formula.text", odd.fields)
    if isinstance(odd.got, float):  # not a number, or infinite
        return None
    if all(isinstance(call.got, (list, tuple)) and call.got and all(map(_is_number, call.got)) for call in calls):
        if all(near(sum(call.got), call.right) for call in calls):
            return Said("formula.add", odd.fields)
        for place in range(min(len(call.got) for call in calls)):
            if all(near(call.got[place], call.right) for call in calls):
                return Said("formula.pick", {**odd.fields, "place": place + 1})
    return Said("formula.one_number", odd.fields)


def _amount(pairs: Sequence[tuple[Any, Any]]) -> Said | None:
    """What all of the numbers have to do with the right ones."""
    ratio = _ratio(pairs)
    if ratio is not None:
        return Said(f"formula.times{_unit(ratio)}", {"ratio": _show(ratio)})
    for digits in range(10):
        if all(near(got, round(right, digits)) for got, right in pairs):
            return Said("formula.rounded", {"digits": digits}) if digits else Said("formula.whole")
    if all(near(got, math.floor(right)) for got, right in pairs):
        return Said("formula.whole")
    return Said("formula.close") if all(near(got, right, 0.01) for got, right in pairs) else None


def _ratio(pairs: Sequence[tuple[Any, Any]]) -> float | None:
    """got / right, if that is the same everywhere."""
    ratios = [float(got) / float(right) for got, right in pairs if right]
    if not ratios or not ratios[0] or not all(near(one, ratios[0]) for one in ratios):
        return None
    return ratios[0] if all(near(got, 0) for got, right in pairs if not right) else None


def _unit(ratio: float) -> str:
    """The end of the id of the sentence about a factor."""
    size = max(abs(ratio), 1 / abs(ratio))
    if any(near(size, 10**power) for power in _POWERS):
        return "_prefix"
    if any(near(size, (1024 / 1000) ** power) or near(size, 1024**power) for power in (1, 2, 3)):
        return "_binary"
    if near(size, 8):
        return "_bits"
    return "_minus" if near(ratio, -1) else ""


def _show(ratio: float) -> str:
    """1000, 1/8, 10⁶, 1.07374."""
    if 0 < abs(ratio) < 1 and near(1 / ratio, round(1 / ratio)):
        return f"1/{_show(1 / ratio)}"
    power = next((name for power, name in _POWERS.items() if power > 3 and near(ratio, 10**power)), None)
    return power or f"{ratio:.6g}"


def _pair(calls: Sequence[Call]) -> Said | None:
    for call in calls:
        if isinstance(call.got, (dict, str, set)):
            return Said("formula.pair_kind", call.fields)
        if _is_number(call.got):
            return Said("formula.pair_one", call.fields)
        if not isinstance(call.got, (list, tuple)) or len(call.got) != 2 or not all(map(_is_number, call.got)):
            return Said("formula.pair_two", call.fields)
    parts = [[(call.got[place], call.right[place]) for call in calls] for place in (0, 1)]
    right = [all(near(got, wanted, 1e-5) for got, wanted in part) for part in parts]
    if not any(right):
        ratios = [_ratio(part) for part in parts]
        if ratios[0] and ratios[1] and near(ratios[0], ratios[1]):
            return Said(f"formula.times{_unit(ratios[0])}", {"ratio": _show(ratios[0])})
        return None
    wrong = right.index(False)
    fields: dict[str, object] = {"right": _PARTS[1 - wrong], "wrong": _PARTS[wrong]}
    ratio = _ratio(parts[wrong])
    if ratio is not None:
        return Said("formula.part_times", {**fields, "ratio": _show(ratio)})
    first = next(call for call in calls if not call.ok)
    got, wanted = first.got[wrong], first.right[wrong]
    return Said("formula.part", {**fields, "call": first.text, "got": repr(got), "expected": repr(wanted)})


def _order(calls: Sequence[Call]) -> Said | None:
    """What is no order of all ranks."""
    for call in calls:
        if isinstance(call.got, (str, dict, set)) or not isinstance(call.got, (list, tuple)):
            return Said("formula.order_kind", call.fields)
        if any(isinstance(one, (list, tuple)) for one in call.got):
            return Said("formula.order_nested", call.fields)
        if any(isinstance(one, str) for one in call.got):
            return Said("formula.order_text", call.fields)
    lists = [(list(call.got), list(range(len(call.right)))) for call in calls]
    if all(len(got) > 1 and got[0] == got[-1] and sorted(got[:-1]) == ranks for got, ranks in lists):
        return Said("formula.order_closed", calls[0].fields)
    if all(sorted(got) == [rank + 1 for rank in ranks] for got, ranks in lists):
        return Said("formula.order_from_one", calls[0].fields)
    for call, (got, ranks) in zip(calls, lists, strict=True):
        foreign = [one for one in dict.fromkeys(got) if one not in ranks]
        missing = [rank for rank in ranks if rank not in got]
        repeated = [one for one, count in Counter(got).items() if count > 1]
        for name, those in (("foreign", foreign), ("missing", missing), ("repeated", repeated)):
            if those and not (name == "missing" and repeated):
                return Said(f"formula.order_{name}", {**call.fields, "those": those})
            if those:
                return Said("formula.order_both", {**call.fields, "missing": missing, "repeated": repeated})
    return None


def _word(calls: Sequence[Call]) -> Said | None:
    """What is none of the words."""
    words = list(dict.fromkeys(call.right for call in calls))
    for call in calls:
        if call.got not in words:
            return Said("formula.word", {**call.fields, "words": [repr(word) for word in words]})
    return None


def _plan(calls: Sequence[Call]) -> Said | None:
    """What is no plan, or one for another number of GPUs, or a plan where there is none."""
    for call in calls:
        if call.got is not None and type(call.got).__name__ != "Plan":
            return Said("formula.plan_kind", call.fields)
        if call.right is None and call.got is not None:
            return Said("formula.plan_none", call.fields)
        if call.got is not None:
            gpus, wanted = (one.dp * one.pp * one.tp for one in (call.got, call.right))
            if gpus != wanted:
                return Said("formula.plan_gpus", {**call.fields, "gpus": gpus, "wanted": wanted})
    return None


def _list(calls: Sequence[Call]) -> Said | None:
    """What a list lacks, or has too much; lists inside of it are looked through."""
    wrong = [(call, {**call.fields, "right": repr(plain(call.right))}) for call in calls if not call.ok]
    for call, fields in wrong:
        if not isinstance(call.got, (list, tuple)):
            return Said("formula.list_kind", fields)
    for call, fields in wrong:
        got, right = Counter(_items(call.got)), Counter(_items(call.right))
        missing, foreign = sorted(right - got), sorted(got - right)
        if not (missing and foreign):  # else some items are others, and which they should be nobody can tell
            name = "missing" if missing else "foreign" if foreign else "order"
            return Said(f"formula.list_{name}", {**fields, "those": missing or foreign})
    for call, fields in wrong:
        if len(call.got) != len(call.right):
            return Said("formula.list_length", {**fields, "length": len(call.got), "wanted": len(call.right)})
    return None


def _items(value: Any) -> list[str]:
    """Those of all lists inside, as texts: a learner may return anything."""
    if isinstance(value, (list, tuple, range)):
        return [item for one in value for item in _items(one)]
    return [repr(value)]
