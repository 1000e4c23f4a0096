"""The answer of `diagnose`: a measured step beside the prediction, and the causes that would explain the gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costmodel.estimate.answer_facts import facts_of
from costmodel.explore.diagnose.diagnose import Cause, Diagnosis, Explanation
from costmodel.ground.units import percent, show, show_time, significant
from costmodel.report.answers.plan_answer import next_command
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, with_explain_command
from costmodel.report.terminal.formatting import range_of
from costmodel.report.terminal.head import case_title, command, fact_fields
from costmodel.report.terminal.layout import BAD, GOOD, WARN, Abridged, Line, schema_head, styled
from costmodel.report.workload_words import words_of

_SHOWN = 5
_DISTINGUISHED = 3
_SAME_JOB = "Is this the same job?"


def diagnose_document(found: Diagnosis) -> AnswerDocument:
    """The measured and the predicted step, the possible causes, and measurements that distinguish them."""
    answer, case = found.answer, found.answer.inputs.case
    words = words_of(case.kind)
    sections = [
        _measured_section(found),
        *_other_runs_section(found),
        *_terms_section(found),
        *_causes_section(found),
        *_measurements_section(found),
    ]
    concluded, measured = _conclusion(found), show_time(found.measured.step)
    verb = ("estimate",) if found.inside else ("sensitivity",) if found.explained else ("explain", "step_time")
    return AnswerDocument(
        case,
        case_title(case),
        words.titled(answer, False),
        f"{measured} measured, {show_time(found.base.step)} predicted: {_verdict_words(found)}. {concluded}",
        "good" if found.inside and not found.doubts else "bad",
        sections,
        problems=words.problems(answer),
        closing=[styled(concluded), next_command(case, *verb)],
    )


def _verdict_words(found: Diagnosis) -> str:
    """How far the measured step is from the prediction, and whether it is inside the band."""
    change = found.measured.step / found.base.step - 1
    where = "inside the band" if found.inside else "outside the band"
    return f"{change * 100:+.1f} %, {where}".replace("-", "−")


def _conclusion(found: Diagnosis) -> str:
    """A sentence on the likeliest cause, or on why none is named."""
    if found.of_another_job:
        return f"{_SAME_JOB} Check model, sequence, batch, GPUs, plan and unit first."
    if found.inside:
        return "There is nothing to explain."
    if not found.explained:
        return "No single cause explains it."
    first = found.explained[0]
    expected = range_of(*(_with_unit(first.cause, end) for end in first.range))
    needed = _with_unit(first.cause, first.value or 0.0)
    words = f"{first.cause.words}. It would have to be {needed}; {expected} is usual"
    if first.against is None and (first.confirmed or abs(first.usual) >= abs(found.gap) / 2):
        return f"Most likely: {words}."
    gap, longest = show_time(abs(found.gap)), max(found.over, key=lambda name: found.over[name], default="")
    part = f"{show_time(abs(first.usual))} of {gap}"
    seen = f" Your {longest} has {show_time(found.over[longest])} of {gap}." if found.over.get(longest, 0.0) > 0 else ""
    return f"No one cause explains most of it.{seen} First to check: {words}, which explains {part}."


def _measured_section(found: Diagnosis) -> Section:
    """A section with the measured and the predicted step in a table, and remarks on the measurement."""
    step, line, digits = found.base.step, _explain_command(found), _distinct_digits(found)
    band = range_of(show_time(found.low, digits), show_time(found.high, digits))
    rows: list[list[Cell]] = [
        ["measured", show_time(found.measured.step, digits), ""],
        ["predicted", with_explain_command(show_time(step, digits), step, "step_time", line("step_time")), f"({band})"],
    ]
    beneath = [styled(f"  {_verdict_words(found)}", GOOD if found.inside and not found.doubts else BAD)]
    beneath += [styled(f"  {note}") for note in found.measured.notes]
    beneath += [styled(f"  ▲ {doubt}", WARN) for doubt in found.doubts]
    table = Table([Column("", "k"), Column(""), Column("", "l")], rows, headed=False)
    return Section("measured", "Measured beside predicted", table=table, beneath=beneath)


def _distinct_digits(found: Diagnosis) -> int:
    """The fewest digits at which the measured step and both ends of the band look different."""
    times = [(found.measured.step, end) for end in (found.low, found.high)]
    alike = (digits for digits in range(3, 6) if all(show_time(a, digits) != show_time(b, digits) for a, b in times))
    return next(alike, 6)


def _explain_command(found: Diagnosis) -> Callable[[str], str]:
    """A function that returns the `explain` command of a result."""
    return lambda name: command(found.answer.inputs.case, "explain", name)


def _explained_part(found: Diagnosis, one: Explanation) -> str:
    """The part of the gap that a cause can explain at most, in words."""
    most = "nothing" if one.explains == 0 else show_time(abs(one.explains))
    return f"explains {most} of {show_time(abs(found.gap))}"


def _other_runs_section(found: Diagnosis) -> list[Section]:
    """A section with the other runs that the user measured; empty without any."""
    if found.inside or not found.runs:
        return []
    rows = [[run.setting, show_time(run.measured), show_time(run.base.step)] for run in found.runs]
    table = Table([Column("your other runs", "k"), Column("measured"), Column("predicted")], rows)
    return [Section("runs", "Your other runs", table=table)]


def _terms_section(found: Diagnosis) -> list[Section]:
    """A section with the measured terms of the step that differ from the prediction; empty without any."""
    if found.inside or not found.over:
        return []
    rows = list[list[Cell]]()
    for name, time in sorted(found.over.items(), key=lambda item: -abs(item[1])):
        apart = f"{'+' if time > 0 else '−'}{show_time(abs(time))}"
        rows.append([name, show_time(found.measured.terms[name]), show_time(found.base.terms[name]), apart])
    table = Table([Column("your terms", "k"), Column("measured"), Column("predicted"), Column("")], rows)
    return [Section("terms", "Your terms", table=table)]


def _causes_section(found: Diagnosis) -> list[Section]:
    """A section with the single causes that would explain the whole gap, and the nearest causes that cannot."""
    beneath, rows = list[Line](), list[list[Cell]]()
    if found.inside:
        return []
    for place, one in enumerate(found.explained, 1):
        needed = _with_unit(one.cause, one.value or 0.0)
        expected = range_of(*(_with_unit(one.cause, end) for end in one.range))
        rows.append([f"{place}", one.cause.words, needed, expected, _contradiction(one)])
    if found.impossible:
        nearest = sorted(found.impossible, key=lambda one: -abs(one.explains))[:_DISTINGUISHED]
        stated = "; ".join(f"{one.cause.name} ({_explained_part(found, one)})" for one in nearest)
        beneath.append(Abridged(f"  not enough alone: {stated}", short="", added="causes that explain only a part"))
    names = [Column(""), Column("one cause that would explain all of it", "l"), Column("would be"), Column("usual")]
    table = Table([*names, Column("", "l")], rows, brief=_SHOWN, rest="cause") if rows else None
    return [Section("causes", "Causes", table=table, beneath=beneath)] if rows or beneath else []


def _with_unit(cause: Cause, value: float) -> str:
    """The value of a cause as text with its unit."""
    if cause.unit == "×":
        return f"{significant(value)} ×"
    if cause.unit == "1":
        return percent(value)
    return show(value, cause.unit)


def _contradiction(one: Explanation) -> str:
    """The measured term that contradicts a cause most, in words; empty if none does."""
    if one.against is None:
        return ""
    name, was, should = one.against
    return f"but {name} is {show_time(was)}, not {show_time(should)}"


def _measurements_section(found: Diagnosis) -> list[Section]:
    """A section with measurements that distinguish the likeliest causes; empty for a single cause."""
    first = [] if found.inside else found.explained[:_DISTINGUISHED]
    if len(first) < 2:
        return []
    of: dict[str, list[str]] = {}
    for place, one in enumerate(first, 1):
        of.setdefault(one.cause.measure, []).append(str(place))
    rows = [[measure, ", ".join(places)] for measure, places in of.items()]
    table = Table([Column("measurement", "l"), Column("of causes")], rows, headed=False, indent="    ")
    ahead, title = [styled("  measure, to distinguish them")], "What distinguishes them"
    return [Section("apart", title, ahead=ahead, table=table, detail="what to measure", spare=1)]


def diagnose_json(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis as plain values, in seconds."""
    case = found.answer.inputs.case
    return {
        **schema_head("costmodel/diagnosis/v1"),
        "title": case_title(case),
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
        "doubts": list(found.doubts),
        "causes": [_cause_fields(one) for one in found.explained],
        "impossible": [{"cause": one.cause.name, "explains_s": one.explains} for one in found.impossible],
    }


def _cause_fields(one: Explanation) -> dict[str, Any]:
    """One cause as plain values: the needed and the expected change, and what speaks against it."""
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
        "usual_explains_s": one.usual,
        "against": against,
        "measure": one.cause.measure,
    }
