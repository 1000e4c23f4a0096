"""Why a step is slow: what was measured beside what is predicted, and the causes that would explain the gap."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from costmodel.estimate.evaluate.answer_facts import facts_of
from costmodel.explore.diagnose.causes import Cause
from costmodel.explore.diagnose.diagnose import Diagnosis, Explanation
from costmodel.ground.units import percent, show, show_time, significant
from costmodel.report.terminal.plan.plan_lines import following, problems, titled
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import between
from costmodel.report.terminal.style.head import fact_fields, title
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import BAD, GOOD, WARN, styled

_SHOWN = 6
_TOLD_APART = 3


def diagnose(found: Diagnosis) -> list[Line]:
    """Measured and predicted first, then the causes, then the measurements that distinguish them."""
    answer = found.answer
    change = found.measured.step / found.base.step - 1
    where = "inside the band" if found.inside else "outside the band"
    band = between(show_time(found.low), show_time(found.high))
    verdict = f"{change * 100:+.1f} %, {where}".replace("-", "−")
    rows = [("measured", show_time(found.measured.step), ""), ("predicted", show_time(found.base.step), f"({band})")]
    lines: list[Line] = [*titled(answer), *problems(answer), Text(), CellTable(("", "", ""), rows, "lrl", headed=False)]
    lines.append(styled(f"  {verdict}", GOOD if found.inside else BAD))
    lines += [styled(f"  trace: {note}") for note in found.measured.notes]
    if found.inside:
        return [*lines, Text(), styled("There is nothing to explain."), following(answer, "estimate")]
    if found.of_another_job:
        words = "  ▲ Is this the same job? With such a difference, check model, sequence, batch, GPUs and unit first."
        lines.append(styled(words, WARN))
    if found.runs:
        lines += [Text(), _runs(found)]
    if found.over:
        lines += [Text(), _over(found)]
    if found.explained:
        lines += [Text(), *_table(found)]
    if found.impossible:
        nearest = sorted(found.impossible, key=lambda one: -abs(one.explains))[:_TOLD_APART]
        stated = "; ".join(f"{one.cause.name} ({_part(found, one)})" for one in nearest)
        lines.append(styled(f"  not enough alone: {stated}"))
    lines += [*_apart(found), Text()]
    if not found.explained:
        return [*lines, styled("No single cause explains it."), following(answer, "explain", "step_time")]
    first = found.explained[0]
    expected = between(*(_figure(first.cause, end) for end in first.range))
    words = f"Most likely: {first.cause.words}, {_figure(first.cause, first.value or 0.0)}; {expected} is expected."
    return [*lines, styled(words), following(answer, "sensitivity")]


def _part(found: Diagnosis, one: Explanation) -> str:
    """How much of the gap a cause explains at most."""
    most = "nothing" if one.explains == 0 else show_time(abs(one.explains))
    return f"explains {most} of {show_time(abs(found.gap))}"


def _runs(found: Diagnosis) -> CellTable:
    """Other runs that were measured."""
    rows = [(run.setting, show_time(run.measured), show_time(run.base.step)) for run in found.runs]
    return CellTable(("your other runs", "measured", "predicted"), rows, "lrr")


def _over(found: Diagnosis) -> CellTable:
    """Measured terms that differ from the prediction."""
    rows = []
    for name, time in sorted(found.over.items(), key=lambda item: -abs(item[1])):
        apart = f"{'+' if time > 0 else '−'}{show_time(abs(time))}"
        rows.append((name, show_time(found.measured.terms[name]), show_time(found.base.terms[name]), apart))
    return CellTable(("your terms", "measured", "predicted", ""), rows, "lrrr")


def _table(found: Diagnosis) -> list[Line]:
    rows = []
    for place, one in enumerate(found.explained[:_SHOWN], 1):
        needed = _figure(one.cause, one.value or 0.0)
        expected = between(*(_figure(one.cause, end) for end in one.range))
        rows.append((f"{place}", one.cause.words, needed, expected, _against(one)))
    names = ("", "one cause that would explain all of it", "needed", "expected", "")
    lines: list[Line] = [CellTable(names, rows, "rlrrl")]
    more = len(found.explained) - _SHOWN
    return [*lines, styled(f"  {more} more in --json")] if more > 0 else lines


def _figure(cause: Cause, value: float) -> str:
    """A value of a cause as people read it."""
    if cause.unit == "×":
        return f"{significant(value)} ×"
    if cause.unit == "1":
        return percent(value)
    return show(value, cause.unit)


def _against(one: Explanation) -> str:
    """The measured term that speaks most against a cause."""
    if one.against is None:
        return ""
    name, was, should = one.against
    return f"but {name} is {show_time(was)}, not {show_time(should)}"


def _apart(found: Diagnosis) -> list[Line]:
    """Measurements that distinguish the likeliest causes, each once."""
    first = found.explained[:_TOLD_APART]
    if len(first) < 2:
        return []
    of: dict[str, list[str]] = {}
    for place, one in enumerate(first, 1):
        of.setdefault(one.cause.measure, []).append(str(place))
    rows = [(measure, ", ".join(places)) for measure, places in of.items()]
    return [Text(), styled("  distinguished by"), CellTable(("", ""), rows, "lr", headed=False, indent="    ")]


def diagnose_json(found: Diagnosis) -> dict[str, Any]:
    """The same as plain values."""
    case = found.answer.inputs.case
    return {
        **head("costmodel/diagnosis/v1"),
        "title": title(case),
        "facts": fact_fields(facts_of(case), []),
        "measured_s": found.measured.step,
        "stated": dict(found.measured.stated),
        "terms_s": dict(found.measured.terms),
        "notes": list(found.measured.notes),
        "predicted_s": found.base.step,
        "predicted_low_s": found.low,
        "predicted_high_s": found.high,
        "predicted_terms_s": dict(found.base.terms),
        "other_runs": [
            {"setting": run.setting, "measured_s": run.measured, "predicted_s": run.base.step} for run in found.runs
        ],
        "inside": found.inside,
        "of_another_job": found.of_another_job,
        "causes": [_cause(one) for one in found.explained],
        "impossible": [{"cause": one.cause.name, "explains_s": one.explains} for one in found.impossible],
    }


def _cause(one: Explanation) -> dict[str, Any]:
    low, high = one.range
    against = None
    if one.against is not None:
        name, was, should = one.against
        against = {"term": name, "measured_s": was, "should_be_s": should}
    return {
        "cause": one.cause.name,
        "words": one.cause.words,
        "path": one.cause.path or None,
        "unit": "1" if one.cause.unit == "×" else one.cause.unit,
        "needed": one.value,
        "expected": one.cause.expected,
        "expected_low": low,
        "expected_high": high,
        "deviations": one.distance,
        "misfit": one.misfit,
        "against": against,
        "measure": one.cause.measure,
    }
