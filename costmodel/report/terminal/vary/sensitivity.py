"""Answers of sensitivity: a tornado, and which figure of the hardware is the bottleneck."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from costmodel.documents.keys.overrides import short
from costmodel.documents.schemas.results import TRAINING_COLUMNS, is_money, machine_name
from costmodel.estimate.evaluate.answer_facts import facts_of, row_facts
from costmodel.explore.compare.plan_figures import choices
from costmodel.explore.vary.sensitivity import Knob, Sensitivity
from costmodel.ground.units import significant
from costmodel.report.machine.json_answer import whole_plan
from costmodel.report.terminal.plan.plan_words import brief_words
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.charts import two_sided
from costmodel.report.terminal.style.formatting import result
from costmodel.report.terminal.style.head import fact_fields, head_of, title, with_facts
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import DIM, HEAD, styled
from costmodel.report.terminal.vary.vary import finite, short_path

_KNOBS_SHOWN = 16
_MANY_TIMES = 10.0  # from which a result is so many times as much, and not some hundred per cent more


def sensitivity(found: Sensitivity, shown: int = _KNOBS_SHOWN) -> list[Line]:
    """A tornado, and which figure of the hardware is the bottleneck."""
    best = "" if found.case.scenario.plan else "of the best plan, "
    lines: list[Line] = [
        *head_of(found.case, priced=is_money(found.result)),
        styled(f"{best}{brief_words(found.plan)}"),
    ]
    lines += [Text(), styled(f"{found.result} {result(found.result, found.value)}", HEAD)]
    return [*lines, *tornado(found.knobs, shown), Text(), *map(styled, bottleneck(found))]


def around(knob: Knob) -> str:
    """How far a figure is turned to either side."""
    return f"±{knob.spread * 100:.3g} %"


def tornado(figures: Sequence[Knob], shown: int, turned: Callable[[Knob], str] = around) -> list[Line]:
    """What moves a result down and up, most first; turned: how far a figure is, in words."""
    knobs = figures[:shown]
    sides = (abs(side) for knob in knobs for side in (knob.low, knob.high))
    widest = max(filter(math.isfinite, sides), default=0.0)
    rows = [_knob(knob, widest, turned(knob)) for knob in knobs]
    names = ("figure", "is", "turned", "down", "", "up")
    lines: list[Line] = [CellTable(names, rows, "krrrlr", drop=("is", "turned", ""))]
    if len(figures) > shown:
        lines.append(styled(f"  {len(figures) - shown} more move it less", DIM))
    if any(knob.kind == "fitted" for knob in knobs):
        lines.append(styled("  fit.* were fitted: costmodel calibrate renews them, --set does not reach them", DIM))
    return lines


def _knob(knob: Knob, widest: float, turned: str) -> tuple[str, ...]:
    sides = (_percent(knob.low), two_sided(knob.low, knob.high, widest), _percent(knob.high))
    return (settable(knob), knob.text, turned, *sides)


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
    return gains_of(found.hardware, -1.0 if TRAINING_COLUMNS[found.result].better == "higher" else 1.0)


def gains_of(hardware: Sequence[Knob], sign: float) -> list[str]:
    """The same of some figures, for a result that is better the higher, −1, or the lower, 1."""
    gains = sorted(((-sign * knob.high, knob) for knob in hardware), key=lambda item: -item[0])
    stated = [f"10 % more {short_path(knob.path)} buys {gain * 100:.2g} %." for gain, knob in gains[:4] if gain > 1e-5]
    return stated or ["No figure of the hardware, a tenth larger, makes it better."]


def sensitivity_json(found: Sensitivity) -> dict[str, Any]:
    """The tornado as plain values: shares by which the result changes."""
    return {
        **head("costmodel/sensitivity/v1"),
        "title": title(found.case),
        "facts": fact_fields(facts_of(found.case)),
        "result": machine_name(found.result),
        "value": found.value,
        "plan": whole_plan(choices(found.plan)),
        "bottleneck": bottleneck(found),
        "figures": with_facts(
            row_facts(facts_of(found.case)),
            ({**asdict(knob), "low": finite(knob.low), "high": finite(knob.high)} for knob in found.knobs),
        ),
    }
