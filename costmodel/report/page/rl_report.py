"""The page of `costmodel report` about a scenario of reinforcement learning: its plan, its splits, what moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costmodel.explore.kept_answers import both_words
from costmodel.ground.units import percent
from costmodel.report.answers.rl_view import RlView
from costmodel.report.answers.search import plans_section, why_section
from costmodel.report.answers.search_rl import RlWords
from costmodel.report.answers.sensitivity import tornado
from costmodel.report.document import Section
from costmodel.report.page.content import HtmlPage
from costmodel.report.page.document_page import section_data, section_part
from costmodel.report.page.plan_page import plan_page, traces_of
from costmodel.report.page.shared_parts import bands_part, scenario_part


def rl_report(view: RlView, commands: Sequence[str]) -> HtmlPage:
    """One plan, the splits around it, what moves it, and the scenario."""
    if view.answer.refused:
        return plan_page(view, commands)
    facts, traces = view.facts, traces_of(view)
    found, sections, data = facts.found, list[Section](), dict[str, Any]()
    if found is not None:
        words = RlWords(found)
        plans = plans_section(words)
        sections += [plans, *([why_section(words)] if any(found.tally.refused.values()) else [])]
        data = section_data(plans, view.case, traces)
    if facts.sensitive is not None and facts.sensitive.knobs:
        sections.append(tornado(facts.sensitive))
    spread = view.case.stack.spread
    generation, update = percent(float(spread.generation)), percent(float(spread.update))
    lead = f"Errors of published iterations: {generation} of the generation, {update} of the update, as standard "
    lead += "deviations. The lengths of answers decide: state those of your own log."
    parts = [*(section_part(each, traces) for each in sections), bands_part(view, lead, traces)]
    page = plan_page(view, commands, traces, beside=parts, behind=[scenario_part(view.case)], more=_best_words(view))
    return replace(page, data={**page.data, **data})


def _best_words(view: RlView) -> str:
    """What another split would gain."""
    found = view.facts.found
    if found is None or not found.works:
        return ""
    best = found.best[0]
    ratio = view.answer.costs["iteration_time"] / best.costs["iteration_time"]
    if ratio <= 1.0005:
        return " No split of the accelerators that was tried is faster."
    return f" The best plan that was tried is {ratio:.2f} × as fast ({both_words(found.answer_of(best))})."
