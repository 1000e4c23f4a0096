"""Answers of check about reinforcement learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.explore.compare.limit_findings import CheckedAnswer, LimitFinding
from costmodel.report.terminal.compare import limit_lines
from costmodel.report.terminal.rl.rl_formatting import reason, result
from costmodel.report.terminal.style.layout import Line


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
