"""Answers of check and diff about serving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from costmodel.documents.schemas.serving.serving_results import RESULTS
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.result_columns import COLUMNS, machine_name
from costmodel.explore.compare.compare import Difference, MovedFigure
from costmodel.explore.serving.compare_serving import CheckedServing, ServingFinding
from costmodel.report.machine.serving_json import number
from costmodel.report.terminal.compare.compare import difference_lines, inputs_json
from costmodel.report.terminal.serving.serving_formatting import reason, result
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.head import subject_fields
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import BAD, GOOD, styled

_SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}
_NAMES = {machine_name(name): name for name in COLUMNS}
_TELLING = 1e-4  # share below which a result counts as unchanged


def check(found: Sequence[CheckedServing], *, verbose: bool) -> list[Line]:
    """What is not kept, and how many limits there are; with verbose what is kept too."""
    lines: list[Line] = []
    for checked in found:
        failed = [finding for finding in checked.findings if not finding.kept]
        lines.append(styled(f"{'✗' if failed else '✓'} {checked.name}: {_count(checked)}", BAD if failed else GOOD))
        shown = checked.findings if verbose else failed
        lines += [styled(f"    {finding_words(checked, finding)}") for finding in shown]
    return lines


def _count(checked: CheckedServing) -> str:
    limits = [finding for finding in checked.findings if finding.limit is not None]
    kept = sum(finding.kept for finding in limits)
    return f"{kept} of {len(limits)} limits kept" if limits else "no limits" if checked.kept else "not kept"


def finding_words(checked: CheckedServing, finding: ServingFinding) -> str:
    """A finding in one line."""
    if finding.limit is None:
        return f"{finding.code} {reason(checked.answer, finding.code)}"
    bound = f"{_SIGNS[finding.limit.kind]} {result(finding.name, float(finding.limit.value))}"
    place = finding.place
    where = f"  ({place.file}:{place.line})" if place is not None and place.line else ""
    return f"{'✓' if finding.kept else '✗'} {finding.name} {result(finding.name, finding.value)} {bound}{where}"


def check_json(found: Sequence[CheckedServing]) -> dict[str, Any]:
    """Everything as plain values."""
    return {
        **head("costmodel/check/v1"),
        "workload": "serving",
        "kept": all(checked.kept for checked in found),
        "scenarios": [
            {
                "name": checked.name,
                "title": checked.answer.inputs.case.title,
                "facts": subject_fields(subject_of(checked.answer.inputs.case)),
                "kept": checked.kept,
                "findings": [_finding(checked, finding) for finding in checked.findings],
            }
            for checked in found
        ],
    }


def _finding(checked: CheckedServing, finding: ServingFinding) -> dict[str, Any]:
    place, limit = finding.place, finding.limit
    return {
        "kind": limit.kind if limit is not None else finding.name,
        "name": finding.name,
        "kept": finding.kept,
        "value": None if finding.value is None else number(finding.value),
        "bound": None if limit is None else float(limit.value),
        "file": place.file if place is not None else None,
        "line": place.line or None if place is not None else None,
        "text": finding_words(checked, finding),
    }


def diff(found: Difference, title: str) -> list[Line]:
    """What changed in the inputs, and which results moved."""
    return difference_lines(found, title, list(_rows(found.figures)))


def _rows(moves: Sequence[MovedFigure]) -> Iterator[tuple[str, ...]]:
    """Results that moved, in the order of the columns."""
    named = {_NAMES[move.name]: move for move in moves if move.name in _NAMES}
    for name, column in RESULTS.items():
        move = named.get(name)
        if move is None or move.before is None or move.after is None or abs(move.change) < _TELLING:
            continue
        better = (move.change > 0) == (column.better == "higher")
        mark = "" if column.better == "neither" else "better" if better else "worse"
        yield name, result(name, move.before), result(name, move.after), f"{move.change * 100:+.1f} %", mark


def diff_json(found: Difference) -> dict[str, Any]:
    """The same as plain values."""
    return {
        **head("costmodel/difference/v1"),
        "workload": "serving",
        "before": found.before.name,
        "after": found.after.name,
        "same": found.same,
        "inputs": inputs_json(found.inputs),
        "figures": [{"name": move.name, "before": move.before, "after": move.after} for move in found.figures],
    }
