"""The page of `costmodel report`: one scenario whole, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costmodel.estimate.shared.plan_batch import one_row
from costmodel.explore.kept_answers import brief_words
from costmodel.explore.page.ranked_nodes import RankedFacts
from costmodel.explore.page.report_facts import ReportFacts
from costmodel.explore.search.rank import Plan
from costmodel.explore.search.variants import Inputs
from costmodel.report.answers.search import SearchWords, front_section, ordinal, plans_section, why_section
from costmodel.report.answers.search_training import TrainingWords
from costmodel.report.answers.sensitivity import tornado
from costmodel.report.answers.training_view import TrainingView
from costmodel.report.page.content import HtmlPage, Part
from costmodel.report.page.document_page import section_data, section_part
from costmodel.report.page.evidence_part import measured_data, measured_part
from costmodel.report.page.plan_choices import choices_data
from costmodel.report.page.plan_page import plan_page
from costmodel.report.page.shared_parts import scenario_part
from costmodel.report.page.trace import Traces


def report_page(view: TrainingView, facts: ReportFacts, commands: Sequence[str]) -> HtmlPage:
    """A scenario: its plan, the plans around it, what moves it, and measured runs on its accelerator."""
    found = facts.found
    ranked = RankedFacts(found).nodes if found is not None and found.best else {}
    traces = Traces(ranked if view.answer.refused else {**view.nodes, **ranked})
    choices = choices_data(found, facts.choices) if found is not None and facts.choices else None
    beside = _parts(facts, view, traces, sliders=choices is not None)
    behind = [*(beside if view.answer.refused else []), scenario_part(view.case)]
    page = plan_page(view, commands, traces, beside=beside, behind=behind, more=_best_words(facts, view))
    data: dict[str, Any] = {}
    if found is not None and found.best:
        data |= section_data(plans_section(TrainingWords(found)), view.case, traces)
    data |= {"choices": choices} if choices else {}
    data |= {"measured": measured_data([figure.groups["source_family"] for figure in facts.measured])}
    return replace(page, data={**page.data, **data, "trace": traces.data()})


def _best_words(facts: ReportFacts, view: TrainingView) -> str:
    """Where the plan stands among all, and what the best would gain."""
    found = facts.found
    if found is None or not found.best or found.yours is None or found.your_rank is None:
        return ""
    ratio = view.answer.costs["step_time"] / found.best[0].costs["step_time"]
    if found.your_rank == 1 or ratio <= 1.0005:
        return " No plan of the search is better."
    best = brief_words(one_row(found.best[0].structure, **found.best[0].sizes))
    risky = ", but its memory may not suffice" if "N023" in found.best[0].remarked else ""
    return (
        f" It ranks {ordinal(found.your_rank)} of {found.tally.safe:,} plans: the best is {ratio:.2f} × as fast{risky} "
        f"({best})."
    )


def _parts(facts: ReportFacts, view: TrainingView, traces: Traces, *, sliders: bool) -> list[Part]:
    made, found = list[Part | None](), facts.found
    if found is not None and found.best:
        made += search_parts(TrainingWords(found), traces)
        made += [choices_part()] if sliders else []
    if found is not None and any(found.tally.refused.values()):
        made.append(section_part(why_section(TrainingWords(found)), traces))
    if facts.sensitive is not None and facts.sensitive.knobs:
        made.append(section_part(tornado(facts.sensitive), traces))
    made.append(measured_part(facts.measured, view.case.accelerator))
    return [part for part in made if part is not None]


def search_parts(words: SearchWords[Inputs, Plan], traces: Traces) -> list[Part]:
    """The front of a search, and its best plans."""
    front = words.found.front
    sections = [front_section(words, front, len(front.rows))] if front is not None and front.rows else []
    return [section_part(section, traces) for section in (*sections, plans_section(words))]


def choices_part() -> Part:
    """Sliders over computed plans."""
    lead = (
        "The sliders choose among plans that were computed: for each four settings the best plan that has them, "
        "its other settings below. The browser computes nothing."
    )
    return Part("what-if", "What if", lead, sliders=True, screen_only=True)
