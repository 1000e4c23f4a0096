"""The page of `costmodel report`: a plan of any workload, the plans around it, what moves it, how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from costmodel.report.answers.plan_view import PlanBeside, PlanView
from costmodel.report.answers.search import front_section, plans_section, why_section
from costmodel.report.answers.sensitivity import tornado
from costmodel.report.document import Section
from costmodel.report.page.content import HtmlPage, Part
from costmodel.report.page.document_page import section_data, section_part
from costmodel.report.page.plan_page import plan_page
from costmodel.report.page.shared_parts import scenario_part
from costmodel.report.page.trace import Traces


def report_page(view: PlanView, beside: PlanBeside, commands: Sequence[str]) -> HtmlPage:
    """A plan with what is beside it; of one that is not valid that alone."""
    traces = Traces({**({} if view.answer.refused else view.nodes), **beside.nodes})
    parts, data = list[Part](), dict[str, Any]()
    for section in _sections(beside):
        parts.append(section_part(section, traces))
        data |= section_data(section, view.case, traces)
        if section.key == "plans" and beside.choices:
            parts.append(_choices_part())
            data["choices"] = beside.choices
    behind = [*(parts if view.answer.refused else []), scenario_part(view.case)]
    page = plan_page(view, commands, traces, beside=parts, behind=behind, more=beside.more)
    return replace(page, data={**page.data, **data, "trace": traces.data()})


def _sections(beside: PlanBeside) -> Iterator[Section]:
    """Sizes, the front and the best plans of the search, why not the others, what moves the plan, and evidence."""
    yield from beside.ahead
    words, sensitive = beside.words, beside.sensitive
    if words is not None and words.found.best:
        front = words.found.front
        if front is not None and front.rows:
            yield front_section(words, front, len(front.rows))
        yield plans_section(words)
    if words is not None and any(words.found.tally.refused.values()):
        yield why_section(words)
    if sensitive is not None and sensitive.knobs:
        yield tornado(sensitive)
    yield from beside.evidence


def _choices_part() -> Part:
    """Sliders over computed plans."""
    lead = (
        "The sliders choose among plans that were computed: for each four settings the best plan that has them, "
        "its other settings below. The browser computes nothing."
    )
    return Part("what-if", "What if", lead, sliders=True, screen_only=True)
