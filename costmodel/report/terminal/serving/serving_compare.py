"""Answers of check about serving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costmodel.documents.schemas.results import SERVING_COLUMNS, machine_name
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.compare.limit_findings import CheckedAnswer, LimitFinding
from costmodel.report.terminal.compare import limit_lines
from costmodel.report.terminal.compare.limit_lines import baseline_words, check_lines, limit_words
from costmodel.report.terminal.serving.serving_formatting import bound_words, digits_apart, result, with_band
from costmodel.report.terminal.serving.serving_reasons import past_bandwidth, reason
from costmodel.report.terminal.style.layout import Line

_NAMES = {machine_name(name): name for name in SERVING_COLUMNS}
_BANDS = ("P10 – P90 before", "P10 – P90 after")
_TELLING = 1e-4  # share below which a result counts as unchanged


def check(found: Sequence[CheckedAnswer[ServingAnswer]], *, verbose: bool, wrote: str = "") -> list[Line]:
    """What is not kept, and how many limits there are; with verbose what is kept too."""
    return check_lines(found, finding_words, verbose=verbose, wrote=wrote)


def finding_words(checked: CheckedAnswer[ServingAnswer], finding: LimitFinding) -> str:
    """A finding in one line."""
    if finding.limit is None and not finding.code:
        return baseline_words(finding, result)
    if finding.limit is None:
        return f"{finding.code} {reason(checked.answer, finding.code)}"
    costs, limit = checked.answer.costs, finding.limit
    value, bound = finding.value, float(limit.value)
    digits = 3 if value is None or limit.holds(value) else digits_apart(limit.column, value, bound)

    def words(name: str, figure: float) -> str:
        return with_band(costs, name, digits) if figure is value else bound_words(name, figure, digits)

    more = " of what is answered; more arrives" if checked.answer.overload and _reached(finding) else ""
    return f"{limit_words(finding, words)}{more}{past_bandwidth(finding.limit, costs['bandwidth_bound'])}"


def _reached(finding: LimitFinding) -> bool:
    """Whether the limit itself is kept, at the most that the plan answers."""
    return finding.limit is not None and finding.value is not None and finding.limit.holds(finding.value)


def check_json(found: Sequence[CheckedAnswer[ServingAnswer]]) -> dict[str, Any]:
    """Everything as plain values."""
    return limit_lines.check_json(found, finding_words, "serving")
