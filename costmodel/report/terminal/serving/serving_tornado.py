"""What moves a result of a serving plan: a tornado, and which figure of the hardware is the bottleneck."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import SERVING_COLUMNS, SERVING_RESULTS, machine_name
from costmodel.explore.vary.sensitivity import Knob
from costmodel.explore.vary.serving_sensitivity import ServingSensitivity
from costmodel.report.machine.serving_json import plan_frame
from costmodel.report.terminal.serving.overload_words import at_most_lines
from costmodel.report.terminal.serving.serving_estimate import titled
from costmodel.report.terminal.serving.serving_formatting import result
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import HEAD, styled
from costmodel.report.terminal.vary.sensitivity import around, gains_of, tornado
from costmodel.report.terminal.vary.vary import finite


def sensitivity(found: ServingSensitivity, shown: int) -> list[Line]:
    """A tornado, and which figure of the hardware is the bottleneck."""
    lines = [*titled(found.answer, price="cost" in found.result), *at_most_lines(found.answer), Text()]
    lines.append(styled(f"{found.result} {result(found.result, found.value)}", HEAD))
    return [*lines, *tornado(found.knobs, shown, _turned), Text(), *map(styled, gains(found))]


def _turned(knob: Knob) -> str:
    """How far a figure is turned: to either side, or up to the whole, where a share of it ends."""
    whole = next((text for text in ("1", "100 %") if knob.turned[1] == text), "")
    return f"−{knob.spread * 100:.3g} % to {whole}" if whole else around(knob)


def gains(found: ServingSensitivity) -> list[str]:
    """What a tenth more of each figure of the hardware would buy."""
    better = SERVING_RESULTS.get(found.result, SERVING_COLUMNS[found.result]).better
    hardware = [knob for knob in found.knobs if knob.kind == "hardware"]
    return gains_of(hardware, -1.0 if better == "higher" else 1.0)


def sensitivity_json(found: ServingSensitivity) -> dict[str, Any]:
    """The tornado as plain values: shares by which the result changes."""
    figures = ({**asdict(knob), "low": finite(knob.low), "high": finite(knob.high)} for knob in found.knobs)
    return {
        **head("costmodel/sensitivity/v1"),
        **plan_frame(found.answer),
        "result": machine_name(found.result),
        "value": found.value,
        "bottleneck": gains(found),
        "figures": list(figures),
    }
