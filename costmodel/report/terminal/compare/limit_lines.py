"""Answers of check about serving and reinforcement learning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.explore.compare.limit_findings import CheckedAnswer, LimitFinding
from costmodel.explore.safety import chance_column
from costmodel.ground.counts import number_of
from costmodel.ground.units import rounded_percent
from costmodel.report.machine import runner_forms
from costmodel.report.machine.answer_fields import flags_json
from costmodel.report.machine.runner_forms import RunnerCase, RunnerSuite
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.head import job_lines, origin_lines, subject_fields, title
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import BAD, DIM, GOOD, WARN, chance_style, styled

UNKNOWN, EXACT = "known", "exact"  # findings about a baseline as a whole
UNKNOWN_WORDS = "▲ not in the baseline; --update adds it"
_SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}
Words = Callable[[CheckedAnswer[Any], LimitFinding], str]


def check_lines(found: Sequence[CheckedAnswer[Any]], words: Words, *, verbose: bool, wrote: str = "") -> list[Line]:
    """What is not kept, and how many limits there are; with verbose what is kept too."""
    lines: list[Line] = []
    for checked in found:
        failed = [finding for finding in checked.findings if not finding.kept]
        lines += job_lines(checked.answer.inputs.case.asked.assumed)
        counted = styled(f"{'✗' if failed else '✓'} {checked.name}: {_count(checked)}", BAD if failed else GOOD)
        lines.append(counted if failed else Text.assemble(counted, _chance(checked.answer)))
        lines += [styled(f"    {line.plain}", DIM) for line in origin_lines(checked.answer.inputs.case)]
        shown = checked.findings if verbose else failed
        lines += [styled(f"    {words(checked, finding)}") for finding in shown]
        if not verbose and any(finding.name == UNKNOWN and finding.kept for finding in checked.findings):
            lines.append(styled(f"    {UNKNOWN_WORDS}", WARN))
    return [*lines, styled(f"{wrote} holds today's figures of {len(found)}.")] if wrote else lines


def _chance(answer: Any) -> Text:
    """The chance to keep the limits of a plan that keeps them, amber where a search would not prefer it."""
    serves = answer.inputs.case.kind == "serving"
    chance = float(answer.costs.get(chance_column(answer.inputs.case.kind), math.nan))
    if math.isnan(chance):
        return styled("")
    return styled(
        f" · {rounded_percent(chance, 1).replace('%', ' %')} chance to {'keep them' if serves else 'fit'}",
        chance_style(chance),
    )


def _count(checked: CheckedAnswer[Any]) -> str:
    limits = [finding for finding in checked.findings if finding.limit is not None]
    figures = [finding for finding in checked.findings if finding.bound is not None]
    parts = [f"{sum(finding.kept for finding in limits)} of {len(limits)} limits kept"] if limits else []
    if figures:
        parts.append(f"{sum(finding.kept for finding in figures)} of {len(figures)} no worse than the baseline")
    return ", ".join(parts) or ("no limits" if checked.kept else "not kept")


def baseline_words(finding: LimitFinding, say: Callable[[str, float], str]) -> str:
    """A figure against that of a baseline in one line: both, and by how much it may be worse."""
    mark = "✓" if finding.kept else "✗"
    if finding.name == UNKNOWN:
        return UNKNOWN_WORDS if finding.kept else f"{mark} not in the baseline; --update adds it"
    assert finding.value is not None
    assert finding.bound is not None
    if finding.name == EXACT:
        return f"{mark} {finding.value:.0f} of {finding.bound:.0f} figures moved"
    now, before = say(finding.name, finding.value), say(finding.name, finding.bound)
    return f"{mark} {finding.name} {now}, before {before}; it may be worse by {finding.allowed * 100:g} %"


def limit_words(finding: LimitFinding, text_of: Callable[[str, float], str]) -> str:
    """A limit in one line: what it is, what it may be, where that is written."""
    assert finding.limit is not None
    assert finding.value is not None
    bound = f"{_SIGNS[finding.limit.kind]} {text_of(finding.name, float(finding.limit.value))}"
    place = finding.place
    where = f"  ({place.file}:{place.line})" if place is not None and place.line else ""
    return f"{'✓' if finding.kept else '✗'} {finding.name} {text_of(finding.name, finding.value)} {bound}{where}"


def forms_for_runners(found: Sequence[CheckedAnswer[Any]], words: Words) -> dict[str, Callable[[], str]]:
    """What runners of CI read: annotations of GitHub, and JUnit's XML."""
    return {
        "github": lambda: runner_forms.github(_suites(found, words), _summary(found)),
        "junit": lambda: runner_forms.junit(_suites(found, words)),
    }


def _suites(found: Sequence[CheckedAnswer[Any]], words: Words) -> list[RunnerSuite]:
    return [
        RunnerSuite(
            checked.name,
            checked.answer.inputs.case.file,
            tuple(_runner_case(checked, finding, words) for finding in checked.findings),
        )
        for checked in found
    ]


def _runner_case(checked: CheckedAnswer[Any], finding: LimitFinding, words: Words) -> RunnerCase:
    kind = finding.limit.kind if finding.limit is not None else _kind(finding)
    name = " ".join(dict.fromkeys(part for part in (kind, finding.code or finding.name) if part))
    return RunnerCase(name, words(checked, finding).lstrip("✗✓▲ "), finding.kept, finding.place)


def _summary(found: Sequence[CheckedAnswer[Any]]) -> str:
    """How many of all things held failed."""
    findings = [finding for checked in found for finding in checked.findings]
    failed = sum(not finding.kept for finding in findings)
    of = number_of(len(found), "scenario")
    if not findings:
        return f"{of}, with nothing to check: give them limits, or name a baseline with --against"
    return f"{failed} of {len(findings)} failed" if failed else f"{len(findings)} kept, {of}"


def check_json(found: Sequence[CheckedAnswer[Any]], words: Words, workload: str) -> dict[str, Any]:
    """Everything as plain values."""
    return {
        **head("costmodel/check/v1"),
        "workload": workload,
        "kept": all(checked.kept for checked in found),
        "scenarios": [
            {
                "name": checked.name,
                "title": title(checked.answer.inputs.case),
                "facts": subject_fields(subject_of(checked.answer.inputs.case)),
                "flags": flags_json(checked.answer.inputs.case.asked),
                "kept": checked.kept,
                "findings": [_finding(checked, finding, words) for finding in checked.findings],
            }
            for checked in found
        ],
    }


def _finding(checked: CheckedAnswer[Any], finding: LimitFinding, words: Words) -> dict[str, Any]:
    place, limit, value = finding.place, finding.limit, finding.value
    return {
        "kind": limit.kind if limit is not None else _kind(finding),
        "name": finding.name,
        "kept": finding.kept,
        "value": value if value is not None and math.isfinite(value) else None,
        "bound": finding.bound if limit is None else float(limit.value),
        "file": place.file if place is not None else None,
        "line": place.line or None if place is not None else None,
        "text": words(checked, finding),
    }


def _kind(finding: LimitFinding) -> str:
    """What a finding is that is no limit."""
    return "regression" if finding.bound is not None and finding.name != EXACT else finding.name
