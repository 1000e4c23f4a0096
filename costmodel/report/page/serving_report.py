"""The page of `costmodel report` about a scenario that serves: its plan, the plans around it, what moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costmodel.ground.units import percent
from costmodel.report.answers.scaled_sizes import sizes
from costmodel.report.answers.sensitivity import tornado
from costmodel.report.answers.serving_view import ServingView
from costmodel.report.page.content import HtmlPage, Part
from costmodel.report.page.document_page import section_data, section_part
from costmodel.report.page.plan_page import plan_page, traces_of
from costmodel.report.page.serving_parts import best_words, plans_data, plans_part, why_part
from costmodel.report.page.shared_parts import bands_part, scenario_part


def serving_report(view: ServingView, commands: Sequence[str]) -> HtmlPage:
    """One plan under its load, the capacity by rate, the best plans, what moves the time per token."""
    if view.answer.refused:
        return plan_page(view, commands)
    facts, traces = view.facts, traces_of(view)
    found, parts, data = facts.found, list[Part](), dict[str, Any]()
    if facts.sizes is not None:
        section = sizes(facts.sizes)
        parts.append(section_part(section, traces))
        data |= section_data(section, view.case)
    if found is not None and found.best:
        parts += [part for part in (plans_part(found), why_part(found)) if part is not None]
        data["plans"] = plans_data(found)
    if facts.sensitive is not None and facts.sensitive.knobs:
        parts.append(section_part(tornado(facts.sensitive), traces))
    engine = view.answer.inputs.engine
    time = engine.spread.experts if view.case.model.has_experts else engine.spread.tpot
    lead = f"Errors of runs of models that the fit of {engine.name} left out: {percent(float(time))} of the time per "
    lead += f"token, {percent(float(engine.spread.ttft))} of the first token, as standard deviations."
    parts.append(bands_part(view, lead, traces))
    page = plan_page(view, commands, traces, beside=parts, behind=[scenario_part(view.case)], more=best_words(facts))
    return replace(page, data={**page.data, **data})
