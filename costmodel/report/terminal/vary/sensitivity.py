"""Answers of sensitivity: a tornado, and which figure of the hardware is the bottleneck."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.text import Text

from costmodel.documents.keys.overrides import short
from costmodel.documents.schemas.results import is_money, machine_name
from costmodel.estimate.evaluate.answer_facts import row_facts
from costmodel.explore.vary.knob import Knob
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.ground.units import significant
from costmodel.report.machine.answer_fields import known
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.charts import two_sided
from costmodel.report.terminal.style.head import with_facts
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import DIM, HEAD, styled
from costmodel.report.trials import short_path
from costmodel.report.workload_words import plan_fields, plan_head, words_of

_KNOBS_SHOWN = 16
_MANY_TIMES = 10.0  # from which a result is so many times as much, and not some hundred per cent more


def sensitivity(found: Sensitivity, shown: int = _KNOBS_SHOWN) -> list[Line]:
    """A tornado, and which figure of the hardware is the bottleneck."""
    lines = [*plan_head(found.asked, found.answer, priced=is_money(found.result)), Text()]
    lines.append(styled(f"{found.result} {words_of(found.asked.case.kind).result(found.result, found.value)}", HEAD))
    return [*lines, *_tornado(found, shown), Text(), *map(styled, bottleneck(found))]


def turned_words(knob: Knob) -> str:
    """How far a figure is turned: to either side, or up to the whole, where a share of it ends."""
    whole = next((text for text in ("1", "100 %") if knob.turned[1] == text), "")
    return f"−{knob.spread * 100:.3g} % to {whole}" if whole else f"±{knob.spread * 100:.3g} %"


def _tornado(found: Sensitivity, shown: int) -> list[Line]:
    """What moves a result down and up, most first."""
    knobs = found.knobs[:shown]
    sides = (abs(side) for knob in knobs for side in (knob.low, knob.high))
    widest = max(filter(math.isfinite, sides), default=0.0)
    names = ("figure", "is", "turned", "down", "", "up")
    rows = [_knob(knob, widest) for knob in knobs]
    lines: list[Line] = [CellTable(names, rows, "krrrlr", drop=("is", "turned", ""))]
    if len(found.knobs) > shown:
        lines.append(styled(f"  {len(found.knobs) - shown} more move it less", DIM))
    if any(knob.kind == "fitted" for knob in knobs):
        lines.append(styled("  fit.* were fitted: costmodel calibrate renews them, --set does not reach them", DIM))
    return lines


def _knob(knob: Knob, widest: float) -> tuple[str, ...]:
    sides = (_percent(knob.low), two_sided(knob.low, knob.high, widest), _percent(knob.high))
    return (settable(knob), knob.text, turned_words(knob), *sides)


def settable(knob: Knob) -> str:
    """The path that --set takes; of what was fitted, what the fit calls it."""
    return f"fit.{knob.path.partition('.efficiency.')[2]}" if knob.kind == "fitted" else short(knob.path)


def _percent(share: float) -> str:
    if math.isinf(share):
        return "no end"
    if abs(share) < 5e-6:
        return "0 %"
    if share >= _MANY_TIMES - 1:
        return f"× {significant(1 + share)}"
    digits = 2 if abs(share) < 0.001 else 1
    return f"{share * 100:+.{digits}f} %".replace("-", "−")


def bottleneck(found: Sensitivity) -> list[str]:
    """What a tenth more of each figure of the hardware would buy, most first."""
    sign = 1.0 if found.asked.columns[found.result].better == "higher" else -1.0
    gains = sorted(((sign * knob.high, knob) for knob in found.hardware), key=lambda item: -item[0])
    stated = [f"10 % more {short_path(knob.path)} buys {gain * 100:.2g} %." for gain, knob in gains[:4] if gain > 1e-5]
    return stated or ["No figure of the hardware, a tenth larger, makes it better."]


def sensitivity_json(found: Sensitivity) -> dict[str, Any]:
    """The tornado as plain values: shares by which the result changes."""
    return {
        **head("costmodel/sensitivity/v2"),
        **plan_fields(found.asked, found.answer),
        "result": machine_name(found.result),
        "value": found.value,
        "bottleneck": bottleneck(found),
        "figures": with_facts(
            row_facts(found.asked.facts),
            ({**asdict(knob), "low": known(knob.low), "high": known(knob.high)} for knob in found.knobs),
        ),
    }
