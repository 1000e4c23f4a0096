"""The page of `costmodel report` about a scenario that serves: its plan, the plans around it, what moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costmodel.explore.page.serving_facts import ServingFacts
from costmodel.ground.units import percent
from costmodel.report.answers.scaled_sizes import sizes
from costmodel.report.answers.search import ordinal, plans_section, why_section
from costmodel.report.answers.search_service import ServiceWords
from costmodel.report.answers.sensitivity import tornado
from costmodel.report.answers.serving_view import ServingView
from costmodel.report.page.content import HtmlPage, Part
from costmodel.report.page.document_page import section_data, section_part
from costmodel.report.page.plan_page import plan_page, traces_of
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
        data |= section_data(section, view.case, traces)
    if found is not None and found.best:
        words = ServiceWords(found)
        plans = plans_section(words)
        shown = [plans, *([why_section(words)] if any(found.tally.refused.values()) else [])]
        parts += [section_part(section, traces) for section in shown]
        data |= section_data(plans, view.case, traces)
    if facts.sensitive is not None and facts.sensitive.knobs:
        parts.append(section_part(tornado(facts.sensitive), traces))
    engine = view.answer.inputs.engine
    time = engine.spread.experts if view.case.model.has_experts else engine.spread.tpot
    lead = f"Errors of runs of models that the fit of {engine.name} left out: {percent(float(time))} of the time per "
    lead += f"token, {percent(float(engine.spread.ttft))} of the first token, as standard deviations."
    parts.append(bands_part(view, lead, traces))
    page = plan_page(view, commands, traces, beside=parts, behind=[scenario_part(view.case)], more=_best_words(facts))
    return replace(page, data={**page.data, **data})


def _best_words(facts: ServingFacts) -> str:
    """Where the plan stands among all, and what the best would gain."""
    found, name = facts.found, "rate_within_slo_per_s"
    if found is None or not found.best or not found.works or not found.your_rank:
        return ""
    own, best = facts.answer.costs[name], found.best[0]
    if found.your_rank == 1 or not own or best.costs[name] <= 1.0005 * own:
        return " No plan of the search answers more within the limits."
    plan = f"tp {best.sizes['tp']:.0f} · pp {best.sizes['pp']:.0f}"
    return (
        f" It ranks {ordinal(found.your_rank)} of {found.tally.fit:,} plans: the best answers "
        f"{best.costs[name] / own:.2f} × as much ({plan})."
    )
