"""The answer of `diagnose`: a measured step beside the prediction, and the causes that would explain the gap."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from costmodel.estimate.answer_facts import facts_of
from costmodel.explore.diagnose.diagnose import Cause, Diagnosis, Explanation, OtherJob
from costmodel.explore.diagnose.measured_step import WHOLE, figure_of_step
from costmodel.ground.units import percent, show, show_time, significant
from costmodel.report.answers.plan_answer import next_command
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, with_explain_command
from costmodel.report.terminal.formatting import range_of
from costmodel.report.terminal.head import case_title, command, fact_fields, setting_options
from costmodel.report.terminal.layout import BAD, GOOD, WARN, Abridged, Line, schema_head, styled
from costmodel.report.workload_words import words_of

_SHOWN = 5
_DISTINGUISHED = 3
_TIMES = 2.0  # times as long from which a difference is no percentage
_SAME_JOB = "Is this the same job?"


def diagnose_document(found: Diagnosis) -> AnswerDocument:
    """The measured and the predicted step, the possible causes, and measurements that distinguish them."""
    answer, case = found.answer, found.answer.inputs.case
    words = words_of(case.kind)
    sections = [
        _measured_section(found),
        *_other_runs_section(found),
        *_terms_section(found),
        *_other_jobs_section(found),
        *_causes_section(found),
        *_measurements_section(found),
    ]
    concluded, measured = _conclusion(found), _in_stated_figure(found, found.measured.step)
    predicted = _in_stated_figure(found, found.base.step)
    verb = ("estimate",) if found.inside else ("sensitivity",) if found.explained else ("explain", "step_time")
    return AnswerDocument(
        case,
        case_title(case),
        words.titled(answer, False),
        f"{measured} measured, {predicted} predicted: {_verdict_words(found)}. {concluded}",
        "good" if found.inside and not found.doubts else "bad",
        sections,
        problems=words.problems(answer),
        closing=[styled(concluded), next_command(case, *verb)],
    )


def _verdict_words(found: Diagnosis) -> str:
    """How far the measured figure is from the prediction, and whether it is inside the band."""
    times = found.measured.step / found.base.step
    where = f"{'inside' if found.inside else 'outside'} the band"
    if _stated(found) == "step_time" and times >= _TIMES:
        return f"{significant(times)} × as long, {where}"
    change = (times if _stated(found) == "step_time" else 1 / times) - 1
    judged = "" if found.inside or _stated(found) == "step_time" else f" too {'low' if found.gap > 0 else 'high'},"
    return f"{change * 100:+.1f} %,{judged} {where}".replace("-", "−")


def _stated(found: Diagnosis) -> str:
    """The figure that states the measured step: step_time where it is one of them."""
    return "step_time" if "step_time" in found.measured.stated else next(iter(found.measured.stated), "step_time")


def _conclusion(found: Diagnosis) -> str:
    """A sentence on the likeliest cause, on the terms that hold the gap, or on why none is named."""
    if found.inside and not found.doubts:
        return "There is nothing to explain."
    if found.of_another_job:
        return _other_job_words(found)
    first = next(iter(found.explained), None)
    if first is not None and _is_likely(found, first):
        expected = range_of(*(_with_unit(first.cause, end) for end in first.range))
        needed = _with_unit(first.cause, first.value or 0.0)
        return f"Most likely: {first.cause.words}. It would be {needed}; {expected} {first.cause.base} is usual."
    held = _held_words(found) if found.longest else "No one cause usually explains most of it."
    if found.terms_hold_it:
        return f"{held}{_to_check(found)}"
    return f"{held} First to check: {_usual_words(found, first)}" if first else "No single cause explains it."


def _held_words(found: Diagnosis) -> str:
    """A sentence on how much of the gap the measured terms hold."""
    parts = ", ".join(f"{_term_words(name)} {show_time(abs(time))}" for name, time in found.longest)
    return f"Of the {show_time(abs(found.gap))} {'above' if found.gap > 0 else 'below'} the prediction: {parts}."


def _is_likely(found: Diagnosis, one: Explanation) -> bool:
    """Whether measured terms confirm a cause, or it usually explains most of the gap."""
    return one.against is None and (one.confirmed or abs(one.usual) >= abs(found.gap) / 2)


def _usual_words(found: Diagnosis, first: Explanation) -> str:
    """A cause, with how much of the gap it usually explains at most."""
    part = f"{show_time(abs(first.usual))} of {show_time(abs(found.gap))}"
    return f"{first.cause.words}, which usually explains up to {part}."


def _other_job_words(found: Diagnosis) -> str:
    """The question whether the step is of this job, with what would take as long."""
    check = "Check model, sequence, batch, GPUs, plan and unit first."
    if found.others:
        options = [_option(found, one) for one in found.others]
        stated = show_time(found.measured.step)
        check = f"{stated} is a step with {', or '.join(options)}."
    first = next(iter(found.explained), None) if found.others else None
    return f"{_SAME_JOB} {check}" + (f" If it is, first to check: {_usual_words(found, first)}" if first else "")


def _option(found: Diagnosis, one: OtherJob) -> str:
    """The option that states the setting of another job."""
    return setting_options(found.answer.inputs.case, [one.setting])


def _term_words(name: str) -> str:
    """A measured term in words.

    >>> [_term_words(name) for name in ("dp_exposed", "launch", "matmul", "tp_time")]
    ['exposed dp communication', 'idle gaps (launch)', 'matmul', 'tp communication']
    """
    axis, _, what = name.rpartition("_")
    if what in ("exposed", "time") and axis:
        return f"{'exposed ' if what == 'exposed' else ''}{axis} communication"
    return "idle gaps (launch)" if name == "launch" else name.replace("_", " ")


def _causes_of_term(found: Diagnosis, term: str) -> list[Cause]:
    """The causes that change a measured term, those that agree with the other terms first."""
    return [one.cause for one in (*found.explained, *found.impossible) if term in one.moved]


def _plain_words(cause: Cause) -> str:
    """A cause without its part, its examples and how it acts."""
    return re.split(r" \(|:| that hides", cause.words)[0]


def _to_check(found: Diagnosis) -> str:
    """What to measure for the longest of the terms that hold the gap; empty if no cause changes it."""
    causes = _causes_of_term(found, found.longest[0][0])
    return f" Measure first: {causes[0].measure}." if causes else ""


def _measured_section(found: Diagnosis) -> Section:
    """A section with the measured and the predicted step in a table, and remarks on the measurement."""
    step, line, stated = found.base.step, _explain_command(found), _stated(found)
    ends = (found.low, found.high) if stated == "step_time" else (found.high, found.low)
    times = (
        ["", ""] if stated == "step_time" else [f"a step of {show_time(each)}" for each in (found.measured.step, step)]
    )
    measured, predicted, *band = (_in_stated_figure(found, each) for each in (found.measured.step, step, *ends))
    what = " MFU" if stated == "mfu" else ""
    known = with_explain_command(f"{predicted}{what}", step, stated, line(stated))
    rows: list[list[Cell]] = [
        ["measured", f"{measured}{what}", "", times[0]],
        ["predicted", known, f"({range_of(*band)})", times[1]],
    ]
    beneath = [styled(f"  {_verdict_words(found)}", GOOD if found.inside and not found.doubts else BAD)]
    held = found.answer.inputs.case.accelerator.held_against
    if stated == "mfu" and held is not None:
        runs = f"{held.runs:,.0f} published runs on {found.answer.inputs.case.accelerator.name}"
        beneath.append(styled(f"  of {runs} half are predicted within {percent(held.median, 2)}"))
    beneath += [styled(f"  {note}") for note in found.measured.notes]
    beneath += [styled(f"  ▲ {doubt}", WARN) for doubt in found.doubts]
    table = Table([Column("", "k"), Column(""), Column("", "l"), Column("", "l")], rows, headed=False)
    return Section("measured", "Measured beside predicted", table=table, beneath=beneath)


def _in_stated_figure(found: Diagnosis, seconds: float) -> str:
    """A step time as text, in the figure that was measured: a time, an MFU, or tokens per second."""
    stated = _stated(found)
    figure = figure_of_step(found.answer, found.base, stated, seconds)
    if stated == "step_time":
        return show_time(figure, _distinct_digits(found))
    return percent(figure) if stated == "mfu" else show(figure, WHOLE[stated])


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


def _other_jobs_section(found: Diagnosis) -> list[Section]:
    """A section with other sizes of the job that take the measured step; empty without any."""
    rows: list[list[Cell]] = []
    for one in found.others:
        band = range_of(show_time(one.low), show_time(one.high))
        rows.append([_option(found, one), show_time(one.step), f"({band})", _accumulation_words(one)])
    table = Table(
        [Column("a job that takes as long", "k"), Column("predicted"), Column("", "l"), Column("", "l")], rows
    )
    return [Section("others", "Other jobs that take as long", table=table)] if rows else []


def _accumulation_words(one: OtherJob) -> str:
    """The gradient accumulation of a job in words."""
    return f"{one.micro_batches:,.0f} micro-batch{'' if one.micro_batches == 1 else 'es'} a step"


def _terms_section(found: Diagnosis) -> list[Section]:
    """A section with the measured terms of the step that differ from the prediction; empty without any."""
    if found.inside or not found.over:
        return []
    rows = list[list[Cell]]()
    for name, time in sorted(found.over.items(), key=lambda item: -abs(item[1])):
        apart = f"{'+' if time > 0 else '−'}{show_time(abs(time))}"
        causes = ", ".join(_plain_words(cause) for cause in _causes_of_term(found, name))
        rows.append([name, show_time(found.measured.terms[name]), show_time(found.base.terms[name]), apart, causes])
    names = [
        Column("your terms", "k"),
        Column("measured"),
        Column("predicted"),
        Column("apart"),
        Column("caused by", "l"),
    ]
    return [Section("terms", "Your terms", table=Table(names, rows))]


def _causes_section(found: Diagnosis) -> list[Section]:
    """A section with the single causes that would explain the whole gap, and the nearest causes that cannot.

    Where measured terms hold the gap and none of these causes explains them, only -v shows it.
    """
    beneath, rows = list[Line](), list[list[Cell]]()
    if found.inside:
        return []
    for place, one in enumerate(found.explained, 1):
        needed = _with_unit(one.cause, one.value or 0.0)
        expected = range_of(*(_with_unit(one.cause, end) for end in one.range))
        against = _contradiction(one)
        usually = show_time(abs(one.usual))
        rows.append(
            [f"{place}", one.cause.words, usually, needed, expected, ", ".join(filter(None, (one.cause.base, against)))]
        )
    if found.impossible:
        nearest = sorted(found.impossible, key=lambda one: -abs(one.explains))[:_DISTINGUISHED]
        stated = "; ".join(f"{one.cause.name} ({_explained_part(found, one)})" for one in nearest)
        beneath.append(Abridged(f"  not enough alone: {stated}", short="", added="causes that explain only a part"))
    names = [Column(""), Column("cause, alone", "l"), Column("usually up to"), Column("would be"), Column("usual")]
    table = Table([*names, Column("", "l")], rows, brief=_SHOWN, rest="cause") if rows else None
    detail = "single causes" if _terms_conclude(found) else ""
    return [Section("causes", "Causes", table=table, beneath=beneath, detail=detail)] if rows or beneath else []


def _terms_conclude(found: Diagnosis) -> bool:
    """Whether measured terms hold the gap, and no single cause agrees with them."""
    return found.terms_hold_it and not any(_is_likely(found, one) for one in found.explained[:1])


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
    first = [] if found.inside or _terms_conclude(found) else found.explained[:_DISTINGUISHED]
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
        "other_jobs": [
            {"setting": one.setting, "micro_batches": one.micro_batches, "predicted_s": one.step}
            for one in found.others
        ],
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
