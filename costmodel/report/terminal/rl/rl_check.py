"""Answers of check and sensitivity about reinforcement learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import RL_COLUMNS, machine_name
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.explore.compare.limit_findings import CheckedAnswer, LimitFinding
from costmodel.explore.vary.rl_sensitivity import RlSensitivity
from costmodel.report.machine.rl_json import subject
from costmodel.report.terminal.compare import limit_lines
from costmodel.report.terminal.rl.rl_formatting import reason, result, titled
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import HEAD, styled
from costmodel.report.terminal.vary.sensitivity import gains_of, tornado
from costmodel.report.terminal.vary.vary import finite


def check(found: Sequence[CheckedAnswer[RlAnswer]], *, verbose: bool) -> list[Line]:
    """What is not kept, and how many limits there are; with verbose what is kept too."""
    return limit_lines.check_lines(found, finding_words, verbose=verbose)


def finding_words(checked: CheckedAnswer[RlAnswer], finding: LimitFinding) -> str:
    """A finding in one line."""
    if finding.limit is None:
        return f"{finding.code} {reason(checked.answer, finding.code)}"
    return limit_lines.limit_words(finding, result)


def check_json(found: Sequence[CheckedAnswer[RlAnswer]]) -> dict[str, Any]:
    """Everything as plain values."""
    return limit_lines.check_json(found, finding_words, "rl")


def sensitivity(found: RlSensitivity, shown: int) -> list[Line]:
    """A tornado, and which figure of the hardware is the bottleneck."""
    lines = [*titled(found.answer.inputs.case, found.answer, price="cost" in found.result), Text()]
    lines.append(styled(f"{found.result} {result(found.result, found.value)}", HEAD))
    return [*lines, *tornado(found.knobs, shown), Text(), *map(styled, gains(found))]


def gains(found: RlSensitivity) -> list[str]:
    """What a tenth more of each figure of the hardware would buy."""
    hardware = [knob for knob in found.knobs if knob.kind == "hardware"]
    return gains_of(hardware, -1.0 if RL_COLUMNS[found.result].better == "higher" else 1.0)


def sensitivity_json(found: RlSensitivity) -> dict[str, Any]:
    """The tornado as plain values: shares by which the result changes."""
    figures = ({**asdict(knob), "low": finite(knob.low), "high": finite(knob.high)} for knob in found.knobs)
    return {
        **head("costmodel/sensitivity/v1"),
        **subject(found.answer.inputs.case),
        "result": machine_name(found.result),
        "value": found.value,
        "bottleneck": gains(found),
        "figures": list(figures),
    }
