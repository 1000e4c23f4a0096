"""A report as page and as text: a plan of any workload, the plans around it, what moves it, how far to trust it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from costmodel.report.answers.memory import memory_section
from costmodel.report.answers.plan_answer import estimate
from costmodel.report.answers.plan_view import PlanBeside, PlanView
from costmodel.report.page.content import HtmlPage, Part
from costmodel.report.page.document_page import section_data, section_part
from costmodel.report.page.plan_page import plan_page
from costmodel.report.page.shared_parts import scenario_part
from costmodel.report.page.trace import Traces
from costmodel.report.terminal.style.document_lines import document_lines, section_lines
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import HEAD, styled


def report_page(view: PlanView, beside: PlanBeside, commands: Sequence[str]) -> HtmlPage:
    """A plan with what is beside it; of one that is not valid that alone."""
    traces = Traces({**({} if view.answer.refused else view.nodes), **beside.nodes})
    parts, data = list[Part](), dict[str, Any]()
    for section in beside.sections:
        parts.append(section_part(section, traces))
        data |= section_data(section, view.case, traces)
        if section.key == "plans" and beside.choices:
            parts.append(_choices_part())
            data["choices"] = beside.choices
    behind = [*(parts if view.answer.refused else []), scenario_part(view.case)]
    page = plan_page(view, commands, traces, beside=parts, behind=behind, more=beside.more)
    return replace(page, data={**page.data, **data, "trace": traces.data()})


def _choices_part() -> Part:
    """Sliders over computed plans."""
    lead = (
        "The sliders choose among plans that were computed: for each four settings the best plan that has them, "
        "its other settings below. The browser computes nothing."
    )
    return Part("what-if", "What if", lead, sliders=True, screen_only=True)


def report_text(view: PlanView, beside: PlanBeside) -> list[Line]:
    """A plan, and the answers beside it, each under its title and without lines of its head that the first has."""
    lines: list[Line] = document_lines(estimate(view))
    known = {line.plain for line in lines if isinstance(line, Text)}
    memory = [] if view.answer.refused else [*section_lines(memory_section(view.ledger()))]
    for title, other in (("Where the memory goes", memory), *((title, make()) for title, make in beside.texts)):
        rest = [*itertools.dropwhile(lambda line: isinstance(line, Text) and line.plain in known, other)]
        if rest:
            lines += [Text(), styled(title, HEAD), *rest]
    return lines
