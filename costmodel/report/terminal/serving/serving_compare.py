"""Answers of check and diff about serving."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costmodel.documents.schemas.results import SERVING_COLUMNS, SERVING_RESULTS, machine_name
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.compare.compare import Difference, MovedFigure
from costmodel.explore.compare.limit_findings import CheckedAnswer, LimitFinding
from costmodel.report.terminal.compare import limit_lines
from costmodel.report.terminal.compare.compare import SAME, change_words, difference_lines, inputs_json
from costmodel.report.terminal.compare.limit_lines import baseline_words, check_lines, limit_words
from costmodel.report.terminal.serving.serving_formatting import band, bound_words, digits_apart, result, with_band
from costmodel.report.terminal.serving.serving_reasons import past_bandwidth, reason
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import ENDS
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import BAD, styled

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


def diff(found: Difference, title: str) -> list[Line]:
    """What changed in the inputs, and which results moved."""
    names = ("result", "before", _BANDS[0], "after", _BANDS[1], "change", "")
    moved = CellTable(names, list(_rows(found.figures)), "krrrrrk", drop=_BANDS)
    return [*difference_lines(found, title, moved), *_overloaded(found)]


def _overloaded(found: Difference) -> Iterator[Line]:
    """Sides that cannot answer all that arrives, and what their figures are of."""
    for when, side in (("before", found.before), ("after", found.after)):
        if side.overload:
            most = result("saturation_per_s", side.figures[machine_name("saturation_per_s")])
            words = f"{when}, more arrives than is answered; its figures are at {most}, the most that is"
            yield styled(f"  ✗ {' '.join(side.overload)}: {words}", BAD)


def _rows(moves: Sequence[MovedFigure]) -> Iterator[tuple[str, ...]]:
    """Results that moved, in the order of the columns."""
    named = {_NAMES[move.name]: move for move in moves if move.name in _NAMES}
    for name, column in SERVING_RESULTS.items():
        move = named.get(name)
        if move is None or move.before is None or move.after is None or abs(move.change) < _TELLING:
            continue
        better = (move.change > 0) == (column.better == "higher")
        mark = "" if column.better == "neither" else "better" if better else "worse"
        change = change_words(move.change) if math.isfinite(move.before) and math.isfinite(move.after) else ""
        bands = _bands(named, name)
        values = result(name, move.before), bands[0], result(name, move.after), bands[1]
        yield name, *values, change, "" if change == SAME else mark


def _bands(named: Mapping[str, MovedFigure], name: str) -> tuple[str, str]:
    """What a result of the first scenario is between, and what one of the second is."""
    ends = {key: named[key] for key in (f"{name}_{end}" for end in ENDS) if key in named}
    before = {key: math.nan if move.before is None else move.before for key, move in ends.items()}
    after = {key: math.nan if move.after is None else move.after for key, move in ends.items()}
    return band(before, name), band(after, name)


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def diff_json(found: Difference) -> dict[str, Any]:
    """The same as plain values."""
    return {
        **head("costmodel/difference/v1"),
        "workload": "serving",
        "before": found.before.name,
        "after": found.after.name,
        "same": found.same,
        "inputs": inputs_json(found.inputs),
        "overload": {"before": list(found.before.overload), "after": list(found.after.overload)},
        "figures": [
            {"name": move.name, "before": _finite(move.before), "after": _finite(move.after)} for move in found.figures
        ],
    }
