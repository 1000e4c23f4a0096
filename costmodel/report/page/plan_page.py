"""The HTML page of one plan: its conclusion, where time and memory go, and the analyses of a report."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.workloads import workload_of
from costmodel.report.answers.communication import traffic_sections
from costmodel.report.answers.memory import memory_section
from costmodel.report.answers.plan_answer import PlanAnalyses, PlanView, estimate_document, plan_verdict, result_cell
from costmodel.report.answers.plan_parts import PlanRun
from costmodel.report.answers.run import job_sentence, run_headlines, run_sections, run_sentence
from costmodel.report.document import Draw, Headline, Section, Verdict
from costmodel.report.page.document_page import (
    SIGNS,
    HtmlPage,
    PagePart,
    PageTable,
    inputs_part,
    plain_lines,
    remark_sentences,
    scenario_part,
    section_data,
    section_part,
)
from costmodel.report.page.trace import Traces, is_light, traced_roots, with_trace
from costmodel.report.terminal.document_lines import document_lines, section_lines
from costmodel.report.terminal.head import case_title
from costmodel.report.terminal.layout import HEAD, Line, lines_of_length, styled
from costmodel.report.workload_words import words_of

RUN = "run"  # the figure of a whole run


def plan_page(
    view: PlanView,
    commands: Sequence[str],
    traces: Traces | None = None,
    run: PlanRun | None = None,
    beside: Sequence[PagePart] = (),
    behind: Sequence[PagePart] = (),
    more: str = "",
) -> HtmlPage:
    """The page of one plan, its run first if there is one.

    beside: further parts before all figures; behind: further parts at the end. more: the end of the conclusion
    """
    case, answer, words = view.case, view.answer, words_of(view.case.kind)
    about = [*plain_lines(words.titled(answer, False))]
    held, conclusion = inputs_part(case, answer.assumed), words.conclusion(answer)
    if answer.refused:
        return HtmlPage(case_title(case), about, [conclusion], "bad", [], [held, *behind], [*findings(view)], commands)
    traces = traces or traces_of(view)
    sections = [*plan_sections(view, run)]
    parts = [
        *(section_part(section, traces) for section in sections),
        *beside,
        results_part(view, traces),
        held,
        *behind,
    ]
    numbers = view.headlines() if run is None else run_headlines(view, run)
    headlines = [
        Headline(number.label, with_trace(number.value, traces), number.note, number.verdict) for number in numbers
    ]
    data = {key: value for section in sections for key, value in section_data(section, case, traces).items()}
    conclusion = f"{job_sentence(view) if run is None else f'{run_sentence(view, run)} '}{conclusion}"
    return HtmlPage(case_title(case), about, [f"{conclusion}{more}"], plan_verdict(case, answer), headlines, parts,
                    [*findings(view)], commands, {**data, "trace": traces.data()})  # fmt: skip


def plan_sections(view: PlanView, run: PlanRun | None = None) -> Iterator[Section]:
    """The sections of a plan's page, in order."""
    yield from run_sections(view, run)
    yield from (each for each in view.time() if each.face != "terminal")
    yield memory_section(view.ledger())
    yield from traffic_sections(view.traffic())
    yield from () if is_light() else view.further()


def traces_of(view: PlanView) -> Traces:
    """The traces of a valid plan."""
    return Traces(traced_roots(lambda: view.nodes))


def known_run(view: PlanView) -> PlanRun | None:
    """The run of a valid plan, if its goodput is known."""
    if view.answer.refused or math.isnan(view.answer.costs["goodput"]):
        return None
    return view.whole_run()


def plan_figure(view: PlanView, name: str) -> Draw | None:
    """The first figure of a section; none of a plan that is not valid, or has no such section."""
    if view.answer.refused:
        return None
    sections = plan_sections(view, known_run(view) if name == RUN else None)
    return next((each.figures[0]() for each in sections if each.key == name and each.figures), None)


def findings(view: PlanView) -> Iterator[tuple[Verdict, str]]:
    """Reasons against a plan, limits that it meets, and remarks."""
    answer, words, reasons = view.answer, words_of(view.case.kind), workload_of(view.case).reasons
    for code in answer.refused or answer.broken:
        yield "bad", f"{code} {reasons[code].title}: {words.reason(answer, code)}"
    if answer.refused:
        return
    for limit in stated_limits(view.case.scenario.limits):
        if limit.column in answer.costs and limit.holds(answer.costs[limit.column]):
            value, bound = (
                words.result(limit.column, each) for each in (answer.costs[limit.column], float(limit.value))
            )
            yield "good", f"{limit.key} {value} {SIGNS[limit.kind]} {bound}"
    yield from remark_sentences(answer.remarked)


def results_part(view: PlanView, traces: Traces) -> PagePart:
    """A table of all known results, each of which opens its trace."""
    rows = [
        (name, with_trace(result_cell(view, name), traces), view.columns[name].meaning)
        for name, value in view.answer.costs.items()
        if name in view.columns and math.isfinite(value)
    ]
    lead, table = "Click a number to see its equation, inputs and sources.", ("result", "value", "meaning")
    return PagePart("results", "Every figure", lead, tables=[PageTable(table, rows, "lrl")], screen_only=True)


def report_page(view: PlanView, beside: PlanAnalyses, commands: Sequence[str]) -> HtmlPage:
    """A report's page: the plan with its figures and the analyses; for an invalid plan, reasons and analyses."""
    traces = Traces({**({} if view.answer.refused else view.nodes), **beside.nodes})
    parts, data = list[PagePart](), dict[str, Any]()
    for section in beside.sections:
        parts.append(section_part(section, traces))
        data |= section_data(section, view.case, traces)
        if section.key == "plans" and beside.choices:
            parts.append(_choices_part())
            data["choices"] = beside.choices
    behind = [*(parts if view.answer.refused else []), scenario_part(view.case)]
    page = plan_page(view, commands, traces, beside=parts, behind=behind, more=beside.more)
    return replace(page, data={**page.data, **data, "trace": traces.data()})


def _choices_part() -> PagePart:
    """The part of a page with sliders over computed plans."""
    lead = "Set four values; the page shows the best computed plan that has them, and its other settings."
    return PagePart("what-if", "What if", lead, sliders=True, screen_only=True)


def report_text(view: PlanView, beside: PlanAnalyses) -> list[Line]:
    """A report as text: the plan, then each analysis under its title, without repeated head lines."""
    lines: list[Line] = [*lines_of_length(document_lines(estimate_document(view)))]
    known = {line.plain for line in lines if isinstance(line, Text)}
    memory = [] if view.answer.refused else [*section_lines(memory_section(view.ledger()))]
    for words, other in (("Where the memory goes", memory), *((words, make()) for words, make in beside.texts)):
        rest = [
            *itertools.dropwhile(lambda line: isinstance(line, Text) and line.plain in known, lines_of_length(other))
        ]
        if rest:
            lines += [Text(), styled(words, HEAD), *rest]
    return lines
